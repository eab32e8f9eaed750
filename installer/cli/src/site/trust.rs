//! Whom a bundle has to be from before anything in it is trusted.

use std::fmt;
use std::path::{Path, PathBuf};

use kubexm_archive::Bundle;
use kubexm_signing::{KeyId, Policy, PublicKey, SigningError, Trust, files};
use kubexm_spec::Digest;
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
    /// Use the cluster.yaml of a bundle that no trusted key has signed without being asked: connect to the hosts that it names,
    /// with the passwords and keys that it names. Where a key is trusted, such a bundle is refused all the same
    #[arg(long, requires = "bundle", conflicts_with = "require_signature")]
    pub allow_unsigned: bool,
}

/// Who vouches for one bundle. Made by [`TrustArgs::judge`] alone.
#[derive(Clone, Debug)]
pub struct Provenance {
    trust: Trust,
    /// Of trusted keys whose signatures hold: the name of the key's file.
    names: Vec<(KeyId, String)>,
    /// The manifest that was judged.
    manifest: Digest,
}

impl Provenance {
    /// Whether a trusted key has signed exactly this bundle.
    pub fn vouches_for(&self, bundle: &Bundle) -> bool {
        matches!(self.trust, Trust::Valid { .. }) && self.manifest == bundle.manifest_digest()
    }

    /// What the signatures say, for the log.
    pub const fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Whether a trusted key has signed.
    pub const fn is_signed(&self) -> bool {
        matches!(self.trust, Trust::Valid { .. })
    }
}

/// `signed by release (key 3f…)`, or `NOT SIGNED` and why.
impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.trust {
            Trust::Valid { .. } => {
                let signers: Vec<String> = self.names.iter().map(|(id, name)| format!("{name} (key {id})")).collect();
                write!(f, "signed by {}", signers.join(" and "))
            }
            Trust::Unsigned => f.write_str("NOT SIGNED: it carries no signature"),
            Trust::NotChecked { by } => {
                write!(f, "NOT SIGNED by anybody you trust: it names key {}, which is not among yours", by.join(", "))
            }
            Trust::Invalid { .. } => write!(f, "NOT SIGNED: {}", self.trust),
        }
    }
}

impl TrustArgs {
    /// Checks the signatures of a bundle; an error when they are not what is demanded. Asked each time a bundle is opened, whether
    /// its bytes were verified before or not: keys and demands may be others now.
    pub fn judge(&self, bundle: &Bundle, home: &Home) -> Result<Provenance, Failure> {
        let mut keys = files::public_keys_in(&home.trusted_keys()).map_err(failure)?;
        for path in &self.keys {
            keys.push((path.clone(), files::public_key(path).map_err(failure)?));
        }
        let mut signatures = bundle.signatures().to_vec();
        for path in &self.signatures {
            signatures.extend(files::signatures(path).map_err(failure)?);
        }
        let policy =
            Policy { keys: keys.iter().map(|(_, key)| key.clone()).collect(), required: self.require_signature };
        let trust = policy
            .judge(&bundle.path().display().to_string(), &signatures, bundle.manifest_json())
            .map_err(|untrusted| Failure::from_error(untrusted.exit_code(), &untrusted))?;
        let names = trust.valid_by().iter().map(|id| (id.clone(), name_of(id, &keys))).collect();
        Ok(Provenance { trust, names, manifest: bundle.manifest_digest() })
    }
}

/// What the operator calls a key: its file, without `.pub`.
fn name_of(id: &KeyId, keys: &[(PathBuf, PublicKey)]) -> String {
    let path = keys.iter().find(|(_, key)| key.id() == *id).map(|(path, _)| path.as_path());
    let stem = path.and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    stem.unwrap_or_else(|| "a trusted key".to_owned())
}

fn failure(error: SigningError) -> Failure {
    Failure::from_error(error.exit_code(), &error)
}
