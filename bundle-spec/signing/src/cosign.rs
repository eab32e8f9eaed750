//! The form in which `cosign generate-key-pair` keeps private keys: PKCS#8 in NaCl's secretbox, with a key that scrypt
//! makes of the password, all in a JSON document (go-securesystemslib, `encrypted`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit;
use salsa20::XSalsa20;
use salsa20::cipher::{KeyIvInit, StreamCipher};
use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

use crate::Password;

/// The labels of its PEM block, by age.
pub(crate) const LABELS: [&str; 2] = ["ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY"];

/// The most memory that scrypt may take, in bytes; cosign's own parameters take 64 MiB.
pub(crate) const SCRYPT_MEMORY: u64 = 1 << 30;

/// Why it does not open.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Another form than the one described above.
    Form,
    /// The password is another one, or the file is damaged.
    Password,
}

#[derive(Deserialize)]
struct Envelope {
    kdf: Kdf,
    cipher: Cipher,
    #[serde(deserialize_with = "base64_bytes")]
    ciphertext: Vec<u8>,
}

#[derive(Deserialize)]
struct Kdf {
    name: String,
    params: ScryptParams,
    #[serde(deserialize_with = "base64_bytes")]
    salt: Vec<u8>,
}

#[derive(Deserialize)]
struct ScryptParams {
    #[serde(rename = "N")]
    n: u64,
    r: u32,
    p: u32,
}

#[derive(Deserialize)]
struct Cipher {
    name: String,
    #[serde(deserialize_with = "base64_bytes")]
    nonce: Vec<u8>,
}

fn base64_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    STANDARD.decode(String::deserialize(from)?).map_err(serde::de::Error::custom)
}

/// The PKCS#8 DER in the block's content.
pub(crate) fn open(content: &[u8], password: &Password) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let envelope: Envelope = serde_json::from_slice(content).map_err(|_| Refusal::Form)?;
    if envelope.kdf.name != "scrypt" || envelope.cipher.name != "nacl/secretbox" {
        return Err(Refusal::Form);
    }
    let ScryptParams { n, r, p } = envelope.kdf.params;
    let params = scrypt_params(n, r, p).ok_or(Refusal::Form)?;
    let mut key = Zeroizing::new([0; 32]);
    scrypt::scrypt(password.bytes(), &envelope.kdf.salt, &params, &mut *key).map_err(|_| Refusal::Form)?;
    let nonce: [u8; 24] = envelope.cipher.nonce.try_into().map_err(|_| Refusal::Form)?;
    secretbox_open(&key, &nonce, &envelope.ciphertext).ok_or(Refusal::Password)
}

/// Parameters that this machine can be asked to work with.
pub(crate) fn scrypt_params(n: u64, r: u32, p: u32) -> Option<scrypt::Params> {
    let memory = n.checked_mul(u64::from(r))?.checked_mul(128)?;
    let affordable = n.is_power_of_two() && n > 1 && (1..=64).contains(&p) && memory <= SCRYPT_MEMORY;
    if !affordable {
        return None;
    }
    scrypt::Params::new(u8::try_from(n.trailing_zeros()).ok()?, r, p).ok()
}

