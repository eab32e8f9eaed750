//! Whom a bundle is from: its signatures against the keys at hand.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_archive::Signature;
use kubexm_spec::ExitCode;

use crate::{KeyId, PublicKey};

/// What is known about who made a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Nobody signed it.
    Unsigned,
    /// Signed, and by no key that is at hand: **not checked**, never to be shown as verified.
    NotChecked {
        /// The ids that the signatures tell.
        by: Vec<String>,
    },
    /// At least one trusted key's signature holds, and none of them does not.
    Valid {
        /// Whose signatures hold.
        by: Vec<KeyId>,
        /// The ids of keys that are not at hand.
        others: Vec<String>,
    },
    /// A signature that is said to be by a trusted key does not hold, whatever the others say.
    Invalid {
        /// Which, and why.
        broken: Vec<Broken>,
    },
}

/// A signature that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// By which key it is said to be.
    pub key_id: KeyId,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl Trust {
    /// One word for machines: `unsigned`, `notChecked`, `valid`, `invalid`.
    pub const fn state(&self) -> &'static str {
        match self {
            Self::Unsigned => "unsigned",
            Self::NotChecked { .. } => "notChecked",
            Self::Valid { .. } => "valid",
            Self::Invalid { .. } => "invalid",
        }
    }

    /// The ids of the trusted keys whose signatures hold.
    pub fn valid_by(&self) -> &[KeyId] {
        match self {
            Self::Valid { by, .. } => by,
            _ => &[],
        }
    }
}

impl std::fmt::Display for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unsigned => f.write_str("unsigned"),
            Self::NotChecked { by } => write!(f, "signed by {}, not checked", by.join(", ")),
            Self::Valid { by, others } => {
                let by: Vec<&str> = by.iter().map(KeyId::as_str).collect();
                write!(f, "signature valid, by {}", by.join(", "))?;
                if others.is_empty() {
                    Ok(())
                } else {
                    write!(f, "; also signed by {}, not checked", others.join(", "))
                }
            }
            Self::Invalid { broken } => {
                let broken: Vec<String> = broken.iter().map(|b| format!("of key {} {}", b.key_id, b.problem)).collect();
                write!(f, "the signature {}", broken.join(", and the one "))
            }
        }
    }
}

/// Holds every signature that tells the id of a trusted key against that key. `manifest_json`: the exact bytes.
pub fn check(signatures: &[Signature], manifest_json: &[u8], trusted: &[PublicKey]) -> Trust {
    let (mut valid, mut others, mut broken) = (Vec::new(), Vec::new(), Vec::new());
    for signature in signatures {
        let Some(key) = trusted.iter().find(|key| key.id().as_str() == signature.key_id) else {
            push_new(&mut others, signature.key_id.clone());
            continue;
        };
        match holds(signature, manifest_json, key) {
            Ok(()) => push_new(&mut valid, key.id()),
            Err(problem) => broken.push(Broken { key_id: key.id(), problem }),
        }
    }
    if !broken.is_empty() {
        return Trust::Invalid { broken };
    }
    match (valid.is_empty(), others.is_empty()) {
        (false, _) => Trust::Valid { by: valid, others },
        (true, false) => Trust::NotChecked { by: others },
        (true, true) => Trust::Unsigned,
    }
}

fn holds(signature: &Signature, manifest_json: &[u8], key: &PublicKey) -> Result<(), &'static str> {
    if signature.alg != key.algorithm().name() {
        return Err("is of another algorithm than the key");
    }
    let bytes = STANDARD.decode(&signature.sig).map_err(|_| "is no base64")?;
    if key.verifies(manifest_json, &bytes) { Ok(()) } else { Err("does not hold for this manifest.json") }
}

fn push_new<T: PartialEq>(all: &mut Vec<T>, new: T) {
    if !all.contains(&new) {
        all.push(new);
    }
}

/// The signatures with one more; one by the same key is replaced where it stands.
#[must_use]
pub fn with_added(mut signatures: Vec<Signature>, new: Signature) -> Vec<Signature> {
    let at = signatures.iter().position(|old| old.key_id == new.key_id);
    signatures.retain(|old| old.key_id != new.key_id);
    let at = at.unwrap_or(signatures.len()).min(signatures.len());
    signatures.insert(at, new);
    signatures
}

/// What the operator asks of a bundle before it is believed.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Whom to trust. With a key in it, a valid signature by one of them is mandatory.
    pub keys: Vec<PublicKey>,
    /// A valid signature is mandatory even when there is no key: then nothing is good enough.
    pub required: bool,
}

/// Why a bundle is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is not to be trusted: {problem}")]
pub struct Untrusted {
    /// The bundle.
    pub name: String,
    /// What is known of it.
    pub trust: Trust,
    /// Text: what is missing, and what to do.
    pub problem: String,
}

impl Untrusted {
    /// How a program ends on it.
    pub const fn exit_code(&self) -> ExitCode {
        ExitCode::BundleUntrusted
    }
}

impl Policy {
    /// Checks the signatures, and whether what they say is enough. `name` is what messages call the bundle.
    pub fn judge(&self, name: &str, signatures: &[Signature], manifest_json: &[u8]) -> Result<Trust, Untrusted> {
        let trust = check(signatures, manifest_json, &self.keys);
        let mandatory = self.required || !self.keys.is_empty();
        let problem = match &trust {
            Trust::Valid { .. } => None,
            Trust::Invalid { .. } => Some(format!(
                "{trust}: the bundle was changed after it was signed, or the signature was put there by somebody else; get it again from who signed it"
            )),
            _ if !mandatory => None,
            Trust::Unsigned => {
                Some("it is unsigned, and a signature is required; have it signed with `kubexm-bundle sign`".to_owned())
            }
            Trust::NotChecked { .. } if self.keys.is_empty() => Some(format!(
                "it is {trust}; a valid signature is required, and there is no key to check with: give --key"
            )),
            Trust::NotChecked { .. } => {
                let keys: Vec<String> = self.keys.iter().map(|key| key.id().to_string()).collect();
                Some(format!("it is {trust}; wanted is a signature by {}", keys.join(" or ")))
            }
        };
        match problem {
            None => Ok(trust),
            Some(problem) => Err(Untrusted { name: name.to_owned(), trust, problem }),
        }
    }
}
