//! Folders of the controller for backups that are kept elsewhere: while one is made, and while one is used. What is in them is encrypted.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::error::SessionError;

/// Held while a folder is made or old ones are removed.
const LOCK: &str = ".lock";

/// A folder of its own. It goes with the value; that of a program that was killed goes when the next one is made.
#[derive(Debug)]
pub struct Staging {
    folder: TempDir,
    /// As long as it is locked, somebody uses the folder.
    _held: File,
}

impl Staging {
    pub fn create(below: &Path) -> Result<Self, SessionError> {
        let failed = |error: std::io::Error| SessionError::disk("make a folder in", below, &error);
        let make = || {
            DirBuilder::new().recursive(true).mode(0o700).create(below)?;
            let lock = File::options().create(true).truncate(false).write(true).open(below.join(LOCK))?;
            flock(&lock, FlockOperation::LockExclusive)?;
            for entry in fs::read_dir(below)?.flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_abandoned(&entry.path()) {
                    fs::remove_dir_all(entry.path())?;
                }
            }
            let folder = tempfile::Builder::new().prefix("backup-").tempdir_in(below)?;
            let held = File::open(folder.path())?;
            flock(&held, FlockOperation::LockExclusive)?;
            Ok(Self { folder, _held: held })
        };
        make().map_err(failed)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Whether nobody holds a folder.
fn is_abandoned(folder: &Path) -> bool {
    let Ok(file) = File::open(folder) else { return false };
    flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_a_program_that_was_killed_goes_and_one_that_is_used_stays() {
        let home = tempfile::tempdir().unwrap();
        let below = home.path().join("staging");
        let used = Staging::create(&below).unwrap();
        let killed = below.join("backup-killed");
        fs::create_dir(&killed).unwrap();
        fs::write(killed.join("archive.age"), "half").unwrap();
        let next = Staging::create(&below).unwrap();
        assert!(!killed.exists() && used.folder().is_dir() && next.folder().is_dir());
        let gone = used.folder().to_owned();
        drop(used);
        assert!(!gone.exists());
    }
}
