//! A bundle in memory: what is fuzzed need not lie on a disk.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use kubexm_archive::{ArchiveError, Bundle, ReadAt};

#[derive(Debug)]
struct Memory(Vec<u8>);

impl ReadAt for Memory {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Opens it.
pub(crate) fn open(bytes: Vec<u8>) -> Result<Bundle, ArchiveError> {
    Bundle::open_source(PathBuf::from("fuzz"), Arc::new(Memory(bytes)))
}
