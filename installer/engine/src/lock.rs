//! The lock of a cluster's folder on the controller: one run at a time.
//!
//! A reader that only checks whether a run is active must never take the lock that a run is about to take. So a run
//! holds two files: `lock`, which decides and is never waited for, and `lock.held`, which readers check. A run waits
//! for the second one, since readers hold it only for a moment.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::EngineError;
use crate::files::make_dir;

/// Held while it exists; the kernel releases it when the process ends for any reason.
#[derive(Debug)]
pub struct ClusterLock {
    held: File,
    lock: File,
}

impl Drop for ClusterLock {
    /// Unlocks explicitly: a child process that another thread forks has both files open until it executes its program.
    fn drop(&mut self) {
        // `held` first, so that the next holder of the lock finds it free. Closing the files unlocks them too.
        let _ = self.held.unlock();
        let _ = self.lock.unlock();
    }
}

const LOCK: &str = "lock";
const HELD: &str = "lock.held";

impl ClusterLock {
    /// The current holder of the lock of `folder`; none if it is free. Changes nothing.
    pub fn holder(folder: &Path) -> Option<String> {
        let held = File::open(folder.join(HELD)).ok()?;
        match held.try_lock_shared() {
            Err(TryLockError::WouldBlock) => {
                // The name is only informative; that the lock is held is known.
                let holder = std::fs::read_to_string(folder.join(LOCK)).unwrap_or_default();
                Some(if holder.is_empty() { "unknown".to_owned() } else { holder })
            }
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
    }

    /// Takes the lock of `folder` (`clusters/<name>`), or fails with its holder. `holder` is shown to others who find
    /// it taken.
    pub fn take(folder: &Path, cluster: &str, holder: &str) -> Result<Self, EngineError> {
        make_dir(folder)?;
        let path = folder.join(LOCK);
        let failed = || EngineError::file("lock", &path);
        let open = |name: &str| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600).open(folder.join(name))
        };
        let mut file = open(LOCK).map_err(failed())?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The name of the holder is only informative.
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
        let held = open(HELD).and_then(|held| held.lock().map(|()| held)).map_err(failed())?;
        Ok(Self { held, lock: file })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn reading_the_holder_never_blocks_a_run_from_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(ClusterLock::holder(folder.path()), None);
        drop(ClusterLock::take(folder.path(), "demo", "run 0").unwrap());
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !end.load(Ordering::Relaxed) {
                        ClusterLock::holder(folder.path());
                    }
                });
            }
            let taken = (0..2000).map(|_| ClusterLock::take(folder.path(), "demo", "run 1").map(drop));
            let refused = taken.filter_map(Result::err).count();
            end.store(true, Ordering::Relaxed);
            assert_eq!(refused, 0);
        });
        let lock = ClusterLock::take(folder.path(), "demo", "run 2").unwrap();
        assert!(ClusterLock::holder(folder.path()).is_some_and(|holder| holder.starts_with("run 2, process ")));
        ClusterLock::take(folder.path(), "demo", "run 3").unwrap_err();
        drop(lock);
        assert_eq!(ClusterLock::holder(folder.path()), None);
    }
}
