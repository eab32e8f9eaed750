//! Public keys that images, certificates and logs are signed with: those of cosign that ring verifies.

use ed25519_dalek::{Digest as _, Sha512, Signature, VerifyingKey};
use kubexm_spec::Digest;
use pkcs8::ObjectIdentifier;
use pkcs8::der::Decode;
use pkcs8::spki::SubjectPublicKeyInfoRef;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, RSA_PKCS1_2048_8192_SHA256,
    UnparsedPublicKey, VerificationAlgorithm,
};

use crate::armor;
use crate::public::{EC, ED25519, P256, RSA};

/// P-384 (RFC 5480).
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");

/// ECDSA over P-256 and P-384, RSA (PKCS #1 v1.5) from 2048 bits on, Ed25519; those by which cosign signs, but for P-521.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageKey {
    kind: Kind,
    /// The content of the key's BIT STRING.
    bits: Vec<u8>,
    id: Digest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    EcdsaP256,
    EcdsaP384,
    Rsa,
    Ed25519,
}

impl ImageKey {
    /// Reads `-----BEGIN PUBLIC KEY-----`.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn from_pem(text: &str) -> Result<Self, String> {
        let block = armor::find("it", text.as_bytes(), "public key", &["PUBLIC KEY"]).map_err(|e| e.to_string())?;
        Self::from_spki(&block.content)
    }

    /// Reads a SubjectPublicKeyInfo (RFC 5280) in DER.
    ///
    /// # Errors
    /// The same.
    pub fn from_spki(der: &[u8]) -> Result<Self, String> {
        let info = SubjectPublicKeyInfoRef::from_der(der).map_err(|_| "its DER is not well formed".to_owned())?;
        let curve = info.algorithm.parameters_oid().ok();
        let kind = match (info.algorithm.oid, curve) {
            (EC, Some(P256)) => Kind::EcdsaP256,
            (EC, Some(P384)) => Kind::EcdsaP384,
            (ED25519, _) => Kind::Ed25519,
            (RSA, _) => Kind::Rsa,
            (EC, Some(other)) => {
                return Err(format!("it is an ECDSA key of curve {other}; P-256 and P-384 can be checked"));
            }
            (other, _) => return Err(format!("it is a key of an algorithm that cannot be checked ({other})")),
        };
        let bits = info.subject_public_key.as_bytes().ok_or("its DER is not well formed")?.to_vec();
        Ok(Self { kind, bits, id: Digest::of(der) })
    }

    /// sha256 of its SubjectPublicKeyInfo: by this, logs are named too (RFC 6962).
    pub const fn id(&self) -> Digest {
        self.id
    }

    /// Whether these bytes are a signature of the message by this key: DER for ECDSA. P-384 with SHA-384, or with SHA-256, as cosign
    /// signs with such keys.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithms: &[&'static dyn VerificationAlgorithm] = match self.kind {
            Kind::EcdsaP256 => &[&ECDSA_P256_SHA256_ASN1],
            Kind::EcdsaP384 => &[&ECDSA_P384_SHA384_ASN1, &ECDSA_P384_SHA256_ASN1],
            Kind::Rsa => &[&RSA_PKCS1_2048_8192_SHA256],
            Kind::Ed25519 => return self.is_ed25519(message, signature),
        };
        algorithms
            .iter()
            .any(|algorithm| UnparsedPublicKey::new(*algorithm, &self.bits).verify(message, signature).is_ok())
    }

    /// Ed25519, and Ed25519ph (both RFC 8032), with which cosign makes simple signatures.
    fn is_ed25519(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = self.bits.as_slice().try_into().ok().and_then(|bits| VerifyingKey::from_bytes(bits).ok());
        let (Some(key), Ok(signature)) = (key, Signature::from_slice(signature)) else { return false };
        let prehashed = || Sha512::default().chain_update(message);
        // Of a key of small order anyone can forge signatures.
        !key.is_weak()
            && (key.verify_strict(message, &signature).is_ok()
                || key.verify_prehashed_strict(prehashed(), None, &signature).is_ok())
    }
}
