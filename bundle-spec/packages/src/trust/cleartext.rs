//! The cleartext signature framework (RFC 9580, 7): a text with its signature below.
//!
//! Read strictly, as apt does: the document begins with the framework's first line and ends with its last, so there is no text
//! that is not signed.

const BEGIN: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
const SIGNATURE: &str = "-----BEGIN PGP SIGNATURE-----";
const END: &str = "-----END PGP SIGNATURE-----";

/// A document in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    /// What was signed: without the escapes and blanks at ends of lines, each line ended by `\n`.
    pub(super) text: String,
    /// The armored block.
    pub(super) signature: &'a str,
}

/// Takes a document apart.
pub(super) fn split(document: &str) -> Result<Parts<'_>, String> {
    let mut at = 0;
    // A line without its end, and where it begins.
    let mut next = || {
        let begin = at;
        let length = document[begin..].find('\n')?;
        at = begin + length + 1;
        Some((trimmed(&document[begin..begin + length]), begin))
    };
    if next() != Some((BEGIN, 0)) {
        return Err(format!("it does not begin with {BEGIN}"));
    }
    loop {
        match next() {
            Some(("", _)) => break,
            Some((line, _)) if line.starts_with("Hash: ") => {}
            Some((line, _)) => return Err(format!("it has the header {:?}", shortened(line))),
            None => return Err("it ends in its headers".to_owned()),
        }
    }
    let mut text = String::with_capacity(document.len());
    let signature = loop {
        let Some((line, begin)) = next() else { return Err(format!("there is no {SIGNATURE}")) };
        if line == SIGNATURE {
            break &document[begin..];
        }
        let unescaped = line.strip_prefix("- ").unwrap_or(line);
        if unescaped.len() == line.len() && line.starts_with('-') {
            return Err(format!("a dash is not escaped: {:?}", shortened(line)));
        }
        text.push_str(unescaped);
        text.push('\n');
    };
    let Some((_, behind)) = signature.split_once(END) else { return Err(format!("there is no {END}")) };
    if !behind.trim().is_empty() {
        return Err("something follows the signature".to_owned());
    }
    Ok(Parts { text, signature })
}

/// The bytes that a signature covers: lines ended by CR LF, the last by nothing.
pub(super) fn canonical(text: &str) -> String {
    let mut signed = String::with_capacity(text.len());
    // A line may be empty: a list of them would take sixteen times the text.
    for (at, line) in text.strip_suffix('\n').unwrap_or(text).split('\n').enumerate() {
        signed.push_str(if at > 0 { "\r\n" } else { "" });
        signed.push_str(trimmed(line));
    }
    signed
}

/// A document of a text and its armored signature. The text should end with a line's end.
pub(super) fn join(text: &str, digest: &str, signature: &str) -> String {
    let mut document = format!("{BEGIN}\nHash: {digest}\n\n");
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        if line.starts_with('-') {
            document.push_str("- ");
        }
        document.push_str(trimmed(line));
        document.push('\n');
    }
    document.push_str(signature);
    document
}

/// Blanks at the end of a line are not signed.
fn trimmed(line: &str) -> &str {
    line.trim_end_matches([' ', '\t', '\r'])
}

fn shortened(line: &str) -> String {
    line.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNED: &str = "-----BEGIN PGP SIGNATURE-----\n\nAAEC\n-----END PGP SIGNATURE-----\n";

    fn document(text: &str) -> String {
        format!("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{text}{SIGNED}")
    }

    fn text(document: &str) -> Result<String, String> {
        split(document).map(|parts| {
            assert!(parts.signature.starts_with(SIGNATURE));
            parts.text
        })
    }

    #[test]
    fn escapes_and_blanks_at_ends_of_lines_are_not_part_of_the_text() {
        assert_eq!(text(&document("a \t\r\n- -----BEGIN X\n\n- - b\n")), Ok("a\n-----BEGIN X\n\n- b\n".to_owned()));
        assert_eq!(text(&document("")), Ok(String::new()));
    }

    #[test]
    fn joined_text_and_signature_are_split_into_the_same_parts() {
        for original in ["a\n", "- a\n--\n\n\nb\n", "-----BEGIN PGP SIGNATURE-----\n"] {
            assert_eq!(text(&join(original, "SHA256", SIGNED)), Ok(original.to_owned()));
        }
    }

    #[test]
    fn text_that_is_not_signed_is_found_wherever_it_stands() {
        let good = document("a\n");
        let behind = format!("{good}b\n");
        let twice = format!("{good}{good}");
        let before = format!("b\n{good}");
        let blank = format!("\n{good}");
        let header = good.replace("Hash: SHA512", "Origin: me");
        let dash = good.replace("\na\n", "\n-a\n");
        let cut = good.replace("-----END PGP SIGNATURE-----", "");
        let unsigned = good.replace("BEGIN PGP SIGNATURE", "BEGIN");
        for bad in [behind, twice, before, blank, header, dash, cut, unsigned, BEGIN.to_owned(), String::new()] {
            assert!(split(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lines_are_signed_with_cr_lf_and_the_last_with_none() {
        assert_eq!(canonical("a \nb\n\n"), "a\r\nb\r\n");
        assert_eq!(canonical("a"), "a");
    }
}
