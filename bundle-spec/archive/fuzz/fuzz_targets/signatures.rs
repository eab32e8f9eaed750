//! Any bytes as the content of manifest.json.sig and as a file of signatures: what is understood reads back, and holding it
//! against keys neither panics nor takes a signature that the key did not make.
#![no_main]

use std::sync::LazyLock;

use kubexm_archive::signature_room::{SIGNATURE_ROOM, decode, encode, from_json, to_json};
use kubexm_signing::{PublicKey, Trust, check};

/// Those of the corpus; their private halves were thrown away.
static KEYS: LazyLock<Vec<PublicKey>> = LazyLock::new(|| {
    let keys = [
        include_bytes!("../corpus/public_key/ecdsa.pub").as_slice(),
        include_bytes!("../corpus/public_key/ed25519.pub"),
    ];
    keys.iter().map(|pem| PublicKey::from_pem("corpus", pem).unwrap()).collect()
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = decode(bytes);
    let mut room = bytes.to_vec();
    room.resize(SIGNATURE_ROOM, b' ');
    if let Ok(signatures) = decode(&room) {
        assert_eq!(decode(&encode(&signatures).unwrap()).unwrap(), signatures);
    }
    if let Ok(signatures) = from_json(bytes) {
        assert_eq!(from_json(&to_json(&signatures)).unwrap(), signatures);
        let trust = check(&signatures, b"signed by nobody", &KEYS);
        assert!(!matches!(trust, Trust::Valid { .. }));
        let _ = trust.to_string();
    }
});
