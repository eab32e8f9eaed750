//! Small files of the user: settings, logins, certificates.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of any of them: a bundle of all CA certificates has a fourth of it.
const LIMIT: u64 = 1 << 20;

/// The content of such a file; one that is larger is not read to its end.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LIMIT + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LIMIT {
        true => Err(io::Error::other(format!("it has more than {LIMIT} bytes; is it the right file?"))),
        false => Ok(bytes),
    }
}

/// The same of a text in UTF-8.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| {
        let found = kubexm_spec::not_utf8(error.as_bytes()).unwrap_or_default();
        io::Error::other(format!("it is not UTF-8{found}; save it as UTF-8"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_not_read_to_it() {
        let error = read(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().contains("more than 1048576 bytes"), "{error}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"\xff\xfea\0").unwrap();
        assert!(read_text(file.path()).unwrap_err().to_string().contains("UTF-16"));
    }
}
