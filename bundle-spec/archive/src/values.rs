//! Limit on the number of values in one JSON document.

/// The most values that a document of a bundle may have: a small value takes ten times its bytes when it is read, and the
/// manifest of a bundle of 100 000 members has some 700 000.
const LIMIT: usize = 1_000_000;

/// A JSON text has more values than any document of a bundle needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("has more than a million values, which no bundle needs")]
pub struct TooManyValues;

/// Holds a JSON text, well formed or not, against the most values that a document of a bundle has: to be asked before any
/// foreign text of more than a few MiB is read.
pub fn check_values(json: &[u8]) -> Result<(), TooManyValues> {
    if values_in(json) > LIMIT { Err(TooManyValues) } else { Ok(()) }
}

/// At least as many as there are values in a JSON text: what is before or between them, outside of strings.
fn values_in(json: &[u8]) -> usize {
    let (mut count, mut in_string, mut escaped) = (1, false, false);
    for byte in json {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b',' | b'[' | b'{') => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::values_in;

    #[test]
    fn values_are_counted_and_what_stands_in_strings_is_not() {
        assert_eq!(values_in(b"1"), 1);
        assert_eq!(values_in(br#"[1,"a,[{\"",{"b":2}]"#), 5);
        assert_eq!(values_in(format!("[{}]", vec!["\"\""; 1000].join(",")).as_bytes()), 1001);
    }
}
