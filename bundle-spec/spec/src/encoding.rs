//! Texts of people that are not UTF-8.

/// What a text is instead of UTF-8, as far as its bytes show it: ` but UTF-16 (it begins with a byte order mark)`. None of UTF-8.
pub fn not_utf8(bytes: &[u8]) -> Option<String> {
    let marked = |name: &str| Some(format!(" but {name} (it begins with a byte order mark)"));
    match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => return marked("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return marked("UTF-16"),
        _ => {}
    }
    if is_bare_utf16(bytes).is_some() {
        return Some(" but UTF-16 (without a byte order mark)".to_owned());
    }
    let at = match std::str::from_utf8(bytes) {
        Ok(_) => return None,
        Err(error) => error.valid_up_to(),
    };
    let line = bytes.iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
    Some(format!(" in line {line}, perhaps GBK or Latin-1"))
}

/// Bytes from the start that decide whether a text is UTF-16.
const SAMPLE: usize = 4096;

/// The order of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

/// The text of UTF-16, with a byte order mark or without; none of what is something else.
pub fn from_utf16(bytes: &[u8]) -> Option<String> {
    let (order, units) = match bytes {
        [0xff, 0xfe, units @ ..] => (Order::Little, units),
        [0xfe, 0xff, units @ ..] => (Order::Big, units),
        _ => (is_bare_utf16(bytes)?, bytes),
    };
    let unit = |pair: &[u8; 2]| match order {
        Order::Little => u16::from_le_bytes(*pair),
        Order::Big => u16::from_be_bytes(*pair),
    };
    let (pairs, _) = units.as_chunks();
    Some(String::from_utf16_lossy(&pairs.iter().map(unit).collect::<Vec<u16>>()))
}

/// Whether it is UTF-16 without a mark: one byte in two of ASCII letters, marks and line ends is zero, and always the same one. (All
/// of that would be valid UTF-8, too.)
fn is_bare_utf16(bytes: &[u8]) -> Option<Order> {
    let (pairs, _) = bytes.get(..bytes.len().min(SAMPLE))?.as_chunks::<2>();
    let zeros = |at: usize| pairs.iter().filter(|pair| pair[at] == 0 && pair[1 - at] != 0).count();
    let both = pairs.iter().filter(|pair| **pair == [0, 0]).count();
    let (big, little) = (zeros(0), zeros(1));
    let is_most =
        |these: usize, others: usize| these > 0 && both == 0 && these * 4 >= pairs.len() && these > others * 8;
    match () {
        () if is_most(little, big) => Some(Order::Little),
        () if is_most(big, little) => Some(Order::Big),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{from_utf16, not_utf8};

    #[test]
    fn a_byte_order_mark_names_the_encoding_and_the_line_of_others_is_named() {
        assert_eq!(not_utf8("名: 甲\n".as_bytes()), None);
        assert_eq!(not_utf8(b"\xef\xbb\xbfname: a\n"), None);
        for utf16 in [&b"\xff\xfea\0"[..], b"\xfe\xff\0a"] {
            assert!(not_utf8(utf16).unwrap().starts_with(" but UTF-16"));
        }
        assert!(not_utf8(b"\xff\xfe\0\0a\0\0\0").unwrap().starts_with(" but UTF-32"));
        assert_eq!(not_utf8(b"a\nb: \xc4\xe3\xba\xc3\n").unwrap(), " in line 2, perhaps GBK or Latin-1");
    }

    #[test]
    fn utf_16_is_known_without_a_byte_order_mark_too() {
        for text in ["kind: Cluster\n", "name: 甲一二\nspec: {}\n", "a\n"] {
            let units: Vec<u16> = text.encode_utf16().collect();
            let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
            let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
            for bytes in [&little, &big] {
                assert_eq!(not_utf8(bytes).unwrap(), " but UTF-16 (without a byte order mark)", "{text:?}");
                assert_eq!(from_utf16(bytes).unwrap(), text);
                let marked = [if bytes == &little { [0xff, 0xfe] } else { [0xfe, 0xff] }.as_slice(), bytes].concat();
                assert_eq!(from_utf16(&marked).unwrap(), text);
            }
        }
        let program = [0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 62, 0];
        for bytes in [&b"a: b\n"[..], b"", b"a", &program, "名: 甲\n".as_bytes()] {
            assert_eq!(from_utf16(bytes), None, "{bytes:?}");
        }
    }
}
