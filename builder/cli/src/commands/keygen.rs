//! `kubexm-bundle keygen`.

use std::path::PathBuf;

use kubexm_builder::verbs::keygen::keygen;
use kubexm_signing::Algorithm;
use kubexm_terminal::Failure;

use crate::context::Context;

/// Make a key pair that bundles are signed with
///
/// Writes NAME.key (the private key, readable by its owner only) and NAME.pub, both PEM as OpenSSL
/// has them. Nothing is overwritten. The private key is encrypted when a password is given: in
/// KUBEXM_KEY_PASSWORD, or in a file. ECDSA P-256 signatures are checked by OpenSSL of any age;
/// those of Ed25519 by OpenSSL 3. cosign takes both.
///
/// Examples:
///   kubexm-bundle keygen -o release
///   kubexm-bundle keygen --algorithm ed25519 --password-file secret.txt -o release
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Path and name of the pair, without .key and .pub
    #[arg(short = 'o', long = "output", value_name = "NAME")]
    name: PathBuf,
    /// What the key signs with
    #[arg(long, value_enum, default_value_t, value_name = "ALGORITHM")]
    algorithm: Kind,
    /// File with the password of the private key; its last line end does not count
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

/// What the key signs with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// ECDSA over P-256 with SHA-256
    #[default]
    EcdsaP256,
    /// Ed25519
    Ed25519,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let algorithm = match args.algorithm {
        Kind::EcdsaP256 => Algorithm::EcdsaP256,
        Kind::Ed25519 => Algorithm::Ed25519,
    };
    context.answer(&keygen(&args.name, algorithm, args.password_file.as_deref())?, |key| {
        let protection = if key.encrypted { "encrypted" } else { "not encrypted: whoever reads it can sign" };
        vec![
            format!("private key {} ({protection})", key.private_key.display()),
            format!("public key  {}", key.public_key.display()),
            format!("key id      {}", key.key_id),
        ]
    })
}
