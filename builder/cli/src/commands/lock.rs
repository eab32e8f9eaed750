//! `kubexm-bundle lock`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubexm_builder::session::Session;
use kubexm_files::is_stdout;
use kubexm_spec::event::EventKind;
use kubexm_spec::{ExitCode, Lock, counted_of};
use kubexm_terminal::{Display, Failure, bytes};
use serde_json::json;

use super::fetching::{self, Fetching};
use super::what::What;
use super::{kinds, lockfile, written};

/// Write down every artifact by digest, so that a build is the same for everybody
///
/// The lock is a text for version control: one field a line, items in a stable order, so that a merge
/// request shows what changes. `build --locked` builds just what it says; `update` renews it, whole or
/// item by item. Why each digest is trusted is said of each item:
///   pinned             the catalogue that kubexm-bundle was released with has the digest
///   overlay            a catalogue overlay of yours has it
///   upstream-checksum  upstream publishes it beside the file
///   mirror             only a mirror has answered for it
///   oci-digest         the registry answered the tag with it
///   gpg                a key of the distribution has signed what lists it, or the package itself
///   pinned-sha256      nobody has signed the package: only build --locked takes it, by this lock
///   user, self-built   you gave it, or it is this very program
///
/// Sizes that the catalogue lacks are asked by HEAD, of two places where there are two; what they tell differently, or not at
/// all, is fetched, and so is what has no digest before.
///
/// Examples:
///   kubexm-bundle lock -f cluster.yaml                    # writes cluster.lock.json
///   kubexm-bundle lock -f cluster.yaml --zone cn -o cn.lock.json
///   kubexm-bundle build -f cluster.yaml --locked
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    what: What,
    /// The lock's file, - is standard output [default: cluster.lock.json beside cluster.yaml, by its name]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file that is not a lock
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    fetching: Fetching,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let needed = args.what.read(session)?;
    let target = args.output.clone().unwrap_or_else(|| lockfile::default_path(args.what.file.as_deref()));
    let to_stdout = is_stdout(&target);
    written::alone(&target, args.json)?;
    written::apart(&target, &args.what.files(session))?;
    written::check(&target, &kinds::LOCK, args.force)?;
    session.advise(&needed.warnings, &needed.notes);
    let fetching = args.fetching.options();
    let origins = session.origins(&fetching)?;
    let locked = fetching::runtime()?.block_on(session.lock(&needed, &origins, fetching.jobs))?;
    lockfile::write(&target, &locked, args.force, display)?;
    if !args.json && !to_stdout {
        locked.items.iter().for_each(|item| display.answer(&lockfile::line(item)));
    }
    let total: u64 = locked.blobs().values().sum();
    display.emit(EventKind::Result {
        ok: true,
        exit_code: ExitCode::Ok.code(),
        summary: format!("{} ({}, {})", target.display(), counted_of(&locked.items, "artifact"), bytes(total)),
        data: Some(json!({
            "file": target, "zone": locked.zone, "kubernetes": locked.kubernetes,
            "artifacts": locked.items.len(), "bytes": total, "trust": trust(&locked), "unverified": needed.doubts,
            "verified": needed.verified, "notices": needed.notices,
        })),
    });
    Ok(())
}

/// How many items are trusted for which reason.
fn trust(lock: &Lock) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for item in &lock.items {
        *counts.entry(item.trust.to_string()).or_default() += 1;
    }
    counts
}
