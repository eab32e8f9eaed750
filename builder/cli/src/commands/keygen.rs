//! `kubexm-bundle keygen`.

use std::path::PathBuf;

use kubexm_signing::{Algorithm, PrivateKey, files};
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use super::trust::failure;

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

impl From<Kind> for Algorithm {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::EcdsaP256 => Self::EcdsaP256,
            Kind::Ed25519 => Self::Ed25519,
        }
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let password = files::new_password(args.password_file.as_deref()).map_err(failure)?;
    let key = PrivateKey::generate(args.algorithm.into()).map_err(failure)?;
    let (private, public) = files::write_pair(&args.name, &key, password.as_ref()).map_err(failure)?;
    let id = key.public().id();
    if display.mode() == Mode::Json {
        let document = json!({
            "schema": "kubexm.io/keygen/v1",
            "keyId": id,
            "algorithm": key.algorithm().name(),
            "privateKey": private,
            "publicKey": public,
            "encrypted": password.is_some(),
        });
        display.answer(&document.to_string());
        return Ok(());
    }
    let protection = if password.is_some() { "encrypted" } else { "not encrypted: whoever reads it can sign" };
    display.answer(&format!("private key {} ({protection})", private.display()));
    display.answer(&format!("public key  {}", public.display()));
    display.answer(&format!("key id      {id}"));
    Ok(())
}
