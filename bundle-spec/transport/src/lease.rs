//! Who uses a store now. Whoever collects garbage must not take what a running build has found there, and a build cannot
//! name beforehand all that it will find: so a build says that it runs, every look at a blob renews its date, and nothing
//! that was looked at since the oldest running build began is taken.
//!
//! Clocks may be set back meanwhile, and a file server has one of its own. So the file [`TURN`] has the date at which the last of the
//! running builds began, and while any runs no blob gets an earlier one.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};

use crate::TransportError;
use crate::store::Store;

/// The file whose lock is a turn.
const TURN: &str = "turn";

/// As long as it lives, garbage collection leaves alone what was found in the store or put there. Ends with the process,
/// however that ends.
#[derive(Debug)]
pub struct Lease {
    file: File,
    path: PathBuf,
}

impl Store {
    /// Says that the store is used from now on.
    pub fn lease(&self) -> Result<Lease, TransportError> {
        // Alone: a lease that has no lock yet would be taken for one of a killed program.
        let turn = self.turn(FlockOperation::LockExclusive)?;
        let others = self.used_since()?;
        let folder = self.leases();
        let failed = |e| TransportError::disk("make a file in", &folder, None, e);
        let named = tempfile::Builder::new().prefix("run-").tempfile_in(&folder).map_err(failed)?;
        let (file, path) = named.keep().map_err(|e| failed(e.error))?;
        let lease = Lease { file, path };
        lock(&lease.file, FlockOperation::LockExclusive)
            .map_err(|e| TransportError::disk("lock", &lease.path, None, e))?;
        let began = date_of(&lease.file);
        // With nobody else a date of earlier builds, whose clock may have been wrong, means nothing.
        let began = if others.is_some() { began.max(date_of(&turn.0)) } else { began };
        date(&turn.0, began).map_err(|e| TransportError::disk("set the date of", &self.root().join(TURN), None, e))?;
        Ok(lease)
    }

    /// When the oldest of those that use the store now began; none when nobody does. Leases of killed programs are removed.
    pub(crate) fn used_since(&self) -> Result<Option<SystemTime>, TransportError> {
        let folder = self.leases();
        let entries = fs::read_dir(&folder).map_err(|e| TransportError::disk("read", &folder, None, e))?;
        let mut oldest: Option<SystemTime> = None;
        for path in entries.flatten().map(|entry| entry.path()) {
            // Gone meanwhile: its run is over.
            let Ok(file) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
            if lock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                let _ = fs::remove_file(&path);
                unlock(&file);
                continue;
            }
            let began = date_of(&file);
            oldest = Some(oldest.map_or(began, |before| before.min(began)));
        }
        Ok(oldest)
    }

    /// Between looks at blobs (shared) and their removal (exclusive).
    pub(crate) fn turn(&self, operation: FlockOperation) -> Result<Turn, TransportError> {
        let path = self.root().join(TURN);
        let failed = |e| TransportError::disk("lock", &path, None, e);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        lock(&file, operation).map_err(failed)?;
        Ok(Turn(file))
    }

    /// A turn to look at blobs; none where nobody ever took a lease or collected: a node's store is no cache, and stays as
    /// it is however often it is looked at.
    pub(crate) fn turn_to_look(&self) -> Option<Turn> {
        let file = File::open(self.root().join(TURN)).ok()?;
        lock(&file, FlockOperation::LockShared).ok()?;
        Some(Turn(file))
    }

    pub(crate) fn leases(&self) -> PathBuf {
        self.root().join("leases")
    }
}

impl Lease {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        unlock(&self.file);
    }
}

/// A turn at the store; over when dropped.
pub(crate) struct Turn(File);

impl Turn {
    /// Gives a blob the date of now: no earlier one than that at which a running build began, whatever the clock says.
    pub(crate) fn used(&self, blob: &File) {
        let _ = date(blob, SystemTime::now().max(date_of(&self.0)));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        unlock(&self.0);
    }
}

fn date_of(file: &File) -> SystemTime {
    file.metadata().and_then(|meta| meta.modified()).unwrap_or(UNIX_EPOCH)
}

fn date(file: &File, when: SystemTime) -> std::io::Result<()> {
    file.set_times(FileTimes::new().set_modified(when))
}

fn lock(file: &File, operation: FlockOperation) -> std::io::Result<()> {
    loop {
        match flock(file.as_fd(), operation) {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(Into::into),
        }
    }
}

/// By name: a child process that was started meanwhile may have the file open for a moment, and the lock with it.
fn unlock(file: &File) {
    let _ = flock(file.as_fd(), FlockOperation::Unlock);
}
