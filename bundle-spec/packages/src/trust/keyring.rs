//! Public keys, and which of them may have signed what.

use std::fmt;

use pgp::composed::{Deserializable as _, SignedPublicKey};
use pgp::packet::{PublicKey, PublicSubkey, Signature};
use pgp::ser::Serialize as _;
use pgp::types::{KeyDetails, PublicParams, VerifyingKey};

use super::armor;
use super::error::TrustError;
use super::policy::{self, Policy};
use super::statement::{self, Said};

/// A keyring of a distribution has some hundred kilobytes.
const LIMIT: usize = 16 << 20;

/// A shorter modulus can be factored.
const RSA_BITS: usize = 2048;

/// Public keys that are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyring {
    certificates: Vec<Certificate>,
}

/// A primary key with its names and subkeys.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    fingerprint: String,
    owner: String,
    keys: Vec<Key>,
}

/// One key of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    material: Material,
    said: Said,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    Primary(PublicKey),
    Sub(PublicSubkey),
}

impl Keyring {
    /// Reads certificates: ASCII-armored (several blocks, several keys in a block) or binary.
    pub fn read(bytes: &[u8]) -> Result<Self, TrustError> {
        let not = |why: String| TrustError::NotKeys { why };
        if bytes.len() > LIMIT {
            return Err(TrustError::TooLarge { size: bytes.len(), limit: LIMIT });
        }
        let mut certificates = Vec::new();
        for packets in armor::packets(bytes, armor::PUBLIC_KEY).map_err(not)? {
            for certificate in SignedPublicKey::from_bytes_many(&packets[..]).map_err(|error| not(error.to_string()))? {
                certificates.push(Certificate::of(&certificate.map_err(|error| not(error.to_string()))?));
            }
        }
        if certificates.is_empty() {
            return Err(not("there is none in it".to_owned()));
        }
        Ok(Self { certificates })
    }

    /// Those with these fingerprints of primary keys (hex digits of either case, blanks between them do not matter), all of which must be here.
    pub fn pinned(self, fingerprints: &[String]) -> Result<Self, TrustError> {
        let wanted: Vec<String> = fingerprints.iter().map(|text| normal(text)).collect();
        let has: Vec<String> = self.certificates.iter().map(|one| one.fingerprint.clone()).collect();
        let missing: Vec<String> = wanted.iter().filter(|one| !has.contains(one)).cloned().collect();
        if !missing.is_empty() || wanted.is_empty() {
            return Err(TrustError::MissingKeys { wanted: missing, has });
        }
        let certificates = self.certificates.into_iter().filter(|one| wanted.contains(&one.fingerprint)).collect();
        Ok(Self { certificates })
    }

    /// What is in it, in the order it was read.
    pub fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }

    /// Fingerprints of the primary keys.
    pub fn fingerprints(&self) -> Vec<String> {
        self.certificates.iter().map(|one| one.fingerprint.clone()).collect()
    }

    /// With another's keys.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.certificates.extend(other.certificates);
        self
    }

    /// Keys that a signature names as its maker. One that names none may be by any.
    pub(super) fn candidates<'a>(
        &'a self,
        signature: &'a Signature,
    ) -> impl Iterator<Item = (&'a Certificate, &'a Key)> + 'a {
        let (ids, fingerprints) = (signature.issuer_key_id(), signature.issuer_fingerprint());
        (self.certificates.iter())
            .flat_map(|certificate| certificate.keys.iter().map(move |key| (certificate, key)))
            .filter(move |(_, key)| {
                let nobody = ids.is_empty() && fingerprints.is_empty();
                nobody || ids.contains(&&key.id()) || fingerprints.contains(&&key.fingerprint())
            })
    }
}

impl Certificate {
    pub(super) fn of(certificate: &SignedPublicKey) -> Self {
        let primary = Key {
            material: Material::Primary(certificate.primary_key.clone()),
            said: statement::of_primary(certificate),
        };
        let subkeys = certificate.public_subkeys.iter().map(|subkey| Key {
            material: Material::Sub(subkey.key.clone()),
            said: statement::of_subkey(certificate, subkey),
        });
        let users = &certificate.details.users;
        let user = users.iter().find(|user| user.is_primary()).or_else(|| users.first());
        Self {
            fingerprint: certificate.fingerprint().to_string().to_uppercase(),
            owner: user.map(|user| String::from_utf8_lossy(user.id.id()).into_owned()).unwrap_or_default(),
            keys: std::iter::once(primary).chain(subkeys).collect(),
        }
    }

