//! What is in an archive, as files of this machine.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use kubexm_ops::age_file;

use super::archive::{ENTRIES, Hashed, each};
use super::error::{ARCHIVE, BackupError, disk, shown};
use super::header::{BackupAbout, BackupKey};

/// Writes every file of an archive that was verified below `to`, an empty folder: the snapshot of etcd, and what lay on the host under its path
/// there. All of it is in clear, and readable by this user alone. Returns how many files.
///
/// # Errors
/// The archive was changed since it was verified, or cannot be written; or `interrupted` has become true.
pub fn extract_contents(
    folder: &Path,
    (about, key): (&BackupAbout, &BackupKey),
    to: &Path,
    interrupted: &dyn Fn() -> bool,
) -> Result<usize, BackupError> {
    let path = folder.join(ARCHIVE);
    let damaged = |reason: String| BackupError::Damaged { path: shown(&path), reason };
    let broken = |error: std::io::Error| damaged(error.to_string());
    let mut file = Hashed::of(File::open(&path).map_err(disk("read", &path))?);
    let decryptor = age_file::decryptor(&mut file).map_err(|error| damaged(error.to_string()))?;
    let reader = decryptor
        .decrypt(std::iter::once(key.identity() as &dyn age::Identity))
        .map_err(|error| damaged(format!("it cannot be decrypted: {error}")))?;
    let (mut tar, mut files) = (tar::Archive::new(reader), 0);
    // Raw, as where it is verified.
    for (count, entry) in tar.entries().map_err(broken)?.raw(true).enumerate() {
        let mut entry = entry.map_err(broken)?;
        if count == ENTRIES {
            return Err(damaged(format!("it has more than {ENTRIES} files")));
        }
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let Some(inside) = inside(&name) else {
            return Err(damaged(format!("a file in it has the path {name:?}")));
        };
        write(&mut Interruptible { from: &mut entry, interrupted }, &to.join(inside))?;
        files += 1;
    }
    each(&mut tar.into_inner(), |_| {}).map_err(broken)?;
    each(&mut file, |_| {}).map_err(disk("read", &path))?;
    if file.is(&about.archive) { Ok(files) } else { Err(damaged("it was changed while it was read".to_owned())) }
}

/// Ends with an error once somebody interrupts.
struct Interruptible<'a, R> {
    from: &'a mut R,
    interrupted: &'a dyn Fn() -> bool,
}

impl<R: Read> Read for Interruptible<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if (self.interrupted)() {
            return Err(std::io::Error::other("interrupted"));
        }
        self.from.read(buffer)
    }
}

/// A host wrote the names: none leads out of the folder.
fn inside(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let whole = path.components().all(|part| matches!(part, Component::Normal(_)));
    (whole && path.file_name().is_some()).then(|| path.to_owned())
}

fn write(from: &mut impl Read, to: &Path) -> Result<(), BackupError> {
    if let Some(folder) = to.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(disk("create", folder))?;
    }
    // One of the same name is an error.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(disk("create", to))?;
    std::io::copy(from, &mut file).and_then(|_| file.sync_all()).map_err(disk("write", to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for good in ["etcd.db", "files/etc/kubernetes/pki/ca.key"] {
            assert_eq!(inside(good), Some(PathBuf::from(good)));
        }
        for bad in ["../x", "/etc/passwd", "files/../../x", "", ".", "./x"] {
            assert_eq!(inside(bad), None, "{bad}");
        }
    }
}
