//! `kubexm-bundle catalogue refresh`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use kubexm_builder::refresh::{Ask, Refreshed, refresh, text};
use kubexm_builder::session::Session;
use kubexm_files::is_stdout;
use kubexm_manifests::{Catalogue, Notice, Zone, notices, require};
use kubexm_spec::yaml::nearest;
use kubexm_spec::{ArtifactKey, Cluster, ExitCode};
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::{Value, json};

use super::super::fetching::{self, Fetching};
use super::super::{clock, kinds, written};

/// Ask origins what is newer than this program's catalogue, and write it as an overlay
///
/// Newer patches and newer lines of programs, with the digests that upstream publishes beside them; charts that are newer are
/// named, since their images must be compared before a bundle can carry them. No default changes, and no lock: `lock`,
/// `build` and `update` take the overlay where --catalogue names it.
///
/// Examples:
///   kubexm-bundle catalogue refresh                                 # what is newer, and what is past its end
///   kubexm-bundle catalogue refresh -o newer.yaml -f cluster.yaml   # and what this cluster would get by it
///   kubexm-bundle catalogue refresh --component kubelet --component containerd --zone inside.yaml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Refresh {
    /// Only these programs and charts
    #[arg(long = "component", value_name = "NAME")]
    components: Vec<String>,
    /// Where the overlay is written
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Say what this cluster would get by it
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Overlays that are known already
    #[arg(long, value_name = "FILE")]
    catalogue: Vec<PathBuf>,
    /// Zone name (global, cn) or a zone file
    #[arg(long, value_name = "NAME|FILE")]
    zone: Option<String>,
    /// Replace a file that is no overlay of this verb
    #[arg(long)]
    force: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    fetching: Fetching,
}

/// What a cluster would get.
struct Effect {
    name: String,
    now: String,
    then: String,
}

pub fn run(args: &Refresh, session: &Session, display: &Display) -> Result<(), Failure> {
    let catalogue = session.catalogue(&args.catalogue)?;
    let cluster = args.file.as_deref().map(|file| session.cluster(Some(file), None)).transpose()?;
    let cluster = cluster.map(|(_, cluster)| cluster);
    let only: BTreeSet<String> = args.components.iter().cloned().collect();
    known(&only, &catalogue)?;
    if let Some(target) = &args.output {
        written::alone(target, args.json)?;
        written::check(target, &kinds::OVERLAY, args.force)?;
    }
    let choice = session.zone(args.zone.as_deref(), cluster.as_ref())?;
    session.advise(&choice.warnings, &choice.notes);
    let day = session.today(clock::source_date());
    let found = ask(args, session, &catalogue, &choice.zone, &only)?;
    let overlay = text(&found, &day);
    let effects = effects(&catalogue, overlay.as_deref(), cluster.as_ref())?;
    let ended = ended(&catalogue, cluster.as_ref(), &day);
    if let (Some(target), Some(overlay)) = (&args.output, &overlay) {
        written::put(target, &kinds::OVERLAY, args.force, overlay.as_bytes(), display)?;
    }
    match display.mode() {
        Mode::Json => display.answer(&document(args, &found, &effects, &ended, overlay.is_some()).to_string()),
        // Then the overlay is the only thing on standard output.
        _ if args.output.as_deref().is_some_and(is_stdout) => (),
        _ => show(args, display, &found, &effects, &ended),
    }
    Ok(())
}

