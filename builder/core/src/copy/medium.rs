//! The file system that is copied to: its free space, its file size limit, and reads that bypass
//! the page cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Advice, OFlags, fadvise, statfs};

/// Pieces that are read, written and compared at a time, in bytes.
pub(crate) const PIECE: usize = 4 << 20;

/// What `O_DIRECT` wants buffers and offsets to be multiples of: the largest sector there is.
const ALIGNMENT: usize = 4096;

/// How what was written is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum ReadBack {
    /// `O_DIRECT`: from the medium, past the page cache.
    #[serde(rename = "direct")]
    Direct,
    /// The file system takes no `O_DIRECT`: written out, dropped from the page cache (`POSIX_FADV_DONTNEED`), read again.
    #[serde(rename = "cache-dropped")]
    Dropped,
}

/// The file system's name and the most bytes of one file, where that is less than bundles have.
pub(crate) fn largest_file(folder: &Path) -> io::Result<Option<(&'static str, u64)>> {
    Ok(limit_of(statfs(folder)?.f_type as u64))
}

/// By the magic number that statfs(2) gives. FAT keeps sizes in 32 bits (Microsoft's FAT specification, "DIR_FileSize").
fn limit_of(magic: u64) -> Option<(&'static str, u64)> {
    const MSDOS_SUPER_MAGIC: u64 = 0x4d44;
    (magic & 0xffff_ffff == MSDOS_SUPER_MAGIC).then_some(("FAT32", u32::MAX as u64))
}

/// A file that is read from its medium.
pub(crate) struct FromMedium {
    file: File,
    how: ReadBack,
    /// With room for alignment.
    buffer: Vec<u8>,
}

impl FromMedium {
    /// Opens it; what is still on its way to the medium must have been written out.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let direct = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path);
        let (file, how) = match direct {
            Ok(file) => (file, ReadBack::Direct),
            Err(e) if refused(&e) => (File::open(path)?, ReadBack::Dropped),
            Err(e) => return Err(e),
        };
        let this = Self { file, how, buffer: vec![0; PIECE + ALIGNMENT] };
        this.drop_cached()?;
        Ok(this)
    }

    /// How it reads, as far as that is known by now.
    pub(crate) fn how(&self) -> ReadBack {
        self.how
    }

    /// The piece of `len` bytes at `offset` (a multiple of [`PIECE`]); shorter where the file ends.
    pub(crate) fn piece(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let start = self.buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let mut filled = 0;
        while filled < len {
            // Direct reads are of whole sectors; the last one of a file ends where the file does.
            let wanted = (len - filled).next_multiple_of(ALIGNMENT).min(PIECE - filled);
            let room = &mut self.buffer[start + filled..start + filled + wanted];
            match self.file.read_at(room, offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if self.how == ReadBack::Direct && refused(&e) => self.without_direct()?,
                Err(e) => return Err(e),
            }
        }
        Ok(&self.buffer[start..start + filled.min(len)])
    }

    /// Some file systems take the flag and refuse the reads.
    fn without_direct(&mut self) -> io::Result<()> {
        use rustix::fs::{fcntl_getfl, fcntl_setfl};
        fcntl_setfl(&self.file, fcntl_getfl(&self.file)?.difference(OFlags::DIRECT))?;
        self.how = ReadBack::Dropped;
        self.drop_cached()
    }

    fn drop_cached(&self) -> io::Result<()> {
        Ok(fadvise(&self.file, 0, None, Advice::DontNeed)?)
    }
}

fn refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fat_file_system_is_recognized_by_its_magic_number_only() {
        assert_eq!(limit_of(0x4d44), Some(("FAT32", 4_294_967_295)));
        // ext4, tmpfs, exFAT, NTFS.
        for magic in [0xef53, 0x0102_1994, 0x2011_bab0, 0x7366_746e] {
            assert_eq!(limit_of(magic), None, "{magic:#x}");
        }
    }

    #[test]
    fn every_piece_of_a_file_is_read_whichever_way_the_file_system_allows() {
        for folder in [Path::new("/dev/shm"), Path::new("/var/tmp")] {
            let dir = tempfile::tempdir_in(folder).unwrap();
            let path = dir.path().join("x");
            let content: Vec<u8> = (0..PIECE + 4097).map(|n| (n / 7 + n) as u8).collect();
            std::fs::write(&path, &content).unwrap();
            File::open(&path).unwrap().sync_all().unwrap();
            let mut file = FromMedium::open(&path).unwrap();
            assert_eq!(file.piece(0, PIECE).unwrap(), &content[..PIECE]);
            assert_eq!(file.piece(PIECE as u64, PIECE).unwrap(), &content[PIECE..]);
            assert_eq!(file.piece(PIECE as u64, 4097).unwrap(), &content[PIECE..]);
            assert!(file.piece(2 * PIECE as u64, PIECE).unwrap().is_empty());
        }
    }
}
