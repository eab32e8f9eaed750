//! Public keys: who is trusted, and what a signature is compared with.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::Verifier;
use kubexm_archive::Signature;
use kubexm_spec::Digest;
use p256::ecdsa;
use pkcs8::der::Decode;
use pkcs8::spki::{EncodePublicKey, SubjectPublicKeyInfoRef};
use pkcs8::{LineEnding, ObjectIdentifier};

use crate::{Algorithm, SigningError, armor};

/// Of elliptic-curve keys, ECDSA's among them (RFC 5480).
pub(crate) const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
/// P-256 (RFC 5480).
pub(crate) const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
/// Ed25519 (RFC 8410).
pub(crate) const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
/// RSA (RFC 8017): the kind that people try.
pub(crate) const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// The first 16 bytes of sha256 over a key's SPKI in DER, in hex.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct KeyId(String);

impl KeyId {
    /// 32 lower-case hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A public key of one of the two kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(pub(crate) Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    EcdsaP256(ecdsa::VerifyingKey),
    Ed25519(ed25519_dalek::VerifyingKey),
}

impl PublicKey {
    /// Reads `-----BEGIN PUBLIC KEY-----`; `name` is what messages call it.
    pub fn from_pem(name: &str, text: &[u8]) -> Result<Self, SigningError> {
        let block = armor::find(name, text, "public key", &["PUBLIC KEY"])?;
        Self::from_spki(name, &block.content)
    }

    /// Reads a SubjectPublicKeyInfo (RFC 5280) in DER.
    pub fn from_spki(name: &str, der: &[u8]) -> Result<Self, SigningError> {
        let broken = |problem: &str| SigningError::NoKey {
            name: name.to_owned(),
            wanted: "public key",
            problem: problem.to_owned(),
        };
        let info = SubjectPublicKeyInfoRef::from_der(der).map_err(|_| broken("its DER is not well formed"))?;
        let curve = info.algorithm.parameters_oid().ok();
        match kind_of(info.algorithm.oid, curve) {
            Ok(Algorithm::EcdsaP256) => {
                let key = ecdsa::VerifyingKey::try_from(info).map_err(|_| broken("it is not a point of P-256"))?;
                Ok(Self(Kind::EcdsaP256(key)))
            }
            Ok(Algorithm::Ed25519) => {
                let key =
                    ed25519_dalek::VerifyingKey::try_from(info).map_err(|_| broken("it is not an Ed25519 key"))?;
                if key.is_weak() {
                    return Err(broken("it is a weak key, for which anyone can forge signatures"));
                }
                Ok(Self(Kind::Ed25519(key)))
            }
            Err(kind) => Err(SigningError::KindMismatch { name: name.to_owned(), kind }),
        }
    }

    /// What it verifies.
    pub fn algorithm(&self) -> Algorithm {
        match &self.0 {
            Kind::EcdsaP256(_) => Algorithm::EcdsaP256,
            Kind::Ed25519(_) => Algorithm::Ed25519,
        }
    }

    /// SubjectPublicKeyInfo in DER, the point of P-256 uncompressed: one encoding for one key.
    pub fn to_spki(&self) -> Vec<u8> {
        let document = match &self.0 {
            Kind::EcdsaP256(key) => key.to_public_key_der(),
            Kind::Ed25519(key) => key.to_public_key_der(),
        };
        // Of a key that exists, the encoding is of a fixed, small size: the only errors are about sizes.
        document.map(|document| document.into_vec()).unwrap_or_default()
    }

    /// `-----BEGIN PUBLIC KEY-----`.
    pub fn to_pem(&self) -> String {
        let text = match &self.0 {
            Kind::EcdsaP256(key) => key.to_public_key_pem(LineEnding::LF),
            Kind::Ed25519(key) => key.to_public_key_pem(LineEnding::LF),
        };
        text.unwrap_or_default()
    }

    /// What signatures call it.
    pub fn id(&self) -> KeyId {
        KeyId(Digest::of(self.to_spki()).hex()[..32].to_owned())
    }

    /// Whether these bytes are a signature of the message by this key: DER for ECDSA, 64 bytes for Ed25519.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.0 {
            Kind::EcdsaP256(key) => ecdsa::DerSignature::from_bytes(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
            Kind::Ed25519(key) => ed25519_dalek::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify_strict(message, &signature).is_ok()),
        }
    }

    /// A signature of this key, as the format keeps it.
    pub(crate) fn named(&self, signature: &[u8]) -> Signature {
        Signature {
            key_id: self.id().0,
            alg: self.algorithm().name().to_owned(),
            sig: STANDARD.encode(signature),
            statement: None,
        }
    }

    /// What a signer elsewhere may have meant by its bytes: as they are, the two numbers of ECDSA without DER (as hardware
    /// gives them), or either of these in base64.
    pub fn signature_from(&self, message: &[u8], given: &[u8]) -> Option<Signature> {
        let text = String::from_utf8_lossy(given);
        let decoded = STANDARD.decode(text.split_ascii_whitespace().collect::<String>()).ok();
        [Some(given.to_vec()), decoded]
            .into_iter()
            .flatten()
            .flat_map(|bytes| [self.in_der(&bytes), Some(bytes)])
            .flatten()
            .find(|bytes| self.verifies(message, bytes))
            .map(|bytes| self.named(&bytes))
    }

    fn in_der(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        match &self.0 {
            Kind::EcdsaP256(_) => Some(ecdsa::Signature::from_slice(bytes).ok()?.to_der().as_bytes().to_vec()),
            Kind::Ed25519(_) => None,
        }
    }
}

/// Of an algorithm's name and curve, what it is; or what to call it.
pub(crate) fn kind_of(oid: ObjectIdentifier, curve: Option<ObjectIdentifier>) -> Result<Algorithm, String> {
    match (oid, curve) {
        (EC, Some(P256)) => Ok(Algorithm::EcdsaP256),
        (ED25519, _) => Ok(Algorithm::Ed25519),
        (EC, Some(curve)) => Err(format!("an ECDSA key of another curve ({curve})")),
        (EC, None) => Err("an ECDSA key without the name of its curve".to_owned()),
        (RSA, _) => Err("an RSA key".to_owned()),
        (other, _) => Err(format!("a key of another algorithm ({other})")),
    }
}
