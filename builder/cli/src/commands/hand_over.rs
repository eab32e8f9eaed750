//! `kubexm-bundle hand-over`.

use std::path::PathBuf;

use kubexm_builder::verbs::hand_over::{HandedOver, Request, hand_over};
use kubexm_terminal::Failure;

use crate::args::{KeyArgs, size};
use crate::context::Context;

/// Make a folder to be carried by hand: bundle, installers, sums, signature, one page of instructions
///
/// The folder holds the bundle (with --split in volumes), kubexm-install for each of its platforms, NAME.sums over every file,
/// and README.txt, which tells how to check it with sha256sum and openssl alone and how to install. With a key, NAME.sums is
/// signed (NAME.sums.sig), and so is the bundle in the folder; the bundle that is read is never changed. NAME.pub in the folder is a convenience and proves nothing: bring the public key another way.
///
/// A new folder appears when it is whole. Into one that is there, files come one by one, and README.txt last.
///
/// Examples:
///   kubexm-bundle hand-over site.tar.zst handover --key release.key
///   kubexm-bundle hand-over site.tar.zst handover --split 4095M      # for a FAT32 stick
///   kubexm-bundle copy handover /media/stick                         # and read back from there
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle: a file, a volume or the folder of a split one, an address
    bundle: PathBuf,
    /// Folder to make
    folder: PathBuf,
    /// Volumes of at most this size; K, M, G are powers of 1024
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    split: Option<u64>,
    /// What file names begin with [default: the bundle's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// kubexm-install of a platform, in place of the one in the bundle; may be given several times
    #[arg(long, value_name = "FILE")]
    installer: Vec<PathBuf>,
    #[command(flatten)]
    key: KeyArgs,
    /// Write into a folder that holds something
    #[arg(long)]
    force: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let request = Request {
        folder: &args.folder,
        name: args.name.as_deref(),
        split: args.split,
        installers: &args.installer,
        force: args.force,
    };
    context.answer(&hand_over(context.session, &args.bundle, &request, &args.key.source()?)?, lines)
}

/// The report about a complete folder.
pub fn lines(done: &HandedOver) -> Vec<String> {
    let signed = match (&done.key_id, &done.public_key_sha256) {
        (Some(key), Some(sum)) => format!(
            "signed by key {key}; bring the public key another way than this folder, or tell its sha256:\n{sum}"
        ),
        _ => "not signed: the sums find damage, and not somebody who changes the bundle and the sums".to_owned(),
    };
    let (folder, count) = (done.folder.display(), done.files.len());
    vec![format!("{folder}: {count} files and their sums; begin with README.txt"), signed]
}
