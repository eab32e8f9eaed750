//! ASCII armor (RFC 9580, 6.2): blocks of base64 in a text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A block's label.
pub(super) const PUBLIC_KEY: &str = "PUBLIC KEY BLOCK";
pub(super) const PRIVATE_KEY: &str = "PRIVATE KEY BLOCK";
pub(super) const SIGNATURE: &str = "SIGNATURE";

/// The packets of each block of one kind, or the bytes as they are where the first is that of a packet (RFC 9580, 4.2: its highest
/// bit is set). What is around blocks is left alone. The checksum of a block is not looked at: signatures say more.
pub(super) fn packets(bytes: &[u8], label: &str) -> Result<Vec<Vec<u8>>, String> {
    if bytes.first().is_some_and(|first| first & 0x80 != 0) {
        return Ok(vec![bytes.to_vec()]);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "neither packets nor armored text".to_owned())?;
    let (begin, end) = (format!("-----BEGIN PGP {label}-----"), format!("-----END PGP {label}-----"));
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim_end);
    while lines.any(|line| line == begin) {
        blocks.push(block(&mut lines, &end)?);
    }
    if blocks.is_empty() {
        return Err(format!("there is no {begin}"));
    }
    Ok(blocks)
}

/// The packets of one block; the line that begins it was read.
fn block<'a>(lines: &mut impl Iterator<Item = &'a str>, end: &str) -> Result<Vec<u8>, String> {
    let mut base64 = String::new();
    let mut headers = true;
    for line in lines {
        if line == end {
            return STANDARD.decode(&base64).map_err(|error| format!("its base64 is broken ({error})"));
        }
        // `=` and four characters: the checksum, after which only the end may come.
        let checksum = line.starts_with('=') && line.len() == 5;
        if headers {
            headers = !line.is_empty();
        } else if !checksum {
            base64.push_str(line);
        }
    }
    Err(format!("there is no {end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "of\n-----BEGIN PGP SIGNATURE-----\nVersion: 1\n\nAAEC\nAwQ=\n=abcd\n-----END PGP SIGNATURE-----\nlater\n";

    #[test]
    fn all_blocks_are_read_and_nothing_else() {
        let two = format!("{TEXT}{}", TEXT.replace('\n', "\r\n").replace("AAEC", "BQUF"));
        let read = packets(two.as_bytes(), SIGNATURE);
        assert_eq!(read, Ok(vec![vec![0, 1, 2, 3, 4], vec![5, 5, 5, 3, 4]]));
    }

    #[test]
    fn packets_are_taken_as_they_are() {
        assert_eq!(packets(&[0x99, 1], SIGNATURE), Ok(vec![vec![0x99, 1]]));
    }

    #[test]
    fn what_is_cut_off_or_of_another_kind_is_refused() {
        for (text, label) in [
            (TEXT.split_once("=abcd").map_or("", |(head, _)| head), SIGNATURE),
            (TEXT, PUBLIC_KEY),
            ("", SIGNATURE),
            (&TEXT.replace("AAEC", "A*EC"), SIGNATURE),
        ] {
            assert!(packets(text.as_bytes(), label).is_err(), "{text}");
        }
    }
}
