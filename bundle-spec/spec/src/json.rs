//! What a JSON document of others takes as memory, estimated before it is parsed: `{"":0}` is six bytes of text and some seven hundred as a
//! [`serde_json::Value`].

/// Of a map that has something in it: one node of a B-tree, which has room for eleven.
const OBJECT: usize = 650;
/// Of a list's first room, which is for four.
const ARRAY: usize = 128;
/// Of each further entry: a map's nodes are at least half full, and lists grow by doubling.
const FURTHER: usize = 150;
/// Of a text besides its bytes.
const STRING: usize = 24;

/// An upper estimate in bytes of what `serde_json` makes of a text; of one that is no JSON, of its beginning at least.
pub fn memory_of(text: &[u8]) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    let mut memory = text.len();
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => {
                quoted = !quoted;
                memory += STRING / 2;
            }
            _ if quoted => {}
            b'{' => memory += OBJECT,
            b'[' => memory += ARRAY,
            b',' => memory += FURTHER,
            _ => {}
        }
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::memory_of;

    #[test]
    fn many_small_values_are_dear_and_long_texts_are_not() {
        let maps = format!("[{}]", vec![r#"{"":0}"#; 1000].join(","));
        assert!(memory_of(maps.as_bytes()) > 700 * 1000, "{}", memory_of(maps.as_bytes()));
        let text = serde_json::to_string(&"{[,\"\\".repeat(1000)).unwrap();
        assert_eq!(memory_of(text.as_bytes()), text.len() + 24);
    }

    #[test]
    fn what_is_no_json_has_an_estimate_too() {
        for text in ["", "\"", "\\\\\"", "}{][", "\u{0}\u{7f}"] {
            assert!(memory_of(text.as_bytes()) >= text.len());
        }
    }
}
