//! Holding signatures against content.

use digest::DynDigest;
use pgp::composed::{Deserializable as _, DetachedSignature};
use pgp::packet::{Signature, SignatureType, SignatureVersionSpecific, SubpacketData};

use super::error::TrustError;
use super::keyring::Keyring;
use super::policy::{Policy, strong};
use super::{armor, cleartext};

/// A signature has a kilobyte, a file of them some more.
const SIGNATURES: usize = 1 << 20;

/// Each signature hashes all of the content, and one that names no key is tried with each: distributions have two or three, and a
/// megabyte has room for fifty thousand.
pub(super) const MOST: usize = 32;

/// The clear-signed InRelease of a large distribution has a megabyte.
const DOCUMENT: usize = 64 << 20;

/// Who has signed something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// Of the primary key: 40 or 64 upper-case hex digits.
    pub fingerprint: String,
    /// The owner's name, as the key says it.
    pub owner: String,
    /// When, in seconds of Unix time.
    pub made: i64,
}

/// Reads a clear-signed document: gives the text that is signed, and nothing else of it, if a key of the ring signed it.
pub fn clearsigned(document: &[u8], keyring: &Keyring, policy: &Policy) -> Result<(String, Signer), TrustError> {
    if document.len() > DOCUMENT {
        return Err(TrustError::TooLarge { size: document.len(), limit: DOCUMENT });
    }
    let not = |why: String| TrustError::NotClearsigned { why };
    let document = std::str::from_utf8(document).map_err(|error| not(error.to_string()))?;
    let parts = cleartext::split(document).map_err(not)?;
    let signer = detached(cleartext::canonical(&parts.text).as_bytes(), parts.signature.as_bytes(), keyring, policy)?;
    Ok((parts.text, signer))
}

/// Whether a key of the ring has signed a content, with a signature that is elsewhere: ASCII-armored or packets.
pub fn detached(content: &[u8], signature: &[u8], keyring: &Keyring, policy: &Policy) -> Result<Signer, TrustError> {
    let mut checker = Checker::new(signature)?;
    checker.update(content);
    checker.finish(keyring, policy)
}

/// Holds detached signatures against a content that comes in pieces: an .rpm need not be in memory.
pub struct Checker {
    pending: Vec<Pending>,
}

struct Pending {
    signature: Signature,
    /// None where the signature is of a kind that we do not read.
    hasher: Option<Box<dyn DynDigest + Send>>,
    /// The last byte of a text was CR.
    after_cr: bool,
}

impl Checker {
    /// Reads the signatures: ASCII-armored or packets, one or several.
    pub fn new(signatures: &[u8]) -> Result<Self, TrustError> {
        let not = |why: String| TrustError::NotASignature { why };
        if signatures.len() > SIGNATURES {
            return Err(TrustError::TooLarge { size: signatures.len(), limit: SIGNATURES });
        }
        let mut pending = Vec::new();
        for packets in armor::packets(signatures, armor::SIGNATURE).map_err(not)? {
            for signature in DetachedSignature::from_bytes_many(&packets[..]).map_err(|error| not(error.to_string()))? {
                if pending.len() == MOST {
                    return Err(TrustError::TooManySignatures { limit: MOST });
                }
                pending.push(Pending::new(signature.map_err(|error| not(error.to_string()))?.signature));
            }
        }
        if pending.is_empty() {
            return Err(not("there is none in it".to_owned()));
        }
        Ok(Self { pending })
    }

    /// How many signatures there are.
    pub(super) const fn len(&self) -> usize {
        self.pending.len()
    }

    /// The next piece of the content.
    pub fn update(&mut self, content: &[u8]) {
        for pending in &mut self.pending {
            pending.update(content);
        }
    }

