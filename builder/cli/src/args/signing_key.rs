//! `--key`, `--key-env` or `--signer` where a signature may be asked for and need not be.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use kubexm_builder::verbs::signing_key::{KeySource, TIMEOUT};
use kubexm_spec::statement::MAX_SEQUENCE;
use kubexm_terminal::Failure;

use crate::environment::source_date;

/// What signs, if anything.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct KeyArgs {
    /// File with the private key that signs: PKCS#8 (also encrypted), "EC PRIVATE KEY", or a key of cosign
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_env", "signer"])]
    key: Option<PathBuf>,
    /// Variable of the environment that holds the private key
    #[arg(long, value_name = "VARIABLE", conflicts_with = "signer")]
    key_env: Option<String>,
    /// Program that signs: the bytes of the statement on standard input, the signature on standard output
    #[arg(long, value_name = "PROGRAM", requires = "public_key")]
    signer: Option<PathBuf>,
    /// Argument of the program of --signer; may be given several times
    #[arg(long, value_name = "ARGUMENT", requires = "signer", conflicts_with_all = ["key", "key_env"], allow_hyphen_values = true)]
    signer_arg: Vec<OsString>,
    /// The public key of what --signer signs with
    #[arg(long, value_name = "FILE", requires = "signer", conflicts_with_all = ["key", "key_env"])]
    public_key: Option<PathBuf>,
    /// File with the password of the key [default: KUBEXM_KEY_PASSWORD of the environment]
    #[arg(long, value_name = "FILE", conflicts_with = "signer")]
    password_file: Option<PathBuf>,
    /// Number that all who sign for a site count up, such as that of a CI run: the larger one is the newer bundle, whatever the
    /// dates say. A cluster that has a bundle with one takes none without it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=MAX_SEQUENCE))]
    sequence: Option<u64>,
}

impl KeyArgs {
    /// The same, for the library.
    pub fn source(&self) -> Result<KeySource, Failure> {
        self.source_with(&[], TIMEOUT)
    }

    /// The same, with more arguments for the program, and the time that it may take.
    pub fn source_with(&self, more: &[OsString], timeout: Duration) -> Result<KeySource, Failure> {
        let Self { key, key_env, signer, signer_arg, public_key, password_file, sequence } = self.clone();
        let (signer_args, date) = ([&signer_arg, more].concat(), source_date()?);
        Ok(KeySource { key, key_env, signer, signer_args, public_key, timeout, password_file, sequence, date })
    }
}
