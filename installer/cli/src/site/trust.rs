//! Whom a bundle has to be from before anything in it is believed.

use std::path::PathBuf;

use kubexm_archive::Bundle;
use kubexm_signing::{Policy, SigningError, Trust, files};
use kubexm_terminal::Failure;

use crate::support::home::Home;

/// Keys and signatures given on the command line.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TrustArgs {
    /// Public key of somebody who is trusted; may be given several times, and those in $KUBEXM_HOME/trusted-keys/*.pub count as
    /// given. With a key, only a bundle with a valid signature by one of them is taken (exit 34)
    #[arg(long = "key", value_name = "FILE", requires = "bundle")]
    pub keys: Vec<PathBuf>,
    /// Signatures in a file of their own (NAME.sig), beside those in the bundle
    #[arg(long = "signature", value_name = "FILE", requires = "bundle")]
    pub signatures: Vec<PathBuf>,
    /// Take no bundle without a valid signature, also when no key is given: then none is good enough (exit 34)
    #[arg(long, requires = "bundle")]
    pub require_signature: bool,
}

impl TrustArgs {
    /// Checks the signatures of a bundle; an error when they are not what is demanded. Asked each time a bundle is opened, whether
    /// its bytes were verified before or not: keys and demands may be others now.
    pub fn judge(&self, bundle: &Bundle, home: &Home) -> Result<Trust, Failure> {
        let mut keys = files::public_keys_in(&home.trusted_keys()).map_err(failure)?;
        for path in &self.keys {
            keys.push(files::public_key(path).map_err(failure)?);
        }
        let mut signatures = bundle.signatures().to_vec();
        for path in &self.signatures {
            signatures.extend(files::signatures(path).map_err(failure)?);
        }
        let policy = Policy { keys, required: self.require_signature };
        policy
            .judge(&bundle.path().display().to_string(), &signatures, bundle.manifest_json())
            .map_err(|untrusted| Failure::from_error(untrusted.exit_code(), &untrusted))
    }
}

fn failure(error: SigningError) -> Failure {
    Failure::from_error(error.exit_code(), &error)
}
