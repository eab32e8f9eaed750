//! `manifest.json.sig`: a member of fixed size, so that a signature is put in later without moving another byte.

use serde::{Deserialize, Serialize};

/// Size of the member in bytes.
pub const SIGNATURE_ROOM: usize = 16 << 10;

/// A signature over the exact bytes of manifest.json.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Signature {
    /// Hex of the first 16 bytes of sha256 over the key's SPKI in DER.
    pub key_id: String,
    /// `ecdsa-p256-sha256` or `ed25519`.
    pub alg: String,
    /// Base64; DER for ECDSA.
    pub sig: String,
}

/// The content of the member without a signature.
pub(crate) fn empty() -> Vec<u8> {
    let mut room = b"[]".to_vec();
    room.resize(SIGNATURE_ROOM, b' ');
    room
}

/// The signatures in the member's content: a JSON array, then spaces up to the end.
pub(crate) fn decode(room: &[u8]) -> Result<Vec<Signature>, String> {
    if room.len() != SIGNATURE_ROOM {
        return Err(format!("has {} bytes, not {SIGNATURE_ROOM}", room.len()));
    }
    let json = room.trim_ascii_end();
    if room[json.len()..].iter().any(|byte| *byte != b' ') {
        return Err("is not padded with spaces".into());
    }
    serde_json::from_slice(json).map_err(|e| format!("is no JSON array of signatures: {e}"))
}

/// What is known about who made the bundle, without a key at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureState {
    /// Nobody signed it.
    Unsigned,
    /// Signed by these keys, and **not checked**: never to be shown as verified.
    SignedNotChecked {
        /// Their ids.
        key_ids: Vec<String>,
    },
}

impl std::fmt::Display for SignatureState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unsigned => f.write_str("unsigned"),
            Self::SignedNotChecked { key_ids } => write!(f, "signed by {}, not checked", key_ids.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_room_has_no_signature_and_a_filled_one_reads_back() {
        assert_eq!(decode(&empty()), Ok(vec![]));
        let mut room = br#"[{"keyId":"ab","alg":"ed25519","sig":"AA=="}]"#.to_vec();
        room.resize(SIGNATURE_ROOM, b' ');
        assert_eq!(decode(&room).map(|all| all[0].key_id.clone()), Ok("ab".into()));
    }

    #[test]
    fn other_padding_other_length_and_other_json_are_refused() {
        let mut newline = empty();
        newline[100] = b'\n';
        assert!(decode(&newline[..]).is_err());
        assert!(decode(&empty()[1..]).is_err());
        let mut object = empty();
        object[..2].copy_from_slice(b"{}");
        assert!(decode(&object).is_err());
    }
}
