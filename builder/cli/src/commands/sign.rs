//! `kubexm-bundle sign`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use kubexm_archive::{ArchiveError, Signature, Signing, detached_path_of, write_detached};
use kubexm_signing::external::Signer;
use kubexm_signing::{files, with_added};
use kubexm_spec::ExitCode;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use super::input;
use super::trust::failure;

/// Sign a bundle: its manifest.json, which has the digest of every byte in it
///
/// The signature goes into the room that every bundle keeps for it; no other byte of the file changes, and NAME.sums beside it
/// gets the new sum. A signature by another key is added, one by the same key is replaced. So one signature also holds for
/// deltas and volumes of the bundle. With --detached the bundle stays as it is, and NAME.sig beside it holds the signatures.
///
/// A key that cannot be read is used through a program: it gets the bytes of manifest.json on standard input and writes the
/// signature to standard output (ECDSA: DER, or the two numbers; Ed25519: 64 bytes; base64 of either will do). What
/// it gives is held against --public-key before it is stored.
///
/// Examples:
///   kubexm-bundle sign --key release.key site.tar.zst
///   SIGNING_KEY="$(cat release.key)" kubexm-bundle sign --key-env SIGNING_KEY site.tar.zst
///   kubexm-bundle sign --signer pkcs11-tool --public-key hsm.pub site.tar.zst -- \
///       --sign --id 01 --mechanism ECDSA-SHA256 --signature-format openssl --pin env:PIN
///   kubexm-bundle sign --key release.key --detached site.tar.zst
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle, or one volume of a split one
    bundle: PathBuf,
    #[command(flatten)]
    source: Source,
    /// File with the password of the key [default: KUBEXM_KEY_PASSWORD of the environment]
    #[arg(long, value_name = "FILE", conflicts_with = "signer")]
    password_file: Option<PathBuf>,
    /// The public key of what --signer signs with
    #[arg(long, value_name = "FILE", requires = "signer", conflicts_with_all = ["key", "key_env"])]
    public_key: Option<PathBuf>,
    /// Seconds that the program of --signer may take
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86400))]
    timeout: u64,
    /// Write the signature into a file of its own, and leave the bundle as it is
    #[arg(long)]
    detached: bool,
    /// The file for --detached [default: NAME.sig beside the bundle]
    #[arg(short = 'o', long, value_name = "FILE", requires = "detached")]
    output: Option<PathBuf>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
    /// Arguments of the program of --signer
    #[arg(last = true, value_name = "ARGUMENT", requires = "signer", conflicts_with_all = ["key", "key_env"])]
    arguments: Vec<OsString>,
}

/// What signs.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// File with the private key: PKCS#8 (also encrypted), "EC PRIVATE KEY", or a key of cosign
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Variable of the environment that holds the private key
    #[arg(long, value_name = "VARIABLE")]
    key_env: Option<String>,
    /// Program that signs
    #[arg(long, value_name = "PROGRAM", requires = "public_key")]
    signer: Option<PathBuf>,
}

/// What was signed, and where it is.
struct Done {
    signature: Signature,
    /// Signatures in all.
    count: usize,
    file: PathBuf,
    sums: Option<PathBuf>,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let done = if args.detached { beside(args)? } else { in_place(args, display)? };
    if display.mode() == Mode::Json {
        let document = json!({
            "schema": "kubexm.io/sign/v1",
            "file": done.file,
            "keyId": done.signature.key_id,
            "algorithm": done.signature.alg,
            "signatures": done.count,
            "detached": args.detached,
            "sums": done.sums,
        });
        display.answer(&document.to_string());
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

/// The signature that is asked for. Nothing is changed before it is there.
fn signature(args: &Args, manifest_json: &[u8]) -> Result<Signature, Failure> {
    let password = args.password_file.as_deref();
    let Source { key, key_env, signer } = &args.source;
    match (key, key_env, signer, &args.public_key) {
        (Some(path), ..) => files::private_key(path, password).map(|key| key.sign(manifest_json)),
        (None, Some(variable), ..) => {
            files::private_key_from_env(variable, password).map(|key| key.sign(manifest_json))
        }
        (None, None, Some(program), Some(public_key)) => files::public_key(public_key).and_then(|public_key| {
            let timeout = Duration::from_secs(args.timeout);
            let signer = Signer { program: program.clone(), arguments: args.arguments.clone(), timeout };
            signer.sign(manifest_json, &public_key)
        }),
        _ => return Err(Failure::new(ExitCode::Usage, "give --key, --key-env, or --signer with --public-key")),
    }
    .map_err(failure)
}

fn in_place(args: &Args, display: &Display) -> Result<Done, Failure> {
    let open = Signing::open(&args.bundle).map_err(archive)?;
    if let Some(problem) = open.torn() {
        let file = args.bundle.display();
        let text =
            format!("{file}: the signatures that were in it cannot be read ({problem}); only the new one is kept");
        display.emit(EventKind::Warning { text });
    }
    let signature = signature(args, open.bundle().manifest_json())?;
    let all = with_added(open.bundle().signatures().to_vec(), signature.clone());
    let people = display.mode() != Mode::Json;
    let progress = |done, total| {
        if people {
            display.emit(EventKind::Progress { what: "sum".into(), done, total: Some(total), unit: "bytes".into() });
        }
    };
    let signed = open.replace(&all, &progress).map_err(archive)?;
    Ok(Done { signature, count: all.len(), file: signed.file, sums: signed.sums })
}

fn beside(args: &Args) -> Result<Done, Failure> {
    let bundle = input::bundle(&args.bundle)?;
    let file = args.output.clone().unwrap_or_else(|| detached_path_of(bundle.path()));
    let old = match file.symlink_metadata() {
        Ok(_) => files::signatures(&file).map_err(failure)?,
        Err(_) => Vec::new(),
    };
    let signature = signature(args, bundle.manifest_json())?;
    let all = with_added(old, signature.clone());
    write_detached(&file, &all).map_err(archive)?;
    Ok(Done { signature, count: all.len(), file, sums: None })
}

fn archive(error: ArchiveError) -> Failure {
    Failure::from_error(error.exit_code(), &error)
}
