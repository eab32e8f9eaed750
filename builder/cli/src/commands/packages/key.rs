//! `kubexm-bundle packages key`, and reading what it wrote.

use std::path::PathBuf;

use kubexm_builder::verbs::packages::key::{SiteKeySource, generate};
use kubexm_terminal::Failure;

use crate::context::Context;

/// Make the OpenPGP key of a site, which signs repositories of packages
///
/// RSA, since old package managers know no other. Writes FILE (the secret key, ASCII-armored,
/// readable by its owner only) and FILE.pub (what clients trust). Nothing is overwritten. It has no
/// password; one made by gpg and exported with --export-secret-keys --armor may have one.
///
/// Examples:
///   kubexm-bundle packages key site.key
///   kubexm-bundle packages key --owner "Ops <ops@example.com>" site.key
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// File of the secret key
    file: PathBuf,
    /// Whose key it is, as package managers show it
    #[arg(long, value_name = "TEXT", default_value = "KubeXM site key")]
    owner: String,
    /// Length of the key
    #[arg(long, value_name = "BITS", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(2048..=8192))]
    bits: u32,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

/// Which key signs.
#[derive(Clone, Debug, clap::Args)]
pub struct SignArgs {
    /// File with the OpenPGP secret key that signs: of `packages key`, or of gpg --export-secret-keys
    #[arg(long, value_name = "FILE", required_unless_present = "sign_key_env")]
    sign_key: Option<PathBuf>,
    /// Variable of the environment that holds the secret key
    #[arg(long, value_name = "VARIABLE", conflicts_with = "sign_key")]
    sign_key_env: Option<String>,
    /// File with the password of the key [default: KUBEXM_KEY_PASSWORD of the environment]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl SignArgs {
    /// The same, for the library.
    pub fn source(&self) -> SiteKeySource {
        let Self { sign_key: file, sign_key_env: variable, password_file } = self.clone();
        SiteKeySource { file, variable, password_file }
    }
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    context.answer(&generate(&args.file, &args.owner, args.bits)?, |key| {
        vec![
            format!("secret key  {} (not encrypted: whoever reads it can sign)", key.secret_key.display()),
            format!("public key  {}", key.public_key.display()),
            format!("fingerprint {}", key.fingerprint),
        ]
    })
}
