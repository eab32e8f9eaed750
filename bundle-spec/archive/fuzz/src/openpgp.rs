//! OpenPGP as distributions use it: public keys, signatures, clear-signed documents.

use std::sync::LazyLock;

use kubexm_packages::trust::{Keyring, Policy, SiteKey, clearsigned, detached};

/// That of the corpus, whose secret half was thrown away: it has signed one text.
static KEYS: LazyLock<Keyring> =
    LazyLock::new(|| Keyring::read(include_bytes!("../corpus/openpgp_keys/archive.asc")).unwrap());

const TEXT: &str = "Origin: Test\nSuite: stable\n- dashed\nSHA256:\n 00 1 Packages\n";
/// 2025-01-02, a day after the key was made.
const POLICY: Policy = Policy { now: 1_735_776_000, sha1: true, expired_keys: true };

/// Certificates, public and secret: what is understood has fingerprints, and may sign or say why not.
pub(crate) fn keys(bytes: &[u8]) {
    if let Ok(keys) = Keyring::read(bytes) {
        let fingerprints = keys.fingerprints();
        assert!(!fingerprints.is_empty());
        let signature = include_bytes!("../corpus/openpgp_detached/packet");
        if let Ok(signer) = detached(TEXT.as_bytes(), signature, &keys, &POLICY) {
            assert_eq!([signer.fingerprint], *KEYS.fingerprints());
        }
        assert!(keys.pinned(&fingerprints).is_ok());
    }
    let _ = SiteKey::read(bytes, None);
}

/// A clear-signed document: nothing is trusted but what was signed.
pub(crate) fn signed(bytes: &[u8]) {
    match clearsigned(bytes, &KEYS, &POLICY) {
        Ok((text, _)) => assert_eq!(text, TEXT),
        Err(error) => drop(error.to_string()),
    }
}

/// A document of lines in which there is nothing: each takes a byte, and a list of them sixteen.
pub(crate) fn empty_lines() -> Vec<u8> {
    let signature = "-----BEGIN PGP SIGNATURE-----\n\nAAEC\n-----END PGP SIGNATURE-----\n";
    let lines = "\n".repeat(2 << 20);
    format!("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{lines}{signature}").into_bytes()
}

/// A detached signature, armored or not: of another text there is none.
pub(crate) fn signature(bytes: &[u8]) {
    let _ = detached(TEXT.as_bytes(), bytes, &KEYS, &POLICY);
    assert!(detached(b"another text", bytes, &KEYS, &POLICY).is_err());
}
