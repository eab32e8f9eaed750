//! `kubexm-bundle build`.

use std::path::PathBuf;

use kubexm_archive::Options;
use kubexm_builder::session::lockfile;
use kubexm_builder::verbs::build::{Checked, Request, build, check, locked};
use kubexm_builder::verbs::{dry_run, hand_over};
use kubexm_spec::counted;
use kubexm_terminal::{Failure, bytes};

use crate::args::{Fetching, KeyArgs, What, size};
use crate::context::Context;

/// Resolve, lock, fetch and pack everything a cluster needs into one file
///
/// Everything that was fetched stays in a cache that builds share; a build that was stopped continues where it was.
///
/// Examples:
///   kubexm-bundle build -f cluster.yaml
///   kubexm-bundle build --kubernetes v1.35.4 --zone cn
///   kubexm-bundle build -f cluster.yaml --dry-run            # what would go in; needs no network
///   kubexm-bundle build -f cluster.yaml --locked             # just what cluster.lock.json says (see lock --help)
///   kubexm-bundle build -f cluster.yaml --images-from list.txt
///   kubexm-bundle build -f cluster.yaml --split 4095M        # for a FAT32 stick
///   kubexm-bundle build -f cluster.yaml --split 4095M --hand-over carry --key release.key
///   kubexm-bundle build -f cluster.yaml --base inventory.json -o site-delta.tar.zst
///   kubexm-bundle build -f cluster.yaml --zone mirror.yaml --catalogue own-builds.yaml -o site.tar.zst
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    what: What,
    /// The bundle's file; - is standard output [default: NAME-VERSION-ARCHES.tar.zst]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file that is not a bundle
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    fetching: Fetching,
    /// Level of zstd for what is not compressed yet (1 to 19)
    #[arg(long, value_name = "N", default_value_t = Options::DEFAULT_LEVEL, value_parser = clap::value_parser!(i32).range(1..=19))]
    level: i32,
    /// Volumes NAME.tar.zst.001 … of at most this size (4095M for FAT32), with NAME.sums; K, M, G are powers of 1024
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    split: Option<u64>,
    /// A delta: leave out the blobs that are on the far side already, by a bundle, its manifest.json, or the inventory that
    /// kubexm-install wrote there
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// Then make a folder to be carried by hand (see hand-over --help), with volumes of --split, signed when a key is given
    #[arg(long, value_name = "DIR")]
    hand_over: Option<PathBuf>,
    #[command(flatten)]
    key: KeyArgs,
    /// Build just what the lock says; refused when cluster.yaml or catalogue need anything else now
    #[arg(long)]
    locked: bool,
    /// The lock, with --locked [default: cluster.lock.json beside cluster.yaml, by its name]
    #[arg(long, value_name = "FILE", requires = "locked")]
    lock: Option<PathBuf>,
    /// Leave out where the artifacts are from: internal addresses of mirrors, and the zone's name. cluster.yaml is carried as it
    /// is: name the zone by --zone or KMZONE where nobody is to read it
    #[arg(long)]
    no_sources: bool,
    /// Only show what would go in, how large it is, and from where
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: ask the origins for sizes that are not known here
    #[arg(long, requires = "dry_run")]
    sizes: bool,
    /// One JSON event a line; with --dry-run one JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let session = context.session;
    let needed = args.what.read(session)?;
    let lock_file =
        args.locked.then(|| args.lock.clone().unwrap_or_else(|| lockfile::default_path(args.what.file.as_deref())));
    let lock = locked(lock_file.as_deref())?;
    let (fetching, runtime) = (args.fetching.options(), context.runtime()?);
    // What a dry run writes to standard output is its list.
    if let Some(output) = args.output.as_ref().filter(|_| !args.dry_run) {
        context.check_bundle_output(output, args.split)?;
    }
    let installers = &*args.fetching.installer;
    let folder = args.hand_over.as_deref();
    let request = Request {
        selection: &args.what.selection()?,
        fetching: &fetching,
        target: args.output.as_deref(),
        force: args.force,
        lock: lock_file.as_deref(),
        options: Options { level: args.level, split: args.split, ..Options::default() },
        base: args.base.as_deref(),
        hand_over: folder.map(|folder| hand_over::Request {
            folder,
            name: None,
            split: args.split,
            installers,
            force: false,
        }),
        key: &args.key.source()?,
        sources: !args.no_sources,
        tool: concat!("kubexm-bundle ", env!("CARGO_PKG_VERSION")),
    };
    if args.dry_run {
        let Checked { target, base, .. } = check(session, &needed, &request)?;
        let request = dry_run::Request {
            ask: args.sizes,
            locked: lock.as_ref(),
            fetching: &fetching,
            split: args.split,
            target: &target,
            hand_over: folder,
            base: base.as_ref(),
        };
        let list = dry_run::dry_run(session, &needed, &request, runtime.handle())?;
        return context.answer(&list, |list| {
            session.advise(list.warnings, list.notes);
            session.advise(&list.missing, &[]);
            super::dry_run::lines(list, args.sizes)
        });
    }
    let built = build(session, &needed, lock.as_ref(), &request, runtime.handle())?;
    if let Some(handed_over) = built.hand_over.as_ref().filter(|_| !args.json) {
        super::hand_over::lines(handed_over).iter().for_each(|line| context.line(line));
    }
    let volumes = match built.written.files.len() {
        1 => String::new(),
        count => format!("{count} volumes, "),
    };
    // One volume has a number, too.
    let target = match built.written.files.as_slice() {
        [one] => one.display(),
        _ => built.target.display(),
    };
    let size = bytes(built.written.size);
    let (artifacts, manifest) = (counted(built.artifacts as u64, "artifact"), built.written.manifest);
    context.done(format!("{target} ({artifacts}, {volumes}{size}, manifest {manifest})"), &built)?;
    context.display.for_person(|width| super::build_summary::lines(&built, width));
    Ok(())
}
