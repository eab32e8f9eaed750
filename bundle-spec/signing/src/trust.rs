//! Who signed a bundle: its signatures checked with the given keys.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_archive::{ArchiveError, Bundle, Documents, Signature};
use kubexm_spec::manifest::FORMAT_WITH_PLACES;
use kubexm_spec::{Digest, ExitCode, SignedAt, Statement};

use crate::{KeyId, PublicKey};

/// What is known about who made a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Nobody signed it.
    Unsigned,
    /// Signed, and by no key that is at hand: **not checked**, never to be shown as verified.
    NotChecked {
        /// The key ids in the signatures.
        by: Vec<String>,
    },
    /// At least one trusted key's signature holds, and none of them does not.
    Valid {
        /// Whose signatures hold.
        by: Vec<Signer>,
        /// The ids of keys that are not at hand.
        others: Vec<String>,
    },
    /// A signature that is said to be by a trusted key does not hold, whatever the others say.
    Invalid {
        /// Which, and why.
        broken: Vec<Broken>,
    },
}

/// Somebody whose signature holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// By which key.
    pub key: KeyId,
    /// When the bundle was signed; none of a signature without a statement.
    pub signed: Option<SignedAt>,
}

/// What signatures are about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The exact bytes of manifest.json.
    pub manifest_json: &'a [u8],
    /// Digest of sources.json; none where it was left out.
    pub sources: Option<Digest>,
}

impl<'a> Subject<'a> {
    /// Of a bundle whose manifest.json has these bytes.
    ///
    /// # Errors
    /// Its sources.json cannot be read.
    pub fn of(bundle: &dyn Documents, manifest_json: &'a [u8]) -> Result<Self, ArchiveError> {
        let sources = bundle.sources_json()?.map(|content| Digest::of(&content));
        Ok(Self { manifest_json, sources })
    }

    /// What somebody signs who signs it now.
    pub fn statement(&self, signed: SignedAt) -> Statement {
        Statement::new(Digest::of(self.manifest_json), self.sources, signed)
    }
}

/// Signs a bundle: its statement, or (format 1) its manifest.json, where `signed` is said nowhere.
///
/// # Errors
/// The bundle cannot be read, or `sign` fails.
pub fn sign_bundle<E: From<ArchiveError>>(
    bundle: &Bundle,
    signed: SignedAt,
    sign: impl FnOnce(&[u8]) -> Result<Signature, E>,
) -> Result<Signature, E> {
    if bundle.manifest().format == FORMAT_WITH_PLACES {
        return sign(bundle.manifest_json());
    }
    let statement = Subject::of(bundle, bundle.manifest_json())?.statement(signed).to_text();
    let signature = sign(statement.as_bytes())?;
    Ok(Signature { statement: Some(statement), ..signature })
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
    pub fn valid_by(&self) -> Vec<&KeyId> {
        self.signers().iter().map(|signer| &signer.key).collect()
    }

    /// Those whose signatures hold.
    pub fn signers(&self) -> &[Signer] {
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
                let by: Vec<&str> = by.iter().map(|signer| signer.key.as_str()).collect();
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

/// Checks every signature that carries the id of a trusted key with that key.
pub fn check(signatures: &[Signature], subject: &Subject<'_>, trusted: &[PublicKey]) -> Trust {
    let (mut valid, mut others, mut broken) = (Vec::new(), Vec::new(), Vec::new());
    for signature in signatures {
        let Some(key) = trusted.iter().find(|key| key.id().as_str() == signature.key_id) else {
            push_new(&mut others, signature.key_id.clone());
            continue;
        };
        match holds(signature, subject, key) {
            Ok(signed) => push_new(&mut valid, Signer { key: key.id(), signed }),
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

/// Its stated time of creation.
fn holds(signature: &Signature, subject: &Subject<'_>, key: &PublicKey) -> Result<Option<SignedAt>, &'static str> {
    if signature.alg != key.algorithm().name() {
        return Err("is of another algorithm than the key");
    }
    let bytes = STANDARD.decode(&signature.sig).map_err(|_| "is not base64")?;
    let Some(text) = &signature.statement else {
        // Else whoever carries the bundle could say where everything in it is from.
        if subject.sources.is_some() {
            return Err("is over manifest.json alone, and does not cover the sources.json that is there");
        }
        let right = key.verifies(subject.manifest_json, &bytes);
        return if right { Ok(None) } else { Err("does not hold for this manifest.json") };
    };
    if !key.verifies(text.as_bytes(), &bytes) {
        return Err("does not hold for its statement");
    }
    let statement = Statement::parse(text).map_err(|_| "is over no statement about a bundle")?;
    if statement.manifest != Digest::of(subject.manifest_json) {
        return Err("is about another manifest.json");
    }
    if subject.sources.is_some_and(|found| statement.sources != Some(found)) {
        return Err("is about another sources.json, or about none");
    }
    let Statement { date, sequence, .. } = statement;
    Ok(Some(SignedAt { date, sequence }))
}

fn push_new<T: PartialEq>(all: &mut Vec<T>, new: T) {
    if !all.contains(&new) {
        all.push(new);
    }
}

/// The signatures with one more; one by the same key is replaced where it is.
#[must_use]
pub fn with_added(mut signatures: Vec<Signature>, new: Signature) -> Vec<Signature> {
    let at = signatures.iter().position(|old| old.key_id == new.key_id);
    signatures.retain(|old| old.key_id != new.key_id);
    let at = at.unwrap_or(signatures.len()).min(signatures.len());
    signatures.insert(at, new);
    signatures
}

/// What the operator asks of a bundle before it is trusted.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Whom to trust. With a key in it, a valid signature by one of them is mandatory.
    pub keys: Vec<PublicKey>,
    /// A valid signature is mandatory even when there is no key: then nothing is good enough.
    pub required: bool,
}

/// Why a bundle is not trusted.
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
    pub fn judge(&self, name: &str, signatures: &[Signature], subject: &Subject<'_>) -> Result<Trust, Untrusted> {
        let trust = check(signatures, subject, &self.keys);
        let mandatory = self.required || !self.keys.is_empty();
        let problem = match &trust {
            Trust::Valid { .. } => None,
            Trust::Invalid { .. } => Some(format!(
                "{trust}: the bundle was changed after it was signed, or the signature was put there by somebody else; get it again from the signer"
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
                Some(format!("it is {trust}; expected a signature by {}", keys.join(" or ")))
            }
        };
        match problem {
            None => Ok(trust),
            Some(problem) => Err(Untrusted { name: name.to_owned(), trust, problem }),
        }
    }
}
