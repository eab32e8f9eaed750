//! `manifest.json.sig`: a member of fixed size, so that a signature can be added later without moving another byte.

use kubexm_spec::Statement;
use serde::{Deserialize, Serialize};

/// Size of the member in bytes.
pub const SIGNATURE_ROOM: usize = 16 << 10;

/// Hex digits of a key's id.
const KEY_ID: usize = 32;

/// The most bytes of a statement: one of today has 250.
const STATEMENT: usize = 2048;

/// A signature over the exact bytes of its statement; without one (as in format 1), over those of manifest.json.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Signature {
    /// Hex of the first 16 bytes of sha256 over the key's SPKI in DER.
    pub key_id: String,
    /// `ecdsa-p256-sha256` or `ed25519`.
    pub alg: String,
    /// Base64; DER for ECDSA.
    pub sig: String,
    /// What is signed: the text of a [`kubexm_spec::Statement`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
}

impl Signature {
    /// The statement. What cannot be read as one was refused when the signature was read.
    pub fn stated(&self) -> Option<Statement> {
        self.statement.as_deref().and_then(|text| Statement::parse(text).ok())
    }
}

/// More signatures than the member has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the signature slot of a bundle has {SIGNATURE_ROOM} bytes: {fit} of these {wanted} signatures fit; put more into a \
     file of their own with --detached"
)]
pub struct RoomFull {
    /// How many fit, from the first on.
    pub fit: usize,
    /// How many there are.
    pub wanted: usize,
}

/// The content of the member with these signatures.
pub fn encode(signatures: &[Signature]) -> Result<Vec<u8>, RoomFull> {
    let mut room = to_json(signatures);
    if room.len() > SIGNATURE_ROOM {
        let fit = (0..signatures.len()).rev().find(|count| to_json(&signatures[..*count]).len() <= SIGNATURE_ROOM);
        return Err(RoomFull { fit: fit.unwrap_or_default(), wanted: signatures.len() });
    }
    room.resize(SIGNATURE_ROOM, b' ');
    Ok(room)
}

/// The signatures in the member's content: a JSON array, then spaces up to the end.
pub fn decode(room: &[u8]) -> Result<Vec<Signature>, String> {
    if room.len() != SIGNATURE_ROOM {
        return Err(format!("has {} bytes, not {SIGNATURE_ROOM}", room.len()));
    }
    let json = room.trim_ascii_end();
    if room[json.len()..].iter().any(|byte| *byte != b' ') {
        return Err("is not padded with spaces".into());
    }
    from_json(json)
}

/// The array alone, as `NAME.sig` holds it.
pub fn to_json(signatures: &[Signature]) -> Vec<u8> {
    // Texts in a struct: there is nothing that could not be written.
    serde_json::to_vec(signatures).unwrap_or_default()
}

