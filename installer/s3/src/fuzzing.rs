//! What a server sends, as a function of any bytes.

use crate::xml;

/// A listing, or a refusal.
pub fn answer(bytes: &[u8]) {
    for record in ["Contents", "Upload", "Error"] {
        let Ok(document) = xml::read(bytes, record) else { continue };
        assert!(!document.root.is_empty() || bytes.starts_with(b"<"), "{document:?}");
        // What is read of a text is no longer than it, since no entity is.
        let texts = document.fields.values().chain(document.records.iter().flat_map(|fields| fields.values()));
        assert!(texts.map(String::len).sum::<usize>() <= bytes.len(), "{document:?}");
    }
}
