//! `kubexm-bundle copy`.

use std::path::PathBuf;

use kubexm_builder::copy::{Done, ReadBack};
use kubexm_builder::verbs::copy::copy;
use kubexm_terminal::{Failure, bytes};

use crate::context::Context;

/// Copy a bundle to a stick or a disk, and read it back from there
///
/// The bundle's file or volumes are copied, with NAME.sums, everything that it lists and the signatures beside it. Each file is
/// written to the medium, read back past the page cache and compared before it gets its name, so what is listed as copied
/// can be read there. Run again, it continues where it was cut off, and writes only what is missing or damaged. Other files
/// that have these names there, such as a README.txt of yours, are replaced with --force only.
///
/// A FAT32 stick holds no file over 4 GiB: split the bundle first (build --split 4095M, or join --split 4095M).
///
/// Examples:
///   kubexm-bundle copy site.tar.zst /media/stick
///   kubexm-bundle copy volumes/site.tar.zst.001 /media/stick      # all volumes that lie beside it
///   kubexm-bundle copy handover /media/stick                      # a hand-over folder, as it is
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle: a file, one of its volumes, or a folder that holds one
    bundle: PathBuf,
    /// Folder or mount point to copy into
    target: PathBuf,
    /// Replace files of the same names there that are no earlier copy
    #[arg(long)]
    force: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    context.answer(&copy(context.session, &args.bundle, &args.target, args.force)?, |copied| {
        let how = match copied.read_back {
            ReadBack::Direct => "read back from the medium (O_DIRECT)",
            ReadBack::Dropped => {
                "read back after it was written out and dropped from the page cache (this file system takes no O_DIRECT)"
            }
        };
        let files = copied.files.iter().map(|file| {
            let done = match file.done {
                Done::Copied => "copied",
                Done::Replaced => "replaced what was there",
                Done::Skipped => "was there already",
            };
            format!("{} ({}): {done}", file.path.display(), bytes(file.size))
        });
        let (count, written) = (copied.files.len(), bytes(copied.written));
        let sum = format!("{count} files, {written} written; every byte {how} and found right");
        files.chain([sum]).collect()
    })
}
