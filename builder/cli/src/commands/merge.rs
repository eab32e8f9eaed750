//! `kubexm-bundle merge`.

use std::path::PathBuf;

use kubexm_builder::verbs::merge::merge;
use kubexm_terminal::Failure;

use super::written;
use crate::context::Context;

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

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    context.check_bundle_output(&args.output, None)?;
    let threads = args.jobs.map(usize::from);
    written(context, &merge(context.session, &args.bundles, &args.output, threads, args.force)?)
}
