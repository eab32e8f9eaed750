//! Checks who signed a bundle before anything in it is trusted.

use std::fmt;
use std::path::{Path, PathBuf};

use kubexm_archive::Bundle;
use kubexm_plan::BundleRecord;
use kubexm_signing::{KeyId, Policy, PublicKey, Subject, Trust, files};
use kubexm_spec::Digest;

use crate::error::SessionError;
use crate::home::Home;
use crate::options::TrustOptions;

/// The result of checking a bundle's signatures. Only [`TrustOptions::judge`] creates one.
#[derive(Clone, Debug)]
pub struct Provenance {
    trust: Trust,
    /// Trusted keys with valid signatures, each with the name of its file.
    names: Vec<(KeyId, String)>,
    /// The manifest that was checked.
    manifest: Digest,
}

impl Provenance {
    /// Whether a trusted key has signed exactly this bundle.
    pub fn vouches_for(&self, bundle: &Bundle) -> bool {
        matches!(self.trust, Trust::Valid { .. }) && self.manifest == bundle.manifest_digest()
    }

    /// The record of the bundle for nodes and controllers.
    pub fn bundle_record(&self) -> BundleRecord {
        let signers = self.trust.signers();
        let signed = || signers.iter().filter_map(|signer| signer.signed);
        BundleRecord {
            manifest: self.manifest,
            signers: signers.iter().map(|signer| signer.key.to_string()).collect(),
            date: signed().map(|signed| signed.date).max(),
            sequence: signed().filter_map(|signed| signed.sequence).max(),
        }
    }

    /// The result of the signatures, for the log.
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
                write!(f, "NOT SIGNED by a key you trust: it names key {}, which is not one of yours", by.join(", "))
            }
            Trust::Invalid { .. } => write!(f, "NOT SIGNED: {}", self.trust),
        }
    }
}

impl TrustOptions {
    /// Checks the signatures of a bundle; fails if required ones are missing. Repeated each time a bundle is opened,
    /// even if its bytes were verified before: keys and requirements may have changed.
    pub fn judge(&self, bundle: &Bundle, home: &Home) -> Result<Provenance, SessionError> {
        let mut keys = files::public_keys_in(&home.trusted_keys())?;
        for path in &self.keys {
            keys.push((path.clone(), files::public_key(path)?));
        }
        let mut signatures = bundle.signatures().to_vec();
        for path in &self.signatures {
            signatures.extend(files::signatures(path)?);
        }
        let subject = Subject::of(bundle, bundle.manifest_json())?;
        let policy =
            Policy { keys: keys.iter().map(|(_, key)| key.clone()).collect(), required: self.require_signature };
        let trust = policy.judge(&bundle.path().display().to_string(), &signatures, &subject)?;
        let names = trust.valid_by().into_iter().map(|id| (id.clone(), name_of(id, &keys))).collect();
        Ok(Provenance { trust, names, manifest: bundle.manifest_digest() })
    }
}

/// The name of a key: its file name without `.pub`.
fn name_of(id: &KeyId, keys: &[(PathBuf, PublicKey)]) -> String {
    let path = keys.iter().find(|(_, key)| key.id() == *id).map(|(path, _)| path.as_path());
    let stem = path.and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    stem.unwrap_or_else(|| "a trusted key".to_owned())
}
