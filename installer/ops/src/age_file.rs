//! Files of age: for whom one is encrypted, and the beginning of one of others: lines up to the one with the authentication code
//! (age-encryption.org/v1, "Header"). The crate reads a header without an end again from its beginning for each byte that comes.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::str::FromStr as _;

use age::{DecryptError, Decryptor, Encryptor, x25519};

use crate::OpError;

/// In bytes: a line for a recipient has less than a hundred, and one of its body 65.
const LONGEST_LINE: u64 = 1 << 10;
/// In bytes: three hundred recipients have 33 KiB.
const LONGEST: usize = 64 << 10;
/// What the last line of a header begins with.
const LAST: &[u8] = b"---";

/// The header, and what comes after it.
pub type Whole<R> = Chain<Cursor<Vec<u8>>, BufReader<R>>;

/// An encryptor for the owners of these public keys, each of whom can open what it writes.
pub(crate) fn encryptor(recipients: &[String]) -> Result<Encryptor, OpError> {
    let key = |text: &String| {
        x25519::Recipient::from_str(text)
            .map_err(|_| OpError::other("a public key to encrypt for is no key of age; this is a fault of the program"))
    };
    let keys = recipients.iter().map(key).collect::<Result<Vec<_>, _>>()?;
    Encryptor::with_recipients(keys.iter().map(|key| key as &dyn age::Recipient))
        .map_err(|error| OpError::other(format!("it cannot be encrypted: {error}")))
}

/// A decryptor of what is read.
///
/// # Errors
/// It is no age file, or its header is longer than any.
pub fn decryptor<R: Read>(input: R) -> Result<Decryptor<Whole<R>>, DecryptError> {
    let mut input = BufReader::new(input);
    let mut header = Vec::new();
    loop {
        let begin = header.len();
        input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut header)?;
        let line = &header[begin..];
        if line.starts_with(LAST) {
            break;
        }
        if !line.ends_with(b"\n") || header.len() > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its header has no end").into());
        }
    }
    Decryptor::new_buffered(Cursor::new(header).chain(input))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_file_for_three_hundred_is_read_to_its_end() {
        let own = x25519::Identity::generate();
        let others = (1..300).map(|_| x25519::Identity::generate().to_public());
        let all: Vec<String> = others.chain([own.to_public()]).map(|key| key.to_string()).collect();
        let (mut sealed, plain) = (Vec::new(), vec![7; 200_000]);
        let mut writer = encryptor(&all).unwrap().wrap_output(&mut sealed).unwrap();
        writer.write_all(&plain).unwrap();
        writer.finish().unwrap();
        let mut found = Vec::new();
        let opened = decryptor(sealed.as_slice()).unwrap().decrypt([&own as &dyn age::Identity].into_iter());
        opened.unwrap().read_to_end(&mut found).unwrap();
        assert_eq!(found, plain);
    }

    #[test]
    fn a_header_without_an_end_is_refused_after_its_first_bytes() {
        let first = "age-encryption.org/v1\n";
        // A line, many lines, and bytes that never end: nothing more is read than can be a header.
        let line = first.as_bytes().chain(io::repeat(b'a'));
        let lines = format!("{first}{}", "-> a a\n".repeat(100_000));
        for header in [Box::new(line) as Box<dyn Read>, Box::new(lines.as_bytes()), Box::new(&b""[..])] {
            let Err(error) = decryptor(header) else { unreachable!("it has no end") };
            assert!(error.to_string().contains("has no end"), "{error}");
        }
    }
}
