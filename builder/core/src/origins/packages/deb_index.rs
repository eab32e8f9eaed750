//! An index of Debian's that is in the store → packages.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use kubexm_packages::compression;
use kubexm_packages::deb::index;
use kubexm_packages::deb::release::Index;
use kubexm_packages::model::{Package, RepoId};
use kubexm_spec::Digest;
use kubexm_transport::{Store, TransportError};

use super::PackagesError;

/// The most bytes of an index unpacked where the suite does not tell; the largest (Ubuntu's universe) have 70 MB.
const PLAIN_LIMIT: u64 = 1 << 30;
/// From so many bytes on an index is worth a second reader.
const LARGE: u64 = 8 << 20;

/// An index that is in the store.
pub(super) struct Reading {
    /// Where it is.
    pub store: Store,
    /// What people call the suite.
    pub repository: String,
    /// The index below the suite, for people.
    pub path: String,
    /// Its digests, packed and not.
    pub index: Index,
    /// The unpacked text, where the store has it.
    pub kept: Option<Digest>,
    /// Of whose packages it is asked for, `amd64`.
    pub arch: String,
}

impl Reading {
    /// Its packages. Takes a while, and stays off the async threads.
    pub fn read(self) -> Result<Vec<Package>, PackagesError> {
        let failed = |source| PackagesError::Fetch { repository: self.repository.clone(), source: Box::new(source) };
        let unpack = |reason: String| PackagesError::Unpack {
            repository: self.repository.clone(),
            path: self.path.clone(),
            reason,
        };
        let open = |digest: &Digest| self.store.open_blob(digest).map(|file| BufReader::with_capacity(1 << 18, file));
        let listed = |reader: &mut dyn std::io::BufRead| {
            index::read(reader, RepoId(0), &self.arch).map_err(|source| PackagesError::Index {
                repository: self.repository.clone(),
                path: self.path.clone(),
                source,
            })
        };
        let plain = match (self.kept, self.index.plain) {
            (Some(kept), _) => kept,
            (None, Some(plain)) => {
                let packed = open(&self.index.packed.digest).map_err(failed)?;
                let unpacked = compression::unpacked(packed).map_err(|error| unpack(error.to_string()))?;
                match self.store.insert(unpacked.take(plain.size.saturating_add(1)), Some(plain.digest)) {
                    Ok((digest, _)) => digest,
                    Err(TransportError::Mismatch { expected, found, .. }) => {
                        return Err(unpack(format!("wanted {expected}, found {found}")));
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
            // Not told what unpacks: read as it comes.
            (None, None) => {
                let packed = open(&self.index.packed.digest).map_err(failed)?;
                let unpacked = compression::unpacked(packed).map_err(|error| unpack(error.to_string()))?;
                let mut bounded = BufReader::new(unpacked.take(PLAIN_LIMIT));
                let packages = listed(&mut bounded)?;
                // What was cut off would be missing without a word.
                if bounded.get_ref().limit() == 0 {
                    return Err(unpack(format!("it has more than {PLAIN_LIMIT} bytes")));
                }
                return Ok(packages);
            }
        };
        match in_halves(open(&plain).map_err(failed)?, open(&plain).map_err(failed)?, &self.arch) {
            Some(packages) => Ok(packages),
            None => listed(&mut open(&plain).map_err(failed)?),
        }
    }
}

/// A large index read at two places at once, by two readers of the same text: each stops or begins between two paragraphs. None of
/// a small one, and of one that cannot be read, whose error names the paragraph by its number from the first on.
fn in_halves(
    mut first: impl BufRead + Seek,
    mut second: impl BufRead + Seek + Send,
    arch: &str,
) -> Option<Vec<Package>> {
    let size = second.seek(SeekFrom::End(0)).ok()?;
    if size < LARGE {
        return None;
    }
    let mut middle = second.seek(SeekFrom::Start(size / 2)).ok()?;
    let mut line = Vec::new();
    loop {
        line.clear();
        match second.read_until(b'\n', &mut line).ok()? {
            0 => return None,
            read => middle += read as u64,
        }
        if line == b"\n" {
            break;
        }
    }
    first.seek(SeekFrom::Start(0)).ok()?;
    std::thread::scope(|scope| {
        let behind = scope.spawn(move || index::read(second, RepoId(0), arch));
        let before = index::read(first.take(middle), RepoId(0), arch);
        let behind = behind.join().ok()?;
        let mut packages = before.ok()?;
        packages.append(&mut behind.ok()?);
        Some(packages)
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::io::Cursor;

    use super::*;

    fn text(count: usize) -> String {
        (0..count).fold(String::new(), |mut text, number| {
            let digest = "0".repeat(64);
            // A description whose empty line has a dot, as policy 5.6.13 wants it.
            write!(
                text,
                "Package: p{number}\nVersion: 1\nArchitecture: amd64\nFilename: pool/p{number}.deb\nSize: 1\nSHA256: {digest}\n\
                 Description: says\n it {}\n .\n something\n\n",
                "long ".repeat(number % 40)
            )
            .unwrap();
            text
        })
    }

    #[test]
    fn a_large_index_read_at_two_places_gives_what_one_reader_gives() {
        let text = text(60_000);
        assert!(text.len() as u64 > LARGE);
        let one = index::read(text.as_bytes(), RepoId(0), "amd64").unwrap();
        let two = in_halves(Cursor::new(&text), Cursor::new(&text), "amd64").unwrap();
        assert_eq!(one.len(), 60_000);
        assert!(one == two);
    }

    #[test]
    fn what_is_wrong_in_either_half_is_left_to_the_one_reader_that_names_the_paragraph() {
        for at in [10, 50_000] {
            let text = text(60_000).replace(&format!("Filename: pool/p{at}.deb"), "Filename: /etc/passwd");
            assert!(in_halves(Cursor::new(&text), Cursor::new(&text), "amd64").is_none());
        }
    }

    #[test]
    fn a_small_index_is_not_worth_a_second_reader() {
        let text = text(10);
        assert!(in_halves(Cursor::new(&text), Cursor::new(&text), "amd64").is_none());
    }
}
