//! `kubexm-bundle sign`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kubexm_builder::verbs::sign::{detached, in_place};
use kubexm_files::is_stdout;
use kubexm_spec::counted;
use kubexm_terminal::Failure;

use crate::args::KeyArgs;
use crate::context::Context;

/// Sign a bundle: a statement with the digest of its manifest.json, that of its sources.json, and the date
///
/// manifest.json has the digest of every other byte in it. The date says which of two bundles is the newer one: a cluster refuses
/// an older one than it has, unless --allow-older is given. It is this machine's, or that of SOURCE_DATE_EPOCH. With --sequence a number decides in place of the date.
///
/// The signature goes into the space that every bundle reserves for it; no other byte of the file changes,
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
#[command(override_usage = "kubexm-bundle sign [OPTIONS] --key <FILE> <BUNDLE>
       kubexm-bundle sign [OPTIONS] --key-env <VARIABLE> <BUNDLE>
       kubexm-bundle sign [OPTIONS] --signer <PROGRAM> --public-key <FILE>
           <BUNDLE> [-- <ARGUMENT>...]")]
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

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let source = args.key.source_with(&args.arguments, Duration::from_secs(args.timeout))?;
    let output = args.output.as_deref();
    context.check_output(output.unwrap_or(Path::new("")))?;
    let signed = match args.detached {
        true => {
            let stdout = |content: &[u8]| context.stdout(content);
            detached(context.session, &args.bundle, &source, (output, args.force), &stdout)?
        }
        false => in_place(context.session, &args.bundle, &source)?,
    };
    context.answer(&signed, |signed| {
        if args.detached && is_stdout(&signed.file) {
            return Vec::new();
        }
        let count = counted(signed.signatures as u64, "signature");
        let (file, key, alg) = (signed.file.display(), &signed.key_id, &signed.algorithm);
        let sums = signed.sums.as_ref().map(|sums| format!("{}: has its new sum", sums.display()));
        std::iter::once(format!("{file}: signed by key {key} ({alg}); {count} in it")).chain(sums).collect()
    })
}