    /// Of the primary key: 40 or 64 upper-case hex digits.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The owner's name as the key states it, unchecked.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The key of a certificate of that fingerprint, the primary or a subkey.
    pub(super) fn key(&self, fingerprint: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.name() == fingerprint)
    }

    /// Whether a key of this certificate may have made a signature at that time.
    pub(super) fn allows(&self, key: &Key, made: i64, policy: &Policy) -> Result<(), TrustError> {
        let Some(primary) = self.keys.first() else { return Err(TrustError::NotBound { key: key.name() }) };
        for key in [primary, key] {
            key.strong()?;
            if key.said.revoked.is_some() {
                return Err(TrustError::Revoked { key: key.name() });
            }
        }
        // The primary key is pinned by its fingerprint, so what it says of itself may be over SHA-1: keys of 2009 and 2014 that vendors
        // still sign with say nothing else. What binds a subkey may not, since who forges that brings a key of their own.
        primary.statement(made, policy, true)?;
        let statement = key.statement(made, policy, std::ptr::eq(key, primary))?;
        if made < key.created() {
            return Err(TrustError::ImpossibleTime { key: key.name(), made });
        }
        if statement.signs { Ok(()) } else { Err(TrustError::NotForSigning { key: key.name() }) }
    }
}

/// Keys are long, and named by their fingerprints.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.fingerprint, self.owner)
    }
}

impl Key {
    /// The newest statement of those that may be trusted, if the key had not expired by it.
    fn statement(&self, made: i64, policy: &Policy, sha1: bool) -> Result<statement::Statement, TrustError> {
        let taken = |statement: &&statement::Statement| {
            let policy = Policy { sha1: policy.sha1 || sha1, ..*policy };
            statement.made <= policy.latest() && policy::strong(statement.digest, &policy)
        };
        let Some(newest) = self.said.statements.iter().filter(taken).max_by_key(|one| one.made) else {
            return Err(TrustError::NotBound { key: self.name() });
        };
        let at = if policy.expired_keys { made } else { policy.now.max(made) };
        match newest.expires {
            Some(end) if end <= at => Err(TrustError::Expired { key: self.name(), at: end }),
            _ => Ok(*newest),
        }
    }

    fn strong(&self) -> Result<(), TrustError> {
        let weak = |what: String| TrustError::WeakKey { key: self.name(), what };
        match self.details().public_params() {
            PublicParams::RSA(params) => {
                // Two numbers, each with its length in two bytes; the exponent has one to four.
                let bits = params.write_len().saturating_sub(2 + 2 + 1) * 8;
                if bits < RSA_BITS { Err(weak(format!("RSA of fewer than {RSA_BITS} bits"))) } else { Ok(()) }
            }
            PublicParams::DSA(_) | PublicParams::Elgamal(_) => Err(weak("DSA is no longer accepted".to_owned())),
            _ => Ok(()),
        }
    }

    fn details(&self) -> &dyn KeyDetails {
        match &self.material {
            Material::Primary(key) => key,
            Material::Sub(key) => key,
        }
    }

    fn id(&self) -> pgp::types::KeyId {
        self.details().legacy_key_id()
    }

    fn fingerprint(&self) -> pgp::types::Fingerprint {
        self.details().fingerprint()
    }

    /// Its fingerprint.
    pub(super) fn name(&self) -> String {
        self.fingerprint().to_string().to_uppercase()
    }

    /// Whether it was ever meant for signing content.
    pub(super) fn is_for_signing(&self) -> bool {
        self.said.statements.iter().any(|statement| statement.signs)
    }

    /// When its owner has revoked it, in seconds of Unix time.
    pub(super) const fn revoked(&self) -> Option<i64> {
        self.said.revoked
    }

    pub(super) fn created(&self) -> i64 {
        i64::from(self.details().created_at().as_secs())
    }

    /// Whether a signature over a hashed content is by this key.
    pub(super) fn made(&self, signature: &Signature, hash: &[u8]) -> bool {
        let (Some(digest), Some(bytes)) = (signature.hash_alg(), signature.signature()) else { return false };
        match &self.material {
            Material::Primary(key) => key.verify(digest, hash, bytes).is_ok(),
            Material::Sub(key) => key.verify(digest, hash, bytes).is_ok(),
        }
    }
}

fn normal(fingerprint: &str) -> String {
    fingerprint.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_uppercase()
}
