//! `kubexm-bundle update`.

use std::path::PathBuf;

use kubexm_builder::session::lockfile;
use kubexm_builder::verbs::update::{ChangedItem, Content, Request, read, update};
use kubexm_spec::counted;
use kubexm_terminal::Failure;

use crate::args::{Fetching, What};
use crate::context::Context;

/// Lock anew: everything, or just the items that are named
///
/// Items are named as `explain` names them: by key (image/pause), name (kubeadm), or image
/// (quay.io/cilium/cilium). The others stay as they are, byte for byte. What changes is printed.
/// Files that are named are fetched, so that their sizes are measured, and not only what an origin reports.
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

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let session = context.session;
    let file = args.lock.clone().unwrap_or_else(|| lockfile::default_path(args.what.file.as_deref()));
    let fetching = args.fetching.options();
    let (sources, dry_run) = (args.sources, args.dry_run);
    let request = Request { file: &file, items: &args.items, sources, fetching: &fetching, dry_run };
    let old = read(&request)?;
    let needed = args.what.read(session)?;
    session.advise(&needed.warnings, &needed.notes);
    let updated = update(session, &request, &needed, &old, context.runtime()?.handle())?;
    if !args.json {
        updated.changed.iter().for_each(|changed| context.line(line(changed)));
    }
    if !updated.differences.is_empty() {
        let things = match updated.differences.len() {
            1 => "1 thing is".to_owned(),
            many => format!("{many} things are"),
        };
        let lines: String = updated.differences.iter().map(|difference| format!("\n- {difference}")).collect();
        context.warn(format!("{things} still not as needed; name what it is about too, or nothing:{lines}"));
    }
    let would = if dry_run { " would change" } else { " changed" };
    let items = counted(updated.artifacts as u64, "item");
    context.done(format!("{}: {} of {items}{would}", file.display(), updated.changed.len()), &updated)
}

fn line(changed: &ChangedItem) -> String {
    let of = |content: &Content| {
        let version = if content.version.is_empty() { "-" } else { content.version.as_str() };
        format!("{version} {} ({})", content.digest.short(), content.trust)
    };
    let platform = changed.platform.map_or_else(|| "any".to_owned(), |platform| platform.to_string());
    let sides: Vec<String> = [&changed.old, &changed.new].into_iter().flatten().map(of).collect();
    let only = changed.only.map(|what| format!(" (other {what})")).unwrap_or_default();
    format!("{} {:32} {platform:12} {}{only}", changed.change.mark(), changed.key.to_string(), sides.join(" -> "))
}