/// The signatures of an array. What they say is unchecked, but none of it can do harm to a terminal or a log.
pub fn from_json(json: &[u8]) -> Result<Vec<Signature>, String> {
    let wrong = |e: serde_json::Error| format!("is not a JSON array of signatures: {e}");
    // Read twice: a struct would also be taken from an array of its values, which other readers do not know.
    let _: Vec<serde_json::Map<String, serde_json::Value>> = serde_json::from_slice(json).map_err(wrong)?;
    let all: Vec<Signature> = serde_json::from_slice(json).map_err(wrong)?;
    for (at, signature) in all.iter().enumerate() {
        let hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        if signature.key_id.len() != KEY_ID || !signature.key_id.bytes().all(hex) {
            return Err(format!("has a keyId that is not {KEY_ID} hex digits, in signature {}", at + 1));
        }
        let name = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        if !(1..=64).contains(&signature.alg.len()) || !signature.alg.bytes().all(name) {
            return Err(format!("has an alg that is not the name of one, in signature {}", at + 1));
        }
        let base64 = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/' | b'=');
        if signature.sig.is_empty() || !signature.sig.bytes().all(base64) {
            return Err(format!("has a sig that is not base64, in signature {}", at + 1));
        }
        if let Some(text) = &signature.statement {
            if text.len() > STATEMENT {
                return Err(format!("has a statement of {} bytes, in signature {}", text.len(), at + 1));
            }
            Statement::parse(text).map_err(|e| format!("has a statement that {e}, in signature {}", at + 1))?;
        }
        if all[..at].iter().any(|other| other.key_id == signature.key_id) {
            return Err(format!("has two signatures of the key {}", signature.key_id));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use kubexm_spec::SignedAt;

    use super::*;

    fn signature(number: usize) -> Signature {
        Signature {
            key_id: format!("{number:032x}"),
            alg: "ecdsa-p256-sha256".into(),
            sig: "A".repeat(96),
            statement: None,
        }
    }

    fn room(json: &str) -> Result<Vec<Signature>, String> {
        let mut room = json.as_bytes().to_vec();
        room.resize(SIGNATURE_ROOM, b' ');
        decode(&room)
    }

    #[test]
    fn signatures_read_back_as_they_were_put_in() {
        assert_eq!(encode(&[]).map(|room| decode(&room)), Ok(Ok(vec![])));
        let all: Vec<_> = (0..80).map(signature).collect();
        assert_eq!(encode(&all).map(|room| decode(&room)), Ok(Ok(all.clone())));
        assert_eq!(from_json(&to_json(&all)), Ok(all));
    }

    #[test]
    fn a_statement_reads_back_and_what_is_none_is_refused() {
        let text = Statement::new(kubexm_spec::Digest::of(b"m"), None, SignedAt { date: 7, sequence: None }).to_text();
        let with = |text: &str| Signature { statement: Some(text.to_owned()), ..signature(1) };
        let all = vec![with(&text), signature(2)];
        assert_eq!(from_json(&to_json(&all)), Ok(all.clone()));
        assert_eq!(all[0].stated().map(|statement| statement.date), Some(7));
        for wrong in ["", "{}", &text.replacen(":7", ": 7", 1), &text.replacen("7", "\"7\"", 1), &" ".repeat(3000)] {
            assert!(from_json(&to_json(&[with(wrong)])).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_full_slot_reports_how_many_signatures_fit() {
        let all: Vec<_> = (0..200).map(signature).collect();
        let full = encode(&all).unwrap_err();
        assert_eq!(full.wanted, 200);
        assert!(encode(&all[..full.fit]).is_ok() && encode(&all[..=full.fit]).is_err(), "{full}");
        assert!(full.to_string().contains(&format!("{} of these 200", full.fit)), "{full}");
    }

    #[test]
    fn other_padding_other_length_and_other_json_are_refused() {
        let empty = encode(&[]).unwrap();
        let mut newline = empty.clone();
        newline[100] = b'\n';
        assert!(decode(&newline).is_err());
        assert!(decode(&empty[1..]).is_err());
        assert!(room("{}").is_err());
        assert!(room("[[]]").is_err());
    }

    #[test]
    fn what_could_trick_a_terminal_or_a_reader_is_refused() {
        let id = "0123456789abcdef0123456789abcdef";
        let one = |id: &str, alg: &str, sig: &str| format!(r#"{{"keyId":"{id}","alg":"{alg}","sig":"{sig}"}}"#);
        assert!(room(&format!("[{}]", one(id, "ed25519", "AA=="))).is_ok());
        for (id, alg, sig) in [
            ("ab", "ed25519", "AA=="),
            (&id.to_uppercase()[..], "ed25519", "AA=="),
            ("\\u001b[2J56789abcdef0123456789abcdef", "ed25519", "AA=="),
            (id, "", "AA=="),
            (id, "a\\nb", "AA=="),
            (id, "ed25519", ""),
            (id, "ed25519", "A A="),
        ] {
            assert!(room(&format!("[{}]", one(id, alg, sig))).is_err(), "{id} {alg} {sig}");
        }
        assert!(room(&format!(r#"[["{id}","ed25519","AA=="]]"#)).is_err());
        let twice = format!("[{0},{0}]", one(id, "ed25519", "AA=="));
        assert!(room(&twice).is_err());
        assert!(room(&format!(r#"[{{"keyId":"{id}","alg":"ed25519","sig":"AA==","more":1}}]"#)).is_err());
    }
}
