//! A bundle on standard input. Its index is at its end, and a registry may ask for bytes a second time, so what comes from a pipe is
//! copied into a file without a name first; a file that was put on standard input is read in place.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubexm_archive::{ArchiveError, Bundle, ReadAt};
use kubexm_files::DiskRoom;
use kubexm_spec::event::EventKind;

use crate::error::SeedError;

/// What messages call it.
const NAME: &str = "standard input";
/// Bytes between two events of progress.
const STEP: u64 = 16 << 20;

/// Where a bundle that comes from a pipe is kept meanwhile. No file of it has a name, so nothing of it stays whatever happens.
#[derive(Clone, Copy)]
pub struct Spool<'a> {
    /// A folder with room for the whole bundle.
    pub folder: &'a Path,
    /// Called with the progress.
    pub report: &'a dyn Fn(EventKind),
}

impl Spool<'_> {
    /// The bundle that this process has on its standard input.
    pub(crate) fn open(&self) -> Result<Bundle, SeedError> {
        let given = io::stdin().as_fd().try_clone_to_owned().map_err(failed("open", Path::new(NAME)))?;
        let spooled = self.whole(File::from(given))?;
        Ok(Bundle::open_source(PathBuf::from(NAME), Arc::new(spooled))?)
    }

    fn whole(&self, mut input: File) -> Result<Spooled, SeedError> {
        let examined = input.metadata().map_err(failed("examine", Path::new(NAME)))?;
        if examined.is_file() {
            return Ok(Spooled { file: input, len: examined.len() });
        }
        // As all else below the home: others need not see which registries and bundles there are.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(self.folder);
        made.map_err(failed("make the folder", self.folder))?;
        let mut file = tempfile::tempfile_in(self.folder).map_err(failed("make a file in", self.folder))?;
        let (mut buffer, mut len, mut said) = (vec![0; 1 << 20], 0, 0);
        let mut room = DiskRoom::of(self.folder);
        loop {
            let count = match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed("read", Path::new(NAME))(error)),
            };
            if len == 0 && !begins_a_bundle(&buffer[..count]) {
                let reason = "its first bytes are no bundle's".to_owned();
                return Err(ArchiveError::NotABundle { path: NAME.into(), reason }.into());
            }
            // Whoever sends without an end does not fill the disk: others write there, too.
            let written = file.write_all(&buffer[..count]).and_then(|()| room.wrote(count as u64));
            written.map_err(failed("write to a file in", self.folder))?;
            len += count as u64;
            if len - said >= STEP {
                said = len;
                self.progress(len);
            }
        }
        self.progress(len);
        Ok(Spooled { file, len })
    }

    fn progress(&self, done: u64) {
        (self.report)(EventKind::Progress { what: NAME.to_owned(), done, total: None, unit: "bytes".to_owned() });
    }
}

/// The bytes, in a file that nobody else can open.
#[derive(Debug)]
struct Spooled {
    file: File,
    len: u64,
}

impl ReadAt for Spooled {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn has_changed(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.len() != self.len)
    }
}

/// A pipe may give one byte at a time: as far as they came, the bytes are those of a frame of zstd (RFC 8878, 3.1.1 and 3.1.2).
fn begins_a_bundle(bytes: &[u8]) -> bool {
    const FRAME: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
    const SKIPPABLE: [u8; 3] = [0x2A, 0x4D, 0x18];
    let is_skippable = |first: u8| first & 0xF0 == 0x50;
    bytes.iter().zip(FRAME).all(|(byte, wanted)| *byte == wanted)
        || bytes.split_first().is_some_and(|(first, rest)| {
            is_skippable(*first) && rest.iter().zip(SKIPPABLE).all(|(byte, wanted)| *byte == wanted)
        })
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SeedError {
    let path = path.to_owned();
    move |source| ArchiveError::Io { action, path, source }.into()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn content() -> Vec<u8> {
        std::iter::once(0xFD2F_B528).chain(0..3_000_000_u32).flat_map(u32::to_le_bytes).collect()
    }

    fn read(spooled: &Spooled) -> Vec<u8> {
        let mut all = vec![0; usize::try_from(spooled.len()).unwrap()];
        spooled.file.read_exact_at(&mut all, 0).unwrap();
        all
    }

    #[test]
    fn what_comes_from_a_pipe_is_kept_whole_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let events = RefCell::new(Vec::new());
        let report = |event| events.borrow_mut().push(event);
        let home = folder.path().join("home");
        let spool = Spool { folder: &home.join("spool"), report: &report };
        let (from, mut to) = io::pipe().unwrap();
        let writer = std::thread::spawn(move || to.write_all(&content()).unwrap());
        let spooled = spool.whole(File::from(std::os::fd::OwnedFd::from(from))).unwrap();
        writer.join().unwrap();
        assert!(read(&spooled) == content());
        assert_eq!(std::fs::read_dir(spool.folder).unwrap().count(), 0);
        // Both are new, and for this user alone.
        for made in [home.as_path(), spool.folder] {
            assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o700, "{}", made.display());
        }
        assert!(matches!(events.borrow().last(), Some(EventKind::Progress { done: 12_000_004, .. })));
    }

    #[test]
    fn a_file_is_read_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("bundle");
        std::fs::write(&at, content()).unwrap();
        let spool = Spool { folder: &folder.path().join("spool"), report: &|_| panic!("nothing is copied") };
        let spooled = spool.whole(File::open(&at).unwrap()).unwrap();
        assert!(read(&spooled) == content() && !spool.folder.exists());
    }

    #[test]
    fn what_is_no_bundle_is_refused_at_its_first_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool { folder: folder.path(), report: &|_| () };
        let (from, mut to) = io::pipe().unwrap();
        to.write_all(b"PK\x03\x04").unwrap();
        // The pipe is open: nobody waits for its end.
        let error = spool.whole(File::from(std::os::fd::OwnedFd::from(from))).unwrap_err().to_string();
        assert!(error.contains("standard input"), "{error}");
        for good in [&b"\x28"[..], b"\x28\xb5\x2f\xfd\x01", b"\x5c\x2a\x4d\x18"] {
            assert!(begins_a_bundle(good), "{good:x?}");
        }
    }

    #[test]
    fn a_folder_that_takes_nothing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let spool = Spool { folder: &folder.path().join("file/spool"), report: &|_| () };
        let (from, _to) = io::pipe().unwrap();
        let error = spool.whole(File::from(std::os::fd::OwnedFd::from(from))).unwrap_err().to_string();
        assert!(error.contains("file/spool"), "{error}");
    }
}
