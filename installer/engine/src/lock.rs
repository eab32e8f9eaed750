//! The lock of a cluster's folder on the controller: one run at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::EngineError;
use crate::files::make_dir;

/// Held while it lives; the kernel lets go when the process dies, however it dies.
#[derive(Debug)]
pub struct ClusterLock(#[expect(dead_code, reason = "the open file is the lock")] File);

impl ClusterLock {
    /// Who has the lock of `folder` right now; none when nobody has. Changes nothing.
    pub fn holder(folder: &Path) -> Option<String> {
        let mut file = File::open(folder.join("lock")).ok()?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Who it is is a help for people; that somebody has it is known.
                let _ = file.read_to_string(&mut holder);
                Some(if holder.is_empty() { "unknown".to_owned() } else { holder })
            }
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
    }

    /// Takes the lock of `folder` (`clusters/<name>`), or says who has it. `holder` is told to the next one who asks.
    pub fn take(folder: &Path, cluster: &str, holder: &str) -> Result<Self, EngineError> {
        make_dir(folder)?;
        let path = folder.join("lock");
        let failed = || EngineError::file("lock", &path);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed())?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Who holds it is a help for people, not worth failing for.
                let _ = file.read_to_string(&mut holder);
                let holder = if holder.is_empty() { "unknown".to_owned() } else { holder };
                return Err(EngineError::ClusterLocked { cluster: cluster.to_owned(), holder });
            }
            Err(TryLockError::Error(source)) => return Err(failed()(source)),
        }
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| write!(file, "{holder}, process {}", std::process::id()))
            .map_err(failed())?;
        Ok(Self(file))
    }
}
