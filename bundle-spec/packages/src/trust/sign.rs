//! The site's own key, and what it signs: the metadata of our repositories.
//!
//! RSA, since old package managers know nothing else, and SHA-256. RSA signatures of the same text at the same time are the same bytes.

use pgp::composed::{
    ArmorOptions, Deserializable as _, DetachedSignature, KeyType, SecretKeyParamsBuilder, SignedSecretKey,
};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureConfig, SignatureType, Subpacket, SubpacketData};
use pgp::ser::Serialize as _;
use pgp::types::{KeyDetails as _, KeyVersion, Password, SigningKey, Timestamp};

use super::sign_error::SignError;
use super::{armor, cleartext, signing};

/// A secret key that signs repositories. It has no `Debug`, and its memory is wiped when it is dropped.
pub struct SiteKey {
    key: SignedSecretKey,
    password: Password,
    /// The place of the subkey that signs; none: the primary does.
    subkey: Option<usize>,
}

impl SiteKey {
    /// Makes a key that only signs, of so many bits (4096), that never expires. Takes some seconds, and the system's clock and
    /// entropy.
    pub fn generate(owner: &str, bits: u32) -> Result<Self, SignError> {
        let failed = |error: &dyn std::fmt::Display| SignError::OpenPgp(error.to_string());
        let mut params = SecretKeyParamsBuilder::default();
        params.key_type(KeyType::Rsa(bits)).can_certify(true).can_sign(true).primary_user_id(owner.to_owned());
        let params = params.build().map_err(|error| failed(&error))?;
        let key = params.generate(rand::rngs::OsRng).map_err(|error| failed(&error))?;
        Ok(Self { key, password: Password::empty(), subkey: None })
    }

    /// Reads a secret key: ASCII-armored or binary, locked with a password or not. Takes the system's clock: whether the key has expired
    /// is asked of the present, since that is when others will look. What it signs may be dated earlier (`SOURCE_DATE_EPOCH`).
    pub fn read(bytes: &[u8], password: Option<&str>) -> Result<Self, SignError> {
        Self::read_at(bytes, password, i64::from(Timestamp::now().as_secs()))
    }

    /// The same by another clock, in seconds of Unix time.
    pub fn read_at(bytes: &[u8], password: Option<&str>, now: i64) -> Result<Self, SignError> {
        let not = |why: String| SignError::NotAKey { why };
        let mut keys = Vec::new();
        for packets in armor::packets(bytes, armor::PRIVATE_KEY).map_err(not)? {
            for key in SignedSecretKey::from_bytes_many(&packets[..]).map_err(|error| not(error.to_string()))? {
                keys.push(key.map_err(|error| not(error.to_string()))?);
            }
        }
        let count = keys.len();
        let (Some(key), true) = (keys.pop(), count <= 1) else {
            return Err(if count == 0 { not("there is none in it".to_owned()) } else { SignError::SeveralKeys(count) });
        };
        let subkey = signing::part(&key, now)?;
        let given = password.is_some();
        let site = Self { key, password: password.map_or_else(Password::empty, Password::from), subkey };
        let fingerprint = site.fingerprint();
        // Tried at once: a wrong password is found before anything is written.
        match site.detached(b"", 0) {
            Ok(_) => Ok(site),
            Err(_) if given => Err(SignError::Locked(fingerprint)),
            Err(_) if site.is_locked() => Err(SignError::NeedsPassword(fingerprint)),
            Err(error) => Err(error),
        }
    }

    fn is_locked(&self) -> bool {
        let params = match self.subkey.and_then(|place| self.key.secret_subkeys.get(place)) {
            Some(subkey) => subkey.key.secret_params(),
            None => self.key.primary_key.secret_params(),
        };
        params.is_encrypted()
    }

    /// Of the primary key: 40 upper-case hex digits.
    pub fn fingerprint(&self) -> String {
        self.key.fingerprint().to_string().to_uppercase()
    }