/// `crypto_secretbox_open` of NaCl: XSalsa20 with Poly1305, whose key is the stream's first 32 bytes; the tag is first.
fn secretbox_open(key: &[u8; 32], nonce: &[u8; 24], boxed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (tag, ciphertext) = boxed.split_first_chunk::<16>()?;
    let mut stream = XSalsa20::new(key.into(), nonce.into());
    let mut one_time = Zeroizing::new([0; 32]);
    stream.apply_keystream(&mut *one_time);
    let found = Poly1305::new((&*one_time).into()).compute_unpadded(ciphertext);
    // Whoever can time this has the box and guesses its password: a comparison in constant time protects nothing here.
    if found.as_slice() != tag {
        return None;
    }
    let mut plain = Zeroizing::new(ciphertext.to_vec());
    stream.apply_keystream(&mut plain);
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vector of NaCl (`tests/secretbox.c`, "Cryptography in NaCl", section 10).
    const KEY: [u8; 32] = [
        0x1b, 0x27, 0x55, 0x64, 0x73, 0xe9, 0x85, 0xd4, 0x62, 0xcd, 0x51, 0x19, 0x7a, 0x9a, 0x46, 0xc7, 0x60, 0x09,
        0x54, 0x9e, 0xac, 0x64, 0x74, 0xf2, 0x06, 0xc4, 0xee, 0x08, 0x44, 0xf6, 0x83, 0x89,
    ];
    const NONCE: [u8; 24] = [
        0x69, 0x69, 0x6e, 0xe9, 0x55, 0xb6, 0x2b, 0x73, 0xcd, 0x62, 0xbd, 0xa8, 0x75, 0xfc, 0x73, 0xd6, 0x82, 0x19,
        0xe0, 0x03, 0x6b, 0x7a, 0x0b, 0x37,
    ];
    const BOXED: [u8; 147] = [
        0xf3, 0xff, 0xc7, 0x70, 0x3f, 0x94, 0x00, 0xe5, 0x2a, 0x7d, 0xfb, 0x4b, 0x3d, 0x33, 0x05, 0xd9, 0x8e, 0x99,
        0x3b, 0x9f, 0x48, 0x68, 0x12, 0x73, 0xc2, 0x96, 0x50, 0xba, 0x32, 0xfc, 0x76, 0xce, 0x48, 0x33, 0x2e, 0xa7,
        0x16, 0x4d, 0x96, 0xa4, 0x47, 0x6f, 0xb8, 0xc5, 0x31, 0xa1, 0x18, 0x6a, 0xc0, 0xdf, 0xc1, 0x7c, 0x98, 0xdc,
        0xe8, 0x7b, 0x4d, 0xa7, 0xf0, 0x11, 0xec, 0x48, 0xc9, 0x72, 0x71, 0xd2, 0xc2, 0x0f, 0x9b, 0x92, 0x8f, 0xe2,
        0x27, 0x0d, 0x6f, 0xb8, 0x63, 0xd5, 0x17, 0x38, 0xb4, 0x8e, 0xee, 0xe3, 0x14, 0xa7, 0xcc, 0x8a, 0xb9, 0x32,
        0x16, 0x45, 0x48, 0xe5, 0x26, 0xae, 0x90, 0x22, 0x43, 0x68, 0x51, 0x7a, 0xcf, 0xea, 0xbd, 0x6b, 0xb3, 0x73,
        0x2b, 0xc0, 0xe9, 0xda, 0x99, 0x83, 0x2b, 0x61, 0xca, 0x01, 0xb6, 0xde, 0x56, 0x24, 0x4a, 0x9e, 0x88, 0xd5,
        0xf9, 0xb3, 0x79, 0x73, 0xf6, 0x22, 0xa4, 0x3d, 0x14, 0xa6, 0x59, 0x9b, 0x1f, 0x65, 0x4c, 0xb4, 0x5a, 0x74,
        0xe3, 0x55, 0xa5,
    ];

    #[test]
    fn a_nacl_box_is_decrypted_and_a_changed_byte_is_refused() {
        let plain = secretbox_open(&KEY, &NONCE, &BOXED).unwrap();
        assert_eq!(
            (plain.len(), &plain[..6], &plain[125..]),
            (131, &[0xbe, 7, 0x5f, 0xc5, 0x3c, 0x81][..], &[0x38, 0x48, 0x64, 0x5e, 7, 5][..])
        );
        for at in 0..BOXED.len() {
            let mut bad = BOXED;
            bad[at] ^= 1;
            assert!(secretbox_open(&KEY, &NONCE, &bad).is_none(), "byte {at}");
        }
        assert!(secretbox_open(&KEY, &NONCE, &BOXED[..15]).is_none());
    }

    #[test]
    fn excessive_scrypt_parameters_are_refused_before_use() {
        assert!(scrypt_params(65536, 8, 1).is_some());
        for (n, r, p) in [
            (0, 8, 1),
            (1, 8, 1),
            (65535, 8, 1),
            (1 << 40, 8, 1),
            (1 << 63, 8, 1),
            (65536, u32::MAX, 1),
            (65536, 8, u32::MAX),
            (65536, 0, 1),
        ] {
            assert!(scrypt_params(n, r, p).is_none(), "{n} {r} {p}");
        }
    }
}