    /// Who has signed what was given. One good signature of a trusted key is enough; one that does not fit the content is too much,
    /// since no honest copy has it.
    pub fn finish(self, keyring: &Keyring, policy: &Policy) -> Result<Signer, TrustError> {
        let mut good = None;
        let mut worst = TrustError::NoSignatureOfAKnownKey {
            found: self.pending.iter().map(|pending| issuer(&pending.signature)).collect(),
            known: keyring.fingerprints(),
        };
        for pending in self.pending {
            let signature = pending.signature.clone();
            let Some(hash) = pending.hash() else { continue };
            for (certificate, key) in keyring.candidates(&signature) {
                let named = !signature.issuer_key_id().is_empty() || !signature.issuer_fingerprint().is_empty();
                let result = if key.made(&signature, &hash) {
                    allowed(&signature, policy, &key.name())
                        .and_then(|made| certificate.allows(key, made, policy).map(|()| made))
                } else if named {
                    Err(TrustError::BadSignature { key: key.name() })
                } else {
                    continue;
                };
                match result {
                    Ok(made) => {
                        good.get_or_insert_with(|| Signer {
                            fingerprint: certificate.fingerprint().to_owned(),
                            owner: certificate.owner().to_owned(),
                            made,
                        });
                    }
                    Err(error) if error.weight() > worst.weight() => worst = error,
                    Err(_) => {}
                }
            }
        }
        match good {
            Some(signer) if !matches!(worst, TrustError::BadSignature { .. }) => Ok(signer),
            _ => Err(worst),
        }
    }
}

impl Pending {
    fn new(signature: Signature) -> Self {
        let hasher = signature.config().and_then(|config| {
            let mut hasher = match config.typ() {
                SignatureType::Binary | SignatureType::Text => config.hash_alg.new_hasher().ok()?,
                _ => return None,
            };
            if let SignatureVersionSpecific::V6 { salt } = &config.version_specific {
                if config.hash_alg.salt_len() != Some(salt.len()) {
                    return None;
                }
                hasher.update(salt);
            }
            Some(hasher)
        });
        Self { signature, hasher, after_cr: false }
    }

    /// A text is hashed with CR LF at the ends of its lines (RFC 9580, 5.2.1.2).
    fn update(&mut self, content: &[u8]) {
        let Some(hasher) = &mut self.hasher else { return };
        if self.signature.typ() != Some(SignatureType::Text) {
            return hasher.update(content);
        }
        for line in content.split_inclusive(|byte| *byte == b'\n') {
            match line.strip_suffix(b"\n") {
                Some(body) => {
                    hasher.update(body);
                    let has_cr = if body.is_empty() { self.after_cr } else { body.ends_with(b"\r") };
                    hasher.update(if has_cr { b"\n" } else { b"\r\n" });
                    self.after_cr = false;
                }
                None => {
                    hasher.update(line);
                    self.after_cr = line.ends_with(b"\r");
                }
            }
        }
    }

    /// What is signed, if the signature's first two bytes of it fit.
    fn hash(self) -> Option<Vec<u8>> {
        let (config, mut hasher) = (self.signature.config()?, self.hasher?);
        let length = config.hash_signature_data(&mut hasher).ok()?;
        hasher.update(&config.trailer(length).ok()?);
        Some(hasher.finalize().into_vec())
    }
}

/// Whether the signature itself may be trusted at this time; gives when it was made.
fn allowed(signature: &Signature, policy: &Policy, key: &str) -> Result<i64, TrustError> {
    let key = || key.to_owned();
    let Some((config, created)) = signature.config().zip(signature.created()) else {
        return Err(TrustError::ImpossibleTime { key: key(), made: 0 });
    };
    if !strong(config.hash_alg, policy) {
        return Err(TrustError::WeakDigest { key: key(), digest: config.hash_alg.to_string() });
    }
    // What its maker declared as necessary to understand, and nobody here does. (rPGP refuses types it does not know.)
    let critical = |data: &SubpacketData| matches!(data, SubpacketData::Notation(_) | SubpacketData::Experimental(..));
    if config.hashed_subpackets().any(|one| one.is_critical && critical(&one.data)) {
        return Err(TrustError::NotForSigning { key: key() });
    }
    let made = i64::from(created.as_secs());
    if made > policy.latest() {
        return Err(TrustError::ImpossibleTime { key: key(), made });
    }
    let lasts = signature.signature_expiration_time().map(|after| i64::from(after.as_secs()));
    match lasts.filter(|after| *after > 0).map(|after| made + after) {
        Some(at) if at <= policy.now => Err(TrustError::SignatureExpired { key: key(), at }),
        _ => Ok(made),
    }
}

/// Whom a signature names as its maker.
fn issuer(signature: &Signature) -> String {
    let fingerprint = signature.issuer_fingerprint().first().map(|one| one.to_string().to_uppercase());
    let id = || signature.issuer_key_id().first().map(|one| one.to_string().to_uppercase());
    fingerprint.or_else(id).unwrap_or_else(|| "a key that it does not name".to_owned())
}