    /// When the key was made, in seconds of Unix time: what it signs should not be dated earlier.
    pub fn created(&self) -> i64 {
        i64::from(match self.subkey.and_then(|place| self.key.secret_subkeys.get(place)) {
            Some(subkey) => subkey.key.created_at().as_secs(),
            None => self.key.created_at().as_secs(),
        })
    }

    /// The secret key, ASCII-armored, as it was read or made: without a password where it has none.
    pub fn secret(&self) -> Result<zeroize::Zeroizing<String>, SignError> {
        let text = self.key.to_armored_string(ArmorOptions::default());
        text.map(zeroize::Zeroizing::new).map_err(|error| SignError::OpenPgp(error.to_string()))
    }

    /// The certificate, ASCII-armored: for `signed-by=` of apt 1.4 and later, and for `rpm --import`.
    pub fn public(&self) -> Result<String, SignError> {
        let text = self.key.to_public_key().to_armored_string(ArmorOptions::default());
        text.map_err(|error| SignError::OpenPgp(error.to_string()))
    }

    /// The certificate in binary: for `signed-by=` of every apt.
    pub fn public_binary(&self) -> Result<Vec<u8>, SignError> {
        self.key.to_public_key().to_bytes().map_err(|error| SignError::OpenPgp(error.to_string()))
    }

    /// A clear-signed document of a text (`InRelease` of `Release`), signed at a time in seconds of Unix time.
    pub fn clearsigned(&self, text: &str, made: i64) -> Result<String, SignError> {
        let signature = self.sign(SignatureType::Text, cleartext::canonical(text).as_bytes(), made)?;
        Ok(cleartext::join(text, "SHA256", &armored(signature)?))
    }

    /// A detached signature of a content (`Release.gpg`, `repomd.xml.asc`), ASCII-armored, made at a time in seconds of Unix time.
    pub fn detached(&self, content: &[u8], made: i64) -> Result<String, SignError> {
        armored(self.sign(SignatureType::Binary, content, made)?)
    }

    fn sign(&self, typ: SignatureType, content: &[u8], made: i64) -> Result<Signature, SignError> {
        match self.subkey.and_then(|place| self.key.secret_subkeys.get(place)) {
            Some(subkey) => sign(&subkey.key, &self.password, typ, content, made),
            None => sign(&self.key.primary_key, &self.password, typ, content, made),
        }
    }
}

fn sign(
    key: &impl SigningKey,
    password: &Password,
    typ: SignatureType,
    content: &[u8],
    made: i64,
) -> Result<Signature, SignError> {
    let failed = |error: pgp::errors::Error| SignError::OpenPgp(error.to_string());
    if key.version() != KeyVersion::V4 {
        return Err(SignError::OpenPgp("keys of version 4 sign what old package managers read".to_owned()));
    }
    let subpacket = |data| Subpacket::regular(data).map_err(failed);
    let mut config = SignatureConfig::v4(typ, key.algorithm(), HashAlgorithm::Sha256);
    config.hashed_subpackets = vec![
        subpacket(SubpacketData::SignatureCreationTime(timestamp(made)?))?,
        subpacket(SubpacketData::IssuerFingerprint(key.fingerprint()))?,
    ];
    config.unhashed_subpackets = vec![subpacket(SubpacketData::IssuerKeyId(key.legacy_key_id()))?];
    config.sign(key, password, content).map_err(failed)
}

fn armored(signature: Signature) -> Result<String, SignError> {
    let text = DetachedSignature::new(signature).to_armored_string(ArmorOptions::default());
    text.map_err(|error| SignError::OpenPgp(error.to_string()))
}

fn timestamp(seconds: i64) -> Result<Timestamp, SignError> {
    let seconds = u32::try_from(seconds);
    seconds.map(Timestamp::from_secs).map_err(|_| SignError::OpenPgp("the time is out of OpenPGP's range".to_owned()))
}
