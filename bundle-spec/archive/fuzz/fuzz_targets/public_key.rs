//! Any bytes as a key in PEM, and as the DER in it: an error or a key, never a panic; a key has one encoding and one id.
#![no_main]

use kubexm_signing::{PrivateKey, PublicKey};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for key in [PublicKey::from_pem("fuzz", bytes), PublicKey::from_spki("fuzz", bytes)].into_iter().flatten() {
        let again = PublicKey::from_pem("again", key.to_pem().as_bytes()).unwrap();
        assert_eq!((again.id(), again.to_spki()), (key.id(), key.to_spki()));
        assert!(!key.verifies(b"signed by nobody", bytes));
        assert!(key.signature_from(b"signed by nobody", bytes).is_none());
    }
    // Without a password: opening an encrypted key is slow by design.
    if let Ok(key) = PrivateKey::from_pem("fuzz", bytes, || Ok(None)) {
        let signature = key.sign(b"{}");
        assert!(key.public().signature_from(b"{}", signature.sig.as_bytes()).is_some());
    }
});