fn ask(
    args: &Refresh,
    session: &Session,
    catalogue: &Catalogue,
    zone: &Zone,
    only: &BTreeSet<String>,
) -> Result<Refreshed, Failure> {
    if args.fetching.offline {
        let text = "catalogue refresh asks origins what is newer: leave out --offline".to_owned();
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let origins = session.origins(&args.fetching.options())?;
    let ask = Ask { catalogue, zone, only, origins: &origins };
    Ok(fetching::runtime()?.block_on(refresh(ask))?)
}

/// Names that the catalogue does not have are slips.
fn known(only: &BTreeSet<String>, catalogue: &Catalogue) -> Result<(), Failure> {
    let all = || catalogue.components.keys().chain(catalogue.features.keys()).map(String::as_str);
    match only.iter().find(|name| !all().any(|known| known == name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let near: Vec<&str> = nearest(name, all()).into_iter().take(3).collect();
            let text = format!("the catalogue knows no {name}; nearest: {}", near.join(", "));
            Err(Failure::new(ExitCode::UnknownVersion, text))
        }
    }
}

/// The versions of a cluster that are others with the overlay.
fn effects(catalogue: &Catalogue, overlay: Option<&str>, cluster: Option<&Cluster>) -> Result<Vec<Effect>, Failure> {
    let (Some(cluster), Some(overlay)) = (cluster, overlay) else { return Ok(Vec::new()) };
    let with = catalogue.clone().overlaid(overlay).map_err(|e| Failure::from_error(e.exit_code(), &e))?;
    let of = |catalogue: &Catalogue| require(cluster, catalogue).map_err(|e| Failure::from_error(e.exit_code(), &e));
    let (now, then) = (of(catalogue)?, of(&with)?);
    let versions =
        |name: &ArtifactKey| then.items.iter().find(|item| item.key == *name).map(|item| item.version.clone());
    let mut all: Vec<Effect> = Vec::new();
    for item in &now.items {
        let (name, now) = (item.key.to_string(), item.version.clone());
        let Some(then) = versions(&item.key).filter(|then| *then != now) else { continue };
        if all.iter().all(|known| known.name != name) {
            all.push(Effect { name, now, then });
        }
    }
    Ok(all)
}

/// What is at its end: of the cluster that is named, or of what the defaults are made of.
fn ended(catalogue: &Catalogue, cluster: Option<&Cluster>, day: &str) -> Vec<Notice> {
    let default = kubexm_spec::cluster::for_version(None);
    let Ok(requirements) = require(cluster.unwrap_or(&default), catalogue) else { return Vec::new() };
    notices(&requirements, catalogue, day)
}

fn show(args: &Refresh, display: &Display, found: &Refreshed, effects: &[Effect], ended: &[Notice]) {
    for (name, versions) in &found.components {
        let versions: Vec<&str> = versions.keys().map(String::as_str).collect();
        display.answer(&format!("newer: {name} {}", versions.join(", ")));
    }
    for (name, versions) in &found.features {
        display.answer(&format!(
            "newer chart: {name} {} (its images are not compared: the overlay has it not)",
            versions.join(", ")
        ));
    }
    found.notes.iter().for_each(|note| display.answer(&format!("note: {note}")));
    ended.iter().for_each(|notice| display.answer(&format!("warning: {notice}")));
    if let Some(file) = &args.file {
        for effect in effects {
            display.answer(&format!("{}: {} {} becomes {}", file.display(), effect.name, effect.now, effect.then));
        }
        if effects.is_empty() {
            display
                .answer(&format!("{}: nothing changes: it names its versions, or they are the newest", file.display()));
        }
    }
    match (&args.output, found.components.is_empty()) {
        (_, true) => display.answer("nothing newer is published with a digest"),
        (Some(target), false) => display.answer(&format!("{}: written; --catalogue takes it", target.display())),
        (None, false) => display.answer("-o FILE writes an overlay with these"),
    }
}

fn document(args: &Refresh, found: &Refreshed, effects: &[Effect], ended: &[Notice], new: bool) -> Value {
    let effects: Vec<Value> = effects.iter().map(|e| json!({"key": e.name, "now": e.now, "then": e.then})).collect();
    json!({
        "schema": "kubexm.io/catalogue-refresh/v1", "components": found.components, "charts": found.features,
        "notes": found.notes, "notices": ended, "changes": effects,
        "file": args.output.as_ref().filter(|_| new),
    })
}
