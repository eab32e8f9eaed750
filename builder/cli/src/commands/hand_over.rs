//! `kubexm-bundle hand-over`.

use std::path::{Path, PathBuf};

use kubexm_archive::{Bundle, Options};
use kubexm_builder::hand_over::{self as core, HandOver, HandedOver, hand_over};
use kubexm_builder::session::Session;
use kubexm_spec::SignedAt;
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::{Value, json};

use super::signing_key::{Key, KeyArgs};
use super::size;

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

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let key = args.key.open()?;
    let bundle = session.bundle(&args.bundle)?;
    let what = What {
        folder: &args.folder,
        name: args.name.as_deref(),
        split: args.split,
        installers: &args.installer,
        force: args.force,
    };
    let document = make(&bundle, &what, key.as_ref(), args.key.signed_at(session)?, display)?;
    if display.mode() == Mode::Json {
        display.answer(&document.to_string());
    }
    Ok(())
}

/// What a hand-over is made of, but for the bundle and the key.
pub struct What<'a> {
    /// To be made.
    pub folder: &'a Path,
    /// What file names begin with.
    pub name: Option<&'a str>,
    /// The most bytes of a volume.
    pub split: Option<u64>,
    /// In place of those in the bundle.
    pub installers: &'a [PathBuf],
    /// Write into a folder that holds something.
    pub force: bool,
}

/// What `build --hand-over` is refused for before anything is fetched.
pub fn check_ahead(bundle: &Path, what: &What<'_>) -> Result<(), Failure> {
    core::check_ahead(bundle, what.folder, what.installers, what.force)
        .map_err(|e| Failure::from_error(e.exit_code(), &e))
}

/// What `build --hand-over` ends with. The bundle is whole by then, and an error says so.
pub fn after_build(
    files: &[PathBuf],
    what: &What<'_>,
    key: Option<&Key>,
    signed: SignedAt,
    display: &Display,
) -> Result<Value, Failure> {
    let bundle = Bundle::open_all(files).map_err(|e| Failure::from_error(e.exit_code(), &e))?;
    make(&bundle, what, key, signed, display).map_err(|failure| {
        let (file, folder) = (files.first().map(|file| file.display().to_string()), what.folder.display());
        let file = file.unwrap_or_default();
        let text = format!(
            "{}\n{file} is whole; when that is fixed, continue with: kubexm-bundle hand-over {file} {folder}",
            failure.text
        );
        Failure { text, ..failure }
    })
}

/// Makes the folder and tells people; the document is for machines.
fn make(
    bundle: &Bundle,
    what: &What<'_>,
    key: Option<&Key>,
    signed: SignedAt,
    display: &Display,
) -> Result<Value, Failure> {
    let people = display.mode() != Mode::Json;
    let report = |kind| {
        if people {
            display.emit(kind);
        }
    };
    let sign = |bytes: &[u8]| match key {
        Some(key) => key.sign(bytes),
        None => Err((kubexm_spec::ExitCode::Internal, "there is no key".to_owned())),
    };
    let signer = key.map(|key| key.signer(&sign));
    let request = HandOver {
        bundle,
        folder: what.folder,
        name: what.name,
        split: what.split,
        installers: what.installers,
        signer: signer.as_ref(),
        signed,
        force: what.force,
        threads: Options::default().threads,
    };
    let done = hand_over(&request, &report).map_err(|e| Failure::from_error(e.exit_code(), &e))?;
    if people {
        tell(&done, what.folder, key, display);
    }
    Ok(document(&done, what.folder, key))
}

fn document(done: &HandedOver, folder: &Path, key: Option<&Key>) -> Value {
    let files: Vec<_> = done.files.iter().map(|(path, sum)| json!({ "path": path, "sha256": sum.hex() })).collect();
    json!({
        "schema": "kubexm.io/hand-over/v1",
        "folder": folder,
        "files": files,
        "sums": done.sums,
        "signature": done.signature,
        "platforms": done.platforms,
        "keyId": key.map(Key::id),
        "publicKeySha256": key.map(Key::fingerprint),
    })
}

fn tell(done: &HandedOver, folder: &Path, key: Option<&Key>, display: &Display) {
    display.answer(&format!("{}: {} files and their sums; begin with README.txt", folder.display(), done.files.len()));
    match key {
        Some(key) => display.answer(&format!(
            "signed by key {}; bring the public key another way than this folder, or tell its sha256:\n{}",
            key.id(),
            key.fingerprint()
        )),
        None => {
            display.answer("not signed: the sums find damage, and not somebody who changes the bundle and the sums")
        }
    }
}
