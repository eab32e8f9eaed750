//! `kubexm-bundle lock`.

use std::path::PathBuf;

use kubexm_builder::session::lockfile;
use kubexm_builder::verbs::lock::{check, lock, write};
use kubexm_builder::verbs::update::size;
use kubexm_files::is_stdout;
use kubexm_spec::counted_of;
use kubexm_spec::lock::LockItem;
use kubexm_terminal::{Failure, bytes};

use crate::args::{Fetching, What};
use crate::context::Context;

/// Lock every artifact by digest, so that a build is the same for everybody
///
/// The lock is a text for version control: one field a line, items in a stable order, so that a merge
/// request shows what changes. `build --locked` builds just what it says; `update` renews it, whole or
/// item by item. Each item says why its digest is trusted:
///   pinned             the catalogue that kubexm-bundle was released with has the digest
///   overlay            a catalogue overlay of yours has it
///   upstream-checksum  upstream publishes it beside the file
///   mirror             only a mirror has answered for it
///   oci-digest         the registry answered the tag with it
///   gpg                a key of the distribution has signed what lists it, or the package itself
///   pinned-sha256      nobody has signed the package: only build --locked takes it, by this lock
///   user, self-built   you gave it, or it is this very program
///
/// Sizes that the catalogue lacks are asked by HEAD, of two places where there are two; where they disagree, or report none, the
/// file is fetched, and so is what has no digest yet.
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

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let session = context.session;
    let needed = args.what.read(session)?;
    let target = args.output.clone().unwrap_or_else(|| lockfile::default_path(args.what.file.as_deref()));
    context.check_output(&target)?;
    let fetching = args.fetching.options();
    check(session, &target, &args.what.selection()?, &fetching, args.force)?;
    session.advise(&needed.warnings, &needed.notes);
    let lock = lock(session, &needed, &fetching, context.runtime()?.handle())?;
    let locked = write(&target, &lock, &needed, args.force, &|content| context.stdout(content))?;
    if !args.json && !is_stdout(&target) {
        lock.items.iter().for_each(|item| context.line(line(item)));
    }
    let (target, artifacts) = (target.display(), counted_of(&lock.items, "artifact"));
    context.done(format!("{target} ({artifacts}, {})", bytes(locked.bytes)), &locked)
}

/// One item: what, how much, and why its digest is trusted.
fn line(item: &LockItem) -> String {
    let platform = item.platform.map(|platform| platform.to_string()).unwrap_or_default();
    format!(
        "{:32} {:16} {platform:12} {:>10}  {:17} {}",
        item.key.to_string(),
        item.version,
        bytes(size(item)),
        item.trust.to_string(),
        item.digest().short()
    )
}
