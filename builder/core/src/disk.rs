//! Helpers for local files that hand-over, copy and provenance share.

use std::fs::File;
use std::io;
use std::path::Path;

use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;

/// The digest of a file, read from its start to its end.
pub fn digest(path: &Path) -> io::Result<Digest> {
    let mut hasher = Hasher::default();
    io::copy(&mut io::BufReader::with_capacity(1 << 20, File::open(path)?), &mut hasher)?;
    Ok(hasher.finish())
}

/// Bytes that an ordinary user can still write below a folder.
pub(crate) fn free(folder: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(folder)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// What to do about an answer of the system, as the end of a message; `full` is the hint for a full disk.
pub(crate) fn fix<'a>(source: &io::Error, full: &'a str) -> &'a str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => full,
        io::ErrorKind::ReadOnlyFilesystem => " (mount it for writing, or unlock the medium's switch)",
        io::ErrorKind::FileTooLarge => {
            " (its file system holds no file that large; split the bundle with join --split)"
        }
        _ => "",
    }
}
