//! `kubexm-bundle join`.

use std::path::PathBuf;

use kubexm_builder::session::Session;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure};

use super::{size, written};

/// Make one file of a bundle's volumes, or volumes of one file
///
/// Frames are carried over as they are, and compared with the trailer on their way: what comes out is byte for byte what a
/// build without (or with) --split would have written, signatures included. The inputs stay. Volumes need not be joined to be
/// used: every verb, and kubexm-install, reads them where they lie.
///
/// Examples:
///   kubexm-bundle join /media/stick1 /media/stick2 -o site.tar.zst
///   kubexm-bundle join site.tar.zst --split 4095M -o /media/fat32/site.tar.zst
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle: a file, volumes, folders with volumes, an address
    #[arg(required = true, value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    /// The file to write, or the name of the volumes without their number; - is standard output
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file that is not a bundle
    #[arg(long)]
    force: bool,
    /// Volumes of at most this size; K, M, G are powers of 1024
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    split: Option<u64>,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let bundle = session.bundle_on(&args.bundles, &[])?;
    written::free(&args.output, args.split, (args.force, args.json), &bundle)?;
    let progress = |done, total| {
        display.emit(EventKind::Progress { what: "join".into(), done, total: Some(total), unit: "bytes".into() });
    };
    let done = kubexm_archive::join(&bundle, &args.output, args.split, &progress)
        .map_err(|e| Failure::from_error(e.exit_code(), &e))?;
    display.emit(written::result(&done));
    Ok(())
}
