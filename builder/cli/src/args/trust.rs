//! Whom a bundle is to be from.

use std::path::PathBuf;

/// Keys and signatures given on the command line.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TrustArgs {
    /// Public key to trust; may be given several times. A valid signature by one of them is then required, and a bundle with
    /// an invalid signature by one of them is refused (exit 34)
    #[arg(long = "key", value_name = "FILE")]
    pub keys: Vec<PathBuf>,
    /// Signatures in a file of their own (NAME.sig), beside those in the bundle
    #[arg(long = "signature", value_name = "FILE")]
    pub signatures: Vec<PathBuf>,
    /// Require a valid signature even when no --key is given: then every bundle is refused (exit 34)
    #[arg(long)]
    pub require_signature: bool,
}
