//! `kubexm-bundle sign`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use kubexm_archive::{ArchiveError, Bundle, Signature, Signing, detached_path_of, signature_slot, write_detached};
use kubexm_builder::session::Session;
use kubexm_files::is_stdout;
use kubexm_signing::{files, sign_bundle, with_added};
use kubexm_spec::event::EventKind;
use kubexm_spec::{ExitCode, SignedAt};
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use super::signing_key::{Key, KeyArgs};
use super::trust::failure;
use super::{kinds, written};

/// Sign a bundle: a statement with the digest of its manifest.json, that of its sources.json, and the date
///
/// manifest.json has the digest of every other byte in it. The date says which of two bundles is the newer one: a cluster takes
/// no older one than it has without being reported so. It is this machine's, or that of SOURCE_DATE_EPOCH. With --sequence a number says it in place of the date.
///
/// The signature goes into the room that every bundle keeps for it; no other byte of the file changes,
/// and NAME.sums beside it gets the new sum. It also holds for volumes and deltas of the bundle.
/// A signature by another key is added, one by the same key is replaced. With --detached the bundle
/// stays as it is, and NAME.sig beside it holds the signatures.
///
/// A key that cannot be read is used through a program: it gets the bytes of the statement on
/// standard input and writes the signature to standard output (ECDSA: DER, or the two numbers;
/// Ed25519: 64 bytes; base64 of either will do). What it gives is compared with --public-key before
/// it is stored.
///
/// Examples:
///   kubexm-bundle sign --key release.key site.tar.zst
///   SIGNING_KEY="$(cat release.key)" kubexm-bundle sign --key-env SIGNING_KEY site.tar.zst
///   kubexm-bundle sign --signer pkcs11-tool --public-key hsm.pub site.tar.zst -- \
///       --sign --id 01 --mechanism ECDSA-SHA256 --signature-format openssl --pin env:PIN
///   kubexm-bundle sign --key release.key --sequence "$CI_PIPELINE_IID" site.tar.zst
///   kubexm-bundle sign --key release.key --detached site.tar.zst
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, group = clap::ArgGroup::new("what_signs").args(["key", "key_env", "signer"]).required(true))]
pub struct Args {
    /// The bundle, or one volume of a split one
    bundle: PathBuf,
    #[command(flatten)]
    key: KeyArgs,
    /// Seconds that the program of --signer may take
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86400))]
    timeout: u64,
    /// Write the signature into a file of its own, and leave the bundle as it is
    #[arg(long)]
    detached: bool,
    /// The file for --detached, - is standard output [default: NAME.sig beside the bundle]
    #[arg(short = 'o', long, value_name = "FILE", requires = "detached")]
    output: Option<PathBuf>,
    /// Replace an existing file that holds no signatures
    #[arg(long, requires = "detached")]
    force: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
    /// Arguments of the program of --signer, behind those of --signer-arg
    #[arg(last = true, value_name = "ARGUMENT", requires = "signer", conflicts_with_all = ["key", "key_env"])]
    arguments: Vec<OsString>,
}

/// What was signed, and where it is.
struct Done {
    signature: Signature,
    /// Signatures in all.
    count: usize,
    file: PathBuf,
    sums: Option<PathBuf>,
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let signed = args.key.signed_at(session)?;
    let done = if args.detached { beside(args, signed, session, display)? } else { in_place(args, signed, display)? };
    if display.mode() == Mode::Json {
        let document = json!({
            "schema": "kubexm.io/sign/v1",
            "file": done.file,
            "keyId": done.signature.key_id,
            "algorithm": done.signature.alg,
            "date": done.signature.stated().map(|statement| statement.date),
            "sequence": done.signature.stated().and_then(|statement| statement.sequence),
            "signatures": done.count,
            "detached": args.detached,
            "sums": done.sums,
        });
        display.answer(&document.to_string());
        return Ok(());
    }
    if args.detached && is_stdout(&done.file) {
        return Ok(());
    }
    let Signature { key_id, alg, .. } = &done.signature;
    let count = if done.count == 1 { "1 signature".to_owned() } else { format!("{} signatures", done.count) };
    display.answer(&format!("{}: signed by key {key_id} ({alg}); {count} in it", done.file.display()));
    if let Some(sums) = &done.sums {
        display.answer(&format!("{}: has its new sum", sums.display()));
    }
    Ok(())
}

