//! Signatures and keys.

use std::sync::LazyLock;

use kubexm_archive::signature_slot::{SIGNATURE_ROOM, decode, encode, from_json, to_json};
use kubexm_signing::{PrivateKey, PublicKey, Subject, Trust, check};

/// Those of the corpus; their private halves were thrown away.
static KEYS: LazyLock<Vec<PublicKey>> = LazyLock::new(|| {
    let keys = [
        include_bytes!("../corpus/public_key/ecdsa.pub").as_slice(),
        include_bytes!("../corpus/public_key/ed25519.pub"),
    ];
    keys.iter().map(|pem| PublicKey::from_pem("corpus", pem).unwrap()).collect()
});

/// The content of manifest.json.sig and a file of signatures: what is understood reads back, and holding it against keys
/// takes no signature that the key did not make.
pub(crate) fn signatures(bytes: &[u8]) {
    let _ = decode(bytes);
    let mut room = bytes.to_vec();
    room.resize(SIGNATURE_ROOM, b' ');
    if let Ok(signatures) = decode(&room) {
        // JSON can say the same in fewer bytes than we write it in.
        if let Ok(room) = encode(&signatures) {
            assert_eq!(decode(&room).unwrap(), signatures);
        }
    }
    if let Ok(signatures) = from_json(bytes) {
        assert_eq!(from_json(&to_json(&signatures)).unwrap(), signatures);
        let trust = check(&signatures, &Subject { manifest_json: b"signed by nobody", sources: None }, &KEYS);
        assert!(!matches!(trust, Trust::Valid { .. }));
        let _ = trust.to_string();
    }
}

/// A key in PEM, and the DER in it: a key has one encoding and one id.
pub(crate) fn public_key(bytes: &[u8]) {
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
}
