//! `kubexm-bundle merge`.

use std::path::PathBuf;

use kubexm_archive::{ArchiveError, Bundle};
use kubexm_builder::session::Session;
use kubexm_spec::event::EventKind;
use kubexm_spec::{Digest, ExitCode};
use kubexm_terminal::{Display, Failure};

use super::written;

/// Make the full bundle of a delta and the bundle it was built on
///
/// The bundles may be named in any order: a delta says itself that it is one, and which bundle it was built on. The result is
/// byte for byte what a build in full by the same program at the same level writes, and its signature is the delta's, since
/// both carry the same manifest. A delta need not be merged to be used: `kubexm-install --base` takes both.
///
/// Examples:
///   kubexm-bundle merge january.tar.zst february-delta.tar.zst -o february.tar.zst
///   kubexm-bundle merge january.tar.zst february-delta.tar.zst march-delta.tar.zst -o march.tar.zst
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The deltas, and the bundle that the first of them was built on
    #[arg(required = true, num_args = 2.., value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    /// The file to write; - is standard output
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file that is not a bundle
    #[arg(long)]
    force: bool,
    /// Threads that compress [default: all cores]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let bundles = args.bundles.iter().map(|path| session.bundle(path)).collect::<Result<Vec<_>, _>>()?;
    let whole = newest_on_the_others(bundles)?;
    written::free(&args.output, None, (args.force, args.json), &whole)?;
    let progress = |done, total| {
        display.emit(EventKind::Progress { what: "merge".into(), done, total: Some(total), unit: "bytes".into() });
    };
    let threads = args.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()), usize::from);
    let done = kubexm_archive::merge(&whole, &args.output, threads, &progress)
        .map_err(|e| Failure::from_error(e.exit_code(), &e))?;
    display.emit(written::result(&done));
    Ok(())
}

/// The delta that no other was built on, with all others as its bases.
fn newest_on_the_others(mut bundles: Vec<Bundle>) -> Result<Bundle, Failure> {
    let is_base = |at: usize, digest: Digest| {
        let others = bundles.iter().enumerate().filter(|(other, _)| *other != at);
        others.filter_map(|(_, bundle)| bundle.layout().base).any(|base| base == digest)
    };
    let newest = |(at, bundle): (usize, &Bundle)| {
        (bundle.layout().is_delta() && !is_base(at, bundle.manifest_digest())).then_some(at)
    };
    let found: Vec<usize> = bundles.iter().enumerate().filter_map(newest).collect();
    let name = |at: &usize| bundles.get(*at).map(|bundle| bundle.path().display().to_string()).unwrap_or_default();
    let at = match found.as_slice() {
        [one] => *one,
        [] => {
            let names: Vec<_> = (0..bundles.len()).map(|at| name(&at)).collect();
            let text = format!("none of these bundles is a delta, there is nothing to merge: {}", names.join(", "));
            return Err(Failure::new(ExitCode::Usage, text));
        }
        many => {
            let names: Vec<_> = many.iter().map(name).collect();
            let text = format!(
                "{} do not say which of them is the newest: none was built on another; merge one after the other",
                names.join(" and ")
            );
            return Err(Failure::new(ExitCode::Usage, text));
        }
    };
    let delta = bundles.swap_remove(at);
    delta.on_bases(bundles).map_err(|error| match error {
        ArchiveError::BaseLacks { ref path, ref bases, count, ref first } => {
            let bases: Vec<_> = bases.iter().map(|base| base.display().to_string()).collect();
            let text = format!(
                "{} is a delta and leaves out {count} blobs that {} does not have; name the bundle it was built on too:\n- {}",
                path.display(),
                bases.join(" or "),
                first.join("\n- ")
            );
            Failure::new(error.exit_code(), text)
        }
        error => Failure::from_error(error.exit_code(), &error),
    })
}
