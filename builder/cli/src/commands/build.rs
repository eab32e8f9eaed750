//! `kubexm-bundle build`.

use std::path::PathBuf;

use kubexm_archive::{Bundle, Options};
use kubexm_builder::session::{Building, Session, is_address};
use kubexm_files::is_stdout;
use kubexm_manifests::Requirements;
use kubexm_spec::event::EventKind;
use kubexm_spec::{Cluster, ExitCode, Lock, counted_of, names};
use kubexm_terminal::{Display, Failure, bytes};
use serde_json::json;

use super::dry_run::{self, How};
use super::fetching::{self, Fetching};
use super::hand_over;
use super::signing_key::KeyArgs;
use super::what::What;
use super::{lockfile, size, written};

/// Resolve, lock, fetch and pack everything a cluster needs into one file
///
/// Everything that was fetched stays in a cache that builds share; a build that was stopped continues where it was.
///
/// Examples:
///   kubexm-bundle build -f cluster.yaml
///   kubexm-bundle build --kubernetes v1.34.4 --zone cn
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

pub fn run(args: Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let needed = args.what.read(session)?;
    let locked = args.locked()?;
    if args.dry_run {
        let how = How { ask: args.sizes, locked: locked.as_ref(), fetching: &args.fetching };
        return dry_run::run(&needed, &how, session, display);
    }
    session.advise(&needed.warnings, &needed.notes);
    if let Some(zone) = needed.cluster.bundle.zone.as_ref().filter(|_| args.no_sources) {
        let text = format!(
            "--no-sources leaves out the zone's name, and cluster.yaml, which is carried as it is, has it (spec.bundle.zone: {zone}); \
             name the zone by --zone or KMZONE instead"
        );
        display.emit(EventKind::Warning { text });
    }
    let target = args.output.clone().unwrap_or_else(|| default_name(&needed.cluster, &needed.requirements));
    // What is read is reported first: no --force helps there.
    written::apart(&target, &inputs(&args, session))?;
    written::check_bundle(&target, args.split, args.force, args.json)?;
    if is_stdout(&target) && args.hand_over.is_some() {
        let text = "--hand-over reads the bundle that was written; name a file with -o";
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let key = args.key.open()?;
    if key.is_some() && args.hand_over.is_none() {
        let text = "a key signs what --hand-over makes; give that, or sign the bundle with `kubexm-bundle sign`";
        return Err(Failure::new(ExitCode::Usage, text));
    }
    // Before anything is fetched: what it says may be wrong.
    let signed = args.key.signed_at(session)?;
    let base = args.base.as_deref().map(|base| session.base(base)).transpose()?;
    let origins = session.origins(&args.fetching.options())?;
    let hand_over = args.hand_over.as_deref().map(|folder| hand_over::What {
        folder,
        name: None,
        split: args.split,
        installers: &args.fetching.installer,
        force: false,
    });
    if let Some(what) = &hand_over {
        hand_over::check_ahead(&target, what)?;
    }
    let building = Building {
        locked: locked.as_ref(),
        target: &target,
        jobs: args.fetching.jobs.into(),
        options: Options { level: args.level, split: args.split, ..Options::default() },
        base: base.as_ref(),
        sources: !args.no_sources,
        tool: concat!("kubexm-bundle ", env!("CARGO_PKG_VERSION")),
    };
    let runtime = fetching::runtime()?;
    let built = session.build(&needed, &origins, &building, runtime.handle())?;
    let mut data = written::data(&built.written);
    data["artifacts"] = built.lock.items.len().into();
    data["unverified"] = json!(needed.doubts);
    data["verified"] = json!(needed.verified);
    data["notices"] = json!(needed.notices);
    let volumes = match built.written.files.len() {
        1 => String::new(),
        count => format!("{count} volumes, "),
    };
    if let Some(what) = &hand_over {
        data["handOver"] = hand_over::after_build(&built.written.files, what, key.as_ref(), signed, display)?;
    }
    display.emit(EventKind::Result {
        ok: true,
        exit_code: ExitCode::Ok.code(),
        summary: format!(
            "{} ({}, {volumes}{}, manifest {})",
            target.display(),
            bytes(built.written.size),
            counted_of(&built.lock.items, "artifact"),
            built.written.manifest,
        ),
        data: Some(data),
    });
    Ok(())
}

impl Args {
    fn locked(&self) -> Result<Option<Lock>, Failure> {
        if !self.locked {
            return Ok(None);
        }
        Ok(Some(lockfile::read(&self.lock_path())?))
    }

    fn lock_path(&self) -> PathBuf {
        self.lock.clone().unwrap_or_else(|| lockfile::default_path(self.what.file.as_deref()))
    }
}

/// Files on this machine that are read: a base above all, whose default name may be that of what is built.
fn inputs(args: &Args, session: &Session) -> Vec<PathBuf> {
    let mut files = args.what.files(session);
    files.extend(args.fetching.installer.iter().cloned());
    if args.locked {
        files.push(args.lock_path());
    }
    if let Some(base) = args.base.as_ref().filter(|base| is_address(base).is_none()) {
        files.push(base.clone());
        // What is no bundle is a text, and read as that; what cannot be read is reported then.
        files.extend(Bundle::open(base).map(|base| base.files()).unwrap_or_default());
    }
    files
}

/// `<name>-<kubernetes version>-<arches>.tar.zst`.
fn default_name(cluster: &Cluster, requirements: &Requirements) -> PathBuf {
    let version = requirements.versions.as_ref().map(|v| format!("-{}", v.kubernetes.to_string())).unwrap_or_default();
    let mut arches: Vec<&str> = cluster.bundle.platforms.iter().map(|p| p.arch.as_str()).collect();
    arches.sort_unstable();
    arches.dedup();
    let name = if cluster.name.is_empty() { names::BUILDER } else { &cluster.name };
    format!("{name}{version}-{}.tar.zst", arches.join("-")).into()
}
