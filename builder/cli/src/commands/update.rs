//! `kubexm-bundle update`.

use std::path::PathBuf;

use kubexm_builder::drift::drift;
use kubexm_builder::lock::Sizes;
use kubexm_builder::locked::with_places;
use kubexm_builder::resolve::resolve;
use kubexm_builder::session::{Locking, Needed, Session};
use kubexm_builder::update::{changes, chosen, merged, only};
use kubexm_spec::event::EventKind;
use kubexm_spec::{ArtifactKey, ExitCode, Lock, counted_of};
use kubexm_terminal::{Display, Failure};
use serde_json::json;

use super::fetching::{self, Fetching};
use super::what::What;
use super::{kinds, lockfile, written};

/// Lock anew: everything, or just the items that are named
///
/// Items are named as `explain` names them: by key (image/pause), name (kubeadm), or image
/// (quay.io/cilium/cilium). The others stay as they are, byte for byte. What changes is printed.
/// Files that are named are fetched, so that their sizes are not what an origin tells but what they are.
///
/// Examples:
///   kubexm-bundle update -f cluster.yaml                  # everything
///   kubexm-bundle update -f cluster.yaml kubelet kubeadm
///   kubexm-bundle update -f cluster.yaml --dry-run docker.io/library/busybox
///   kubexm-bundle update -f cluster.yaml --zone site.yaml --sources   # a mirror moved, or the lock is another site's
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Items to lock anew; without any, all of them
    #[arg(value_name = "ITEM", conflicts_with = "sources")]
    items: Vec<String>,
    /// Write only the places where the items may be had in this zone: no digest changes, and nobody is asked
    #[arg(long)]
    sources: bool,
    #[command(flatten)]
    what: What,
    /// The lock [default: cluster.lock.json beside cluster.yaml, by its name]
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    #[command(flatten)]
    fetching: Fetching,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let path = args.lock.clone().unwrap_or_else(|| lockfile::default_path(args.what.file.as_deref()));
    let old = lockfile::read(&path)?;
    if !args.dry_run {
        written::check(&path, &kinds::LOCK, false)?;
    }
    let needed = args.what.read(session)?;
    session.advise(&needed.warnings, &needed.notes);
    let new = renewed(args, &needed, &old, session)?;
    let changed = changes(&old, &new);
    if new != old && !args.dry_run {
        lockfile::write(&path, &new, false, display)?;
    }
    if !args.json {
        changed.iter().for_each(|changed| display.answer(&lockfile::changed_line(changed)));
    }
    let left = drift(&needed.requirements, &new);
    if !left.is_empty() {
        let lines: Vec<String> = left.iter().map(|difference| format!("\n- {difference}")).collect();
        let text = format!(
            "{} still not as needed; name what it is about too, or nothing:{}",
            match left.len() {
                1 => "1 thing is".to_owned(),
                many => format!("{many} things are"),
            },
            lines.concat()
        );
        display.emit(EventKind::Warning { text });
    }
    let would = if args.dry_run { " would change" } else { " changed" };
    display.emit(EventKind::Result {
        ok: true,
        exit_code: ExitCode::Ok.code(),
        summary: format!("{}: {} of {}{would}", path.display(), changed.len(), counted_of(&new.items, "item")),
        data: Some(json!({
            "file": path, "written": new != old && !args.dry_run,
            "changed": changed.iter().map(lockfile::changed_value).collect::<Vec<_>>(),
            "artifacts": new.items.len(), "differences": left, "unverified": needed.doubts,
        })),
    });
    Ok(())
}

fn renewed(args: &Args, needed: &Needed, old: &Lock, session: &Session) -> Result<Lock, Failure> {
    if args.sources {
        return Ok(with_places(&needed.requirements, old, &needed.catalogue, &needed.zone));
    }
    let whole = resolve(&needed.requirements, &needed.zone);
    let keys = match args.items.as_slice() {
        [] => None,
        words => Some(chosen(words, &needed.requirements, old).map_err(|(word, near)| unknown(&word, &near))?),
    };
    let other = old.zone.as_ref().filter(|was| keys.is_some() && **was != whole.zone);
    if let Some(was) = other {
        let now = &whole.zone;
        let text = format!(
            "the lock was made in zone {was}, and this is {now}: give --zone {was}, or update all items; `kubexm-bundle update --sources` brings the lock into this zone without another digest"
        );
        return Err(Failure::new(ExitCode::Usage, text));
    }
    // What is solved is solved as one: a package by itself would not fit the others.
    let needs: Vec<_> = match &keys {
        Some(keys) => {
            needed.requirements.packages.iter().filter(|need| has_packages(keys, &need.os)).cloned().collect()
        }
        None => needed.requirements.packages.clone(),
    };
    let resolution = match &keys {
        Some(keys) => only(&whole, keys),
        None => whole,
    };
    // Images of charts that are locked already stay, unless everything is locked anew.
    let whole = |new| match &keys {
        Some(keys) => merged(old, &new, keys, &needed.requirements),
        None => new,
    };
    // Whoever names an item wants it right: a size is not asked for again that may have been a lie.
    let sizes = if keys.is_some() { Sizes::Fetched } else { Sizes::Reported };
    let fetching = args.fetching.options();
    let origins = session.origins(&fetching)?;
    let locking = Locking { resolution: &resolution, packages: &needs, sizes, jobs: fetching.jobs };
    Ok(fetching::runtime()?.block_on(session.lock_part(needed, &origins, &locking, whole))?)
}

/// Whether packages of an operating system are among what is named.
fn has_packages(keys: &[ArtifactKey], of: &str) -> bool {
    keys.iter().any(|key| matches!(key, ArtifactKey::Package { os, .. } if os == of))
}

/// A name that stands for nothing, with the nearest ones.
pub fn unknown(word: &str, near: &[String]) -> Failure {
    let near = if near.is_empty() { String::new() } else { format!("; the nearest are {}", near.join(", ")) };
    Failure::new(ExitCode::UnknownVersion, format!("nothing here is called {word:?}{near}"))
}