/// What is to sign: opened before anything else, so that a wrong password is reported at once.
fn key(args: &Args) -> Result<Key, Failure> {
    let key = args.key.open_with(&args.arguments, Duration::from_secs(args.timeout))?;
    key.ok_or_else(|| Failure::new(ExitCode::Usage, "give --key, --key-env, or --signer with --public-key"))
}

fn signature(key: &Key, bundle: &Bundle, signed: SignedAt) -> Result<Signature, Failure> {
    /// What went wrong.
    enum Wrong {
        Bundle(ArchiveError),
        Key(ExitCode, String),
    }
    impl From<ArchiveError> for Wrong {
        fn from(error: ArchiveError) -> Self {
            Self::Bundle(error)
        }
    }
    sign_bundle(bundle, signed, |bytes| key.sign(bytes).map_err(|(code, text)| Wrong::Key(code, text))).map_err(
        |wrong| match wrong {
            Wrong::Bundle(error) => archive(error),
            Wrong::Key(code, text) => Failure::new(code, text),
        },
    )
}

fn in_place(args: &Args, signed: SignedAt, display: &Display) -> Result<Done, Failure> {
    let key = key(args)?;
    let open = Signing::open(&args.bundle).map_err(archive)?;
    if let Some(problem) = open.torn() {
        let file = args.bundle.display();
        let text =
            format!("{file}: the signatures that were in it cannot be read ({problem}); only the new one is kept");
        display.emit(EventKind::Warning { text });
    }
    let signature = signature(&key, open.bundle(), signed)?;
    let all = with_added(open.bundle().signatures().to_vec(), signature.clone());
    let people = display.mode() != Mode::Json;
    let progress = |done, total| {
        if people {
            display.emit(EventKind::Progress { what: "sum".into(), done, total: Some(total), unit: "bytes".into() });
        }
    };
    let signed = open.replace(&all, &progress).map_err(archive)?;
    if let Some((sums, problem)) = &signed.left {
        let text = format!(
            "{} is no list of sums as sha256sum writes it ({problem}); it stays as it is, and does not hold the new sum",
            sums.display()
        );
        display.emit(EventKind::Warning { text });
    }
    Ok(Done { signature, count: all.len(), file: signed.file, sums: signed.sums })
}

fn beside(args: &Args, signed: SignedAt, session: &Session, display: &Display) -> Result<Done, Failure> {
    let key = key(args)?;
    let bundle = session.bundle(&args.bundle)?;
    let file = args.output.clone().unwrap_or_else(|| detached_path_of(bundle.path()));
    written::alone(&file, args.json)?;
    written::apart(&file, &bundle.files())?;
    written::check(&file, &kinds::SIGNATURES, args.force)?;
    let there = !is_stdout(&file) && file.metadata().is_ok_and(|there| there.len() > 0);
    // What is replaced with --force may be anything.
    let old = match there.then(|| files::signatures(&file).map_err(failure)) {
        Some(Err(failure)) if !args.force => return Err(failure),
        old => old.and_then(Result::ok).unwrap_or_default(),
    };
    let signature = signature(&key, &bundle, signed)?;
    let all = with_added(old, signature.clone());
    if is_stdout(&file) {
        written::put(
            &file,
            &kinds::SIGNATURES,
            args.force,
            &[signature_slot::to_json(&all), b"\n".to_vec()].concat(),
            display,
        )?;
    } else {
        write_detached(&file, &all).map_err(archive)?;
    }
    Ok(Done { signature, count: all.len(), file, sums: None })
}

fn archive(error: ArchiveError) -> Failure {
    Failure::from_error(error.exit_code(), &error)
}
