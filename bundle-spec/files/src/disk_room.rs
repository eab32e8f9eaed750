//! Room on a disk that others write to as well.

use std::io;
use std::path::Path;

/// What stays free of the file system, in bytes.
const KEPT_FREE: u64 = 1 << 30;
/// Bytes between two looks at it.
const STEP: u64 = 16 << 20;

/// The room for a file that somebody sends who may mean harm: it does not fill the disk, which has the journals of runs, say.
/// What is short is taken without a look.
#[derive(Clone, Copy, Debug)]
pub struct DiskRoom<'a> {
    folder: &'a Path,
    kept_free: u64,
    unseen: u64,
}

impl<'a> DiskRoom<'a> {
    /// For a file in this folder, which is there.
    pub const fn of(folder: &'a Path) -> Self {
        Self { folder, kept_free: KEPT_FREE, unseen: 0 }
    }

    /// So many bytes more were written.
    ///
    /// # Errors
    /// The file system has less than 1 GiB left ([`io::ErrorKind::StorageFull`]), or does not say what it has.
    pub fn wrote(&mut self, count: u64) -> io::Result<()> {
        self.unseen = self.unseen.saturating_add(count);
        if self.unseen < STEP {
            return Ok(());
        }
        self.unseen = 0;
        let found = rustix::fs::statvfs(self.folder)?;
        if found.f_bavail.saturating_mul(found.f_frsize) >= self.kept_free {
            return Ok(());
        }
        let text = format!("{} GiB of its file system stay free for others; make room there", KEPT_FREE >> 30);
        Err(io::Error::new(io::ErrorKind::StorageFull, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_ends_before_others_have_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let none = DiskRoom { kept_free: u64::MAX, ..DiskRoom::of(folder.path()) };
        let (mut short, mut long) = (none, none);
        short.wrote(STEP - 1).unwrap();
        (0..15).for_each(|_| long.wrote(1 << 20).unwrap());
        let error = long.wrote(1 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("stay free for others"), "{error}");
        let mut enough = DiskRoom { kept_free: 0, ..none };
        enough.wrote(STEP).unwrap();
        // And it is looked at again.
        enough.kept_free = u64::MAX;
        assert!(enough.wrote(STEP).is_err());
        assert!(DiskRoom::of(&folder.path().join("nothing")).wrote(STEP).is_err(), "it does not say what it has");
    }
}
