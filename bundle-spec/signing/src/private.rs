//! Private keys, in the forms in which people have them.

use ed25519_dalek::Signer;
use ed25519_dalek::pkcs8::KeypairBytes;
use kubexm_archive::Signature;
use p256::ecdsa;
use pkcs8::der::Decode;
use pkcs8::pkcs5::pbes2::{Kdf, Parameters};
use pkcs8::{EncodePrivateKey, EncryptedPrivateKeyInfoRef, LineEnding, PrivateKeyInfoRef, SecretDocument};
use zeroize::Zeroizing;

use crate::armor::Block;
use crate::public::{self, Kind};
use crate::{Algorithm, Password, PublicKey, SigningError, armor, cosign};

const PKCS8: &str = "PRIVATE KEY";
const PKCS8_ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";
const SEC1: &str = "EC PRIVATE KEY";

/// A private key; wiped from memory when dropped, and never shown.
pub struct PrivateKey(Secret);

enum Secret {
    EcdsaP256(Box<ecdsa::SigningKey>),
    Ed25519(Box<ed25519_dalek::SigningKey>),
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PrivateKey({} {})", self.algorithm(), self.public().id())
    }
}

impl PrivateKey {
    /// A new one.
    pub fn generate(algorithm: Algorithm) -> Result<Self, SigningError> {
        loop {
            let bytes = random::<32>()?;
            match algorithm {
                Algorithm::Ed25519 => {
                    return Ok(Self(Secret::Ed25519(Box::new(ed25519_dalek::SigningKey::from_bytes(&bytes)))));
                }
                // One number of 2³² is none below the order of the group.
                Algorithm::EcdsaP256 => {
                    if let Ok(key) = ecdsa::SigningKey::from_slice(&*bytes) {
                        return Ok(Self(Secret::EcdsaP256(Box::new(key))));
                    }
                }
            }
        }
    }

    /// Reads PEM: PKCS#8, encrypted PKCS#8 (PBES2), SEC1, or cosign's own form. `name` is what messages call it. The
    /// password is asked for only when the key is encrypted.
    pub fn from_pem(
        name: &str,
        text: &[u8],
        password: impl FnOnce() -> Result<Option<Password>, SigningError>,
    ) -> Result<Self, SigningError> {
        let [sigstore, older] = cosign::LABELS;
        let labels = [PKCS8, PKCS8_ENCRYPTED, SEC1, sigstore, older];
        let block = armor::find(name, text, "private key", &labels)?;
        let asked = || password()?.ok_or_else(|| SigningError::PasswordNeeded { name: name.to_owned() });
        if block.headers {
            let problem =
                "it is encrypted in OpenSSL's oldest form; convert it with `openssl pkcs8 -topk8 -in KEY -out NEW`";
            return Err(none(name, problem));
        }
        match block.label.as_str() {
            SEC1 => from_sec1(name, &block),
            PKCS8 => from_pkcs8(name, &block.content),
            PKCS8_ENCRYPTED => from_pkcs8(name, decrypted(name, &block, &asked()?)?.as_bytes()),
            _ => {
                let opened = cosign::open(&block.content, &asked()?).map_err(|refusal| match refusal {
                    cosign::Refusal::Form => none(name, "it is in a form of cosign that this program does not know"),
                    cosign::Refusal::Password => SigningError::WrongPassword { name: name.to_owned() },
                })?;
                from_pkcs8(name, &opened)
            }
        }
    }

    /// PKCS#8 in PEM; with a password in PBES2, with parameters that OpenSSL from 1.1.0 on reads (scrypt N = 16384, r = 8,
    /// p = 1, AES-256-CBC).
    pub fn to_pem(&self, password: Option<&Password>) -> Result<Zeroizing<String>, SigningError> {
        let plain = self.to_pkcs8().ok_or_else(cannot_encode)?;
        let Some(password) = password else {
            return plain.to_pem(PKCS8, LineEnding::LF).map_err(|_| cannot_encode());
        };
        let (salt, iv) = (random::<16>()?, random::<16>()?);
        let costs = scrypt::Params::new(14, 8, 1).map_err(|_| cannot_encode())?;
        let encrypted = Parameters::generate_scrypt_aes256cbc(costs, &*salt, *iv).ok().and_then(|parameters| {
            let info = PrivateKeyInfoRef::from_der(plain.as_bytes()).ok()?;
            info.encrypt_with_params(parameters, password.bytes()).ok()
        });
        encrypted.ok_or_else(cannot_encode)?.to_pem(PKCS8_ENCRYPTED, LineEnding::LF).map_err(|_| cannot_encode())
    }

