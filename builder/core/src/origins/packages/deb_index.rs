//! A Debian package index in the store → packages.

use std::io::{BufRead, BufReader, Read};

use kubexm_packages::compression;
use kubexm_packages::deb::listing::{LIMIT, Listing};
use kubexm_packages::deb::release::Index;
use kubexm_spec::Digest;
use kubexm_transport::{Store, TransportError};

use super::PackagesError;

/// An index that is in the store.
pub(super) struct Reading {
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
    pub fn read(self) -> Result<Listing, PackagesError> {
        let text = self.text()?;
        Listing::read(text, &self.arch).map_err(|source| PackagesError::Index {
            repository: self.repository,
            path: self.path,
            source,
        })
    }

    fn text(&self) -> Result<Vec<u8>, PackagesError> {
        let failed = |source: TransportError| PackagesError::Fetch {
            repository: self.repository.clone(),
            source: Box::new(source),
        };
        let unpack = |reason: String| PackagesError::Unpack {
            repository: self.repository.clone(),
            path: self.path.clone(),
            reason,
        };
        if self.index.plain.is_some_and(|plain| plain.size > LIMIT as u64) {
            return Err(unpack(format!("it has more than {LIMIT} bytes")));
        }
        let packed = || -> Result<Box<dyn BufRead>, PackagesError> {
            let file = self.store.open_blob(&self.index.packed.digest).map_err(failed)?;
            compression::unpacked(BufReader::with_capacity(1 << 18, file)).map_err(|error| unpack(error.to_string()))
        };
        let plain = match (self.kept, self.index.plain) {
            (Some(kept), _) => kept,
            (None, Some(plain)) => {
                match self.store.insert(packed()?.take(plain.size.saturating_add(1)), Some(plain.digest)) {
                    Ok((digest, _)) => digest,
                    Err(TransportError::Mismatch { expected, found, .. }) => {
                        return Err(unpack(format!("wanted {expected}, found {found}")));
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
            // Not told what unpacks: a byte more than may be read is refused with the rest.
            (None, None) => {
                let mut text = Vec::new();
                let read = packed()?.take(LIMIT as u64 + 1).read_to_end(&mut text);
                return read.map(|_| text).map_err(|error| unpack(error.to_string()));
            }
        };
        self.store.read(&plain, LIMIT as u64).map_err(failed)
    }
}
