//! `kubexm-bundle catalogue refresh`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use kubexm_builder::refresh::{Ask, Refreshed, refresh, text};
use kubexm_builder::session::{Selection, Session};
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
/// named, since their images must be compared before a bundle can carry them. No lock changes: `lock`, `build` and `update`
/// use the overlay where --catalogue names it. Where cluster.yaml names only a minor of Kubernetes, the newest patch in the
/// overlay is used then, and so is the newest patch of CRI-O; of everything else the default stays.
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
    /// Replace a file that is there, also an earlier overlay
    #[arg(long)]
    force: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    fetching: Fetching,
}

/// A version that a cluster would get.
struct Effect {
    name: String,
    now: String,
    then: String,
}

/// What a cluster would get.
#[derive(Default)]
struct Effects {
    all: Vec<Effect>,
    /// Why nothing can be compared: it cannot be made with the catalogue as it is, or not with the overlay either.
    note: Option<String>,
}

pub fn run(args: &Refresh, session: &Session, display: &Display) -> Result<(), Failure> {
    let catalogue = session.catalogue(&args.catalogue)?;
    let cluster = args.file.as_deref().map(|file| session.cluster(Some(file), None)).transpose()?;
    let cluster = cluster.map(|(_, cluster)| cluster);
    let only: BTreeSet<String> = args.components.iter().cloned().collect();
    known(&only, &catalogue)?;
    let source_date = clock::source_date()?;
    if let Some(target) = &args.output {
        written::alone(target, args.json)?;
        written::apart(target, &inputs(args, session))?;
        written::check(target, &kinds::OVERLAY, args.force)?;
    }
    let choice = session.zone(args.zone.as_deref(), cluster.as_ref())?;
    session.advise(&choice.warnings, &choice.notes);
    let day = session.today(source_date);
    let mut found = ask(args, session, &catalogue, &choice.zone, &only)?;
    let overlay = text(&found, &day);
    // Before anything else can fail: origins count requests.
    if let (Some(target), Some(overlay)) = (&args.output, &overlay) {
        written::put(target, &kinds::OVERLAY, args.force, overlay.as_bytes(), display)?;
    }
    let effects = effects(&catalogue, overlay.as_deref(), cluster.as_ref())?;
    if let (Some(file), Some(note)) = (&args.file, &effects.note) {
        found.notes.push(format!("{}: {note}", file.display()));
    }
    let ended = ended(&catalogue, cluster.as_ref(), &day);
    match display.mode() {
        Mode::Json => display.answer(&document(args, &found, &effects, &ended, overlay.is_some()).to_string()),
        _ => show(args, session, display, (&found, &effects, &ended)),
    }
    Ok(())
}

/// The files on this machine that are read.
fn inputs(args: &Refresh, session: &Session) -> Vec<PathBuf> {
    let Refresh { file, catalogue, zone, .. } = args;
    session.inputs(&Selection {
        file: file.clone(),
        catalogue: catalogue.clone(),
        zone: zone.clone(),
        ..Selection::default()
    })
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
fn effects(catalogue: &Catalogue, overlay: Option<&str>, cluster: Option<&Cluster>) -> Result<Effects, Failure> {
    let (Some(cluster), Some(overlay)) = (cluster, overlay) else { return Ok(Effects::default()) };
    let with = catalogue.clone().overlaid(overlay).map_err(|e| Failure::from_error(e.exit_code(), &e))?;
    let note = |text: String| Ok(Effects { all: Vec::new(), note: Some(text) });
    let (now, then) = match (require(cluster, catalogue), require(cluster, &with)) {
        (Ok(now), Ok(then)) => (now, then),
        (Err(error), Ok(_)) => return note(format!("possible with the overlay, and was not before: {error}")),
        (_, Err(error)) => return note(format!("not possible with the overlay either: {error}")),
    };
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
    Ok(Effects { all, note: None })
}

/// What is at its end: of the cluster that is named, or of what the defaults are made of.
fn ended(catalogue: &Catalogue, cluster: Option<&Cluster>, day: &str) -> Vec<Notice> {
    let default = kubexm_spec::cluster::for_version(None);
    let Ok(requirements) = require(cluster.unwrap_or(&default), catalogue) else { return Vec::new() };
    notices(&requirements, catalogue, day)
}

/// On standard output; on standard error where the overlay is the only thing on standard output.
fn show(
    args: &Refresh,
    session: &Session,
    display: &Display,
    (found, effects, ended): (&Refreshed, &Effects, &[Notice]),
) {
    let (news, conclusion) = news(args, found, effects);
    if args.output.as_deref().is_some_and(is_stdout) {
        let warnings: Vec<String> = ended.iter().map(ToString::to_string).collect();
        session.advise(&warnings, &[&*news, &found.notes, &conclusion].concat());
        return;
    }
    news.iter().for_each(|text| display.answer(text));
    found.notes.iter().for_each(|note| display.answer(&format!("note: {note}")));
    ended.iter().for_each(|notice| display.answer(&format!("warning: {notice}")));
    conclusion.iter().for_each(|text| display.answer(text));
}

/// What is newer; and what follows from it.
fn news(args: &Refresh, found: &Refreshed, effects: &Effects) -> (Vec<String>, Vec<String>) {
    let components = found.components.iter().map(|(name, versions)| {
        let versions: Vec<&str> = versions.keys().map(String::as_str).collect();
        format!("newer: {name} {}", versions.join(", "))
    });
    let charts = found.features.iter().map(|(name, versions)| {
        format!("newer chart: {name} {} (its images are not compared: the overlay has it not)", versions.join(", "))
    });
    let news = components.chain(charts).collect();
    let mut conclusion = Vec::new();
    if let Some(file) = &args.file {
        let file = file.display();
        conclusion
            .extend(effects.all.iter().map(|one| format!("{file}: {} {} becomes {}", one.name, one.now, one.then)));
        if effects.all.is_empty() && effects.note.is_none() {
            conclusion.push(format!("{file}: nothing changes: it names its versions, or they are the newest"));
        }
    }
    conclusion.extend(match (&args.output, found.components.is_empty()) {
        (_, true) => Some("nothing newer is published with a digest".to_owned()),
        (Some(target), false) if is_stdout(target) => None,
        (Some(target), false) => Some(format!("{}: written; --catalogue takes it", target.display())),
        (None, false) => Some("-o FILE writes an overlay with these".to_owned()),
    });
    (news, conclusion)
}

fn document(args: &Refresh, found: &Refreshed, effects: &Effects, ended: &[Notice], new: bool) -> Value {
    let effects: Vec<Value> =
        effects.all.iter().map(|e| json!({"key": e.name, "now": e.now, "then": e.then})).collect();
    json!({
        "schema": "kubexm.io/catalogue-refresh/v1", "components": found.components, "charts": found.features,
        "notes": found.notes, "notices": ended, "changes": effects,
        "file": args.output.as_ref().filter(|_| new),
    })
}
