//! `kubexm-bundle merge`.

use std::path::PathBuf;

use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure};

use super::{input, written};

/// Make the full bundle of a delta and the bundle it was built on
///
/// The result is byte for byte what a build in full by the same program at the same level writes, and its signature is the
/// delta's, since both carry the same manifest. A delta need not be merged to be used: `kubexm-install --base` takes both.
///
/// Examples:
///   kubexm-bundle merge january.tar.zst february-delta.tar.zst -o february.tar.zst
///   kubexm-bundle merge january.tar.zst february-delta.tar.zst march-delta.tar.zst -o march.tar.zst
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle that the first delta was built on
    base: PathBuf,
    /// The delta; several in a row, each on the one before it
    #[arg(required = true, value_name = "DELTA")]
    deltas: Vec<PathBuf>,
    /// The file to write
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,
    /// Threads that compress [default: all cores]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let failure = |e: kubexm_archive::ArchiveError| Failure::from_error(e.exit_code(), &e);
    let mut whole = input::bundle(&args.base)?;
    for delta in &args.deltas {
        // What a delta leaves out may lie in any of those before it.
        whole = input::bundle(delta)?.on_bases(vec![whole]).map_err(failure)?;
    }
    written::free(&args.output, None, &whole)?;
    let progress = |done, total| {
        display.emit(EventKind::Progress { what: "merge".into(), done, total: Some(total), unit: "bytes".into() });
    };
    let threads = args.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()), usize::from);
    let done = kubexm_archive::merge(&whole, &args.output, threads, &progress).map_err(failure)?;
    display.emit(written::result(&done));
    Ok(())
}
