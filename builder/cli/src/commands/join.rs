//! `kubexm-bundle join`.

use std::path::PathBuf;

use kubexm_builder::verbs::merge::join;
use kubexm_terminal::Failure;

use super::written;
use crate::args::size;
use crate::context::Context;

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

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    context.check_bundle_output(&args.output, args.split)?;
    written(context, &join(context.session, &args.bundles, &args.output, args.split, args.force)?)
}