    /// Version 1 of PKCS#8 also for Ed25519: the second one, with the public key, is refused by OpenSSL.
    fn to_pkcs8(&self) -> Option<SecretDocument> {
        match &self.0 {
            Secret::EcdsaP256(key) => key.to_pkcs8_der().ok(),
            Secret::Ed25519(key) => KeypairBytes { secret_key: key.to_bytes(), public_key: None }.to_pkcs8_der().ok(),
        }
    }

    /// What it signs with.
    pub fn algorithm(&self) -> Algorithm {
        match &self.0 {
            Secret::EcdsaP256(_) => Algorithm::EcdsaP256,
            Secret::Ed25519(_) => Algorithm::Ed25519,
        }
    }

    /// Its public half.
    pub fn public(&self) -> PublicKey {
        match &self.0 {
            Secret::EcdsaP256(key) => PublicKey(Kind::EcdsaP256(*key.verifying_key())),
            Secret::Ed25519(key) => PublicKey(Kind::Ed25519(key.verifying_key())),
        }
    }

    /// Signs the bytes of a manifest.json; the same bytes get the same signature.
    pub fn sign(&self, manifest_json: &[u8]) -> Signature {
        let bytes = match &self.0 {
            Secret::EcdsaP256(key) => {
                let signature: ecdsa::DerSignature = key.sign(manifest_json);
                signature.as_bytes().to_vec()
            }
            Secret::Ed25519(key) => key.sign(manifest_json).to_bytes().to_vec(),
        };
        self.public().named(&bytes)
    }
}

fn from_sec1(name: &str, block: &Block) -> Result<PrivateKey, SigningError> {
    p256::SecretKey::from_sec1_der(&block.content)
        .map(|key| PrivateKey(Secret::EcdsaP256(Box::new(key.into()))))
        .map_err(|_| none(name, "it is not a key of the curve P-256, or not well formed"))
}

fn from_pkcs8(name: &str, der: &[u8]) -> Result<PrivateKey, SigningError> {
    let info = PrivateKeyInfoRef::from_der(der).map_err(|_| none(name, "its PKCS#8 is not well formed"))?;
    match public::kind_of(info.algorithm.oid, info.algorithm.parameters_oid().ok()) {
        Ok(Algorithm::EcdsaP256) => p256::SecretKey::try_from(info)
            .map(|key| PrivateKey(Secret::EcdsaP256(Box::new(key.into()))))
            .map_err(|_| none(name, "it is not a key of the curve P-256")),
        Ok(Algorithm::Ed25519) => ed25519_dalek::SigningKey::try_from(info)
            .map(|key| PrivateKey(Secret::Ed25519(Box::new(key))))
            .map_err(|_| none(name, "it is not an Ed25519 key")),
        Err(kind) => Err(SigningError::KindMismatch { name: name.to_owned(), kind }),
    }
}

fn decrypted(name: &str, block: &Block, password: &Password) -> Result<SecretDocument, SigningError> {
    let scheme = "it is encrypted in a way that this program does not know; convert it with \
                  `openssl pkcs8 -topk8 -v2 aes-256-cbc -in KEY -out NEW`";
    let info = EncryptedPrivateKeyInfoRef::from_der(&block.content).map_err(|_| none(name, scheme))?;
    let parameters = info.encryption_algorithm.pbes2().ok_or_else(|| none(name, scheme))?;
    if let Kdf::Scrypt(kdf) = &parameters.kdf {
        let (n, r, p) = (kdf.cost_parameter, u32::from(kdf.block_size), u32::from(kdf.parallelization));
        cosign::scrypt_params(n, r, p).ok_or_else(|| none(name, "it needs more than 1 GiB of memory to open"))?;
    }
    info.decrypt(password.bytes()).map_err(|_| SigningError::WrongPassword { name: name.to_owned() })
}

fn none(name: &str, problem: &str) -> SigningError {
    SigningError::NoKey { name: name.to_owned(), wanted: "private key", problem: problem.to_owned() }
}

fn cannot_encode() -> SigningError {
    none("the new key", "it cannot be written as PKCS#8")
}

fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, SigningError> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(&mut *bytes).map_err(|e| SigningError::NoRandomness { problem: e.to_string() })?;
    Ok(bytes)
}
