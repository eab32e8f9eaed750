//! Texts of people that are not UTF-8.

/// What a text is instead of UTF-8, as far as its bytes show it: ` but UTF-16 (it begins with a byte order mark)`. None of UTF-8.
pub fn not_utf8(bytes: &[u8]) -> Option<String> {
    let marked = |name: &str| Some(format!(" but {name} (it begins with a byte order mark)"));
    match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => return marked("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return marked("UTF-16"),
        _ => {}
    }
    let at = match std::str::from_utf8(bytes) {
        Ok(_) => return None,
        Err(error) => error.valid_up_to(),
    };
    let line = bytes.iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
    Some(format!(" in line {line}, perhaps GBK or Latin-1"))
}

#[cfg(test)]
mod tests {
    use super::not_utf8;

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
}
