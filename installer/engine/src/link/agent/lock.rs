//! Allows one run at a time on a host: an flock, which the kernel releases when the process ends for any reason.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::clock;

const POLL: Duration = Duration::from_millis(50);

/// The held lock.
#[derive(Debug)]
pub struct HostLock {
    file: File,
    note: Note,
}

/// The holder, for others who find the lock taken. Only informative: the flock alone decides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Note {
    holder: String,
    pid: u32,
    /// Whether its controller is gone and it only finishes running work.
    finishing: bool,
    /// When it took the lock, by the host's clock.
    since: String,
}

/// How long to wait for the lock.
#[derive(Clone, Copy, Debug)]
pub struct LockTimeouts {
    /// If another live run holds it.
    pub other: Duration,
    /// If an agent that is finishing, or one of this run, holds it.
    pub own: Duration,
}

/// Why the lock was not acquired.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run holds it.
    #[error("held by {holder}")]
    Held {
        holder: String,
        /// Whether it only finishes running work.
        finishing: bool,
    },
    /// The lock file cannot be used.
    #[error("cannot lock {path}")]
    Io {
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
}

impl HostLock {
    /// Waits for the lock as long as `patience` allows, or until `stop` is true.
    pub fn acquire(
        path: &Path,
        holder: &str,
        patience: LockTimeouts,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(failed)?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            let note = read_note(&mut file);
            let waits = if note.finishing || note.holder == holder { patience.own } else { patience.other };
            if stop() || begun.elapsed() >= waits {
                let holder = match note.holder.as_str() {
                    "" => "an agent that did not record its owner".to_owned(),
                    name if note.since.is_empty() => format!("{name}, agent process {}", note.pid),
                    name => format!("{name}, agent process {} since {}", note.pid, note.since),
                };
                return Err(LockError::Held { holder, finishing: note.finishing });
            }
            std::thread::sleep(POLL);
        }
        let (pid, since) = (std::process::id(), clock::now());
        let lock = Self { file, note: Note { holder: holder.to_owned(), pid, finishing: false, since } };
        lock.write(&lock.note);
        Ok(lock)
    }

    /// Records, for others who wait, that this agent accepts no new work.
    pub fn finishing(&self) {
        self.write(&Note { finishing: true, ..self.note.clone() });
    }

    /// A failure is harmless: only the informative text is lost.
    fn write(&self, note: &Note) {
        let mut file = &self.file;
        let text = serde_json::to_vec(note).unwrap_or_default();
        let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&text));
        if let Err(error) = written {
            tracing::debug!(%error, "the note in the lock file could not be written");
        }
    }
}

/// Marks that an agent is running, as a shared lock.
#[derive(Debug)]
pub struct Presence(#[expect(dead_code, reason = "the open file is the lock")] File);

impl Presence {
    /// None if the file cannot be created (a read-only /run): then only a run's lock keeps the program from being
    /// removed. Waits for another process that is removing the program, which takes a moment.
    pub fn take(path: &Path) -> Option<Self> {
        let taken = (|| {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
            file.lock_shared().map(|()| Self(file))
        })();
        taken
            .inspect_err(|error| tracing::debug!(%error, "other controllers cannot see that this agent is running"))
            .ok()
    }
}

fn read_note(file: &mut File) -> Note {
    let mut text = Vec::new();
    let read = file.rewind().and_then(|()| file.take(4096).read_to_end(&mut text));
    read.ok().and_then(|_| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: LockTimeouts = LockTimeouts { other: Duration::ZERO, own: Duration::from_secs(60) };

    #[test]
    fn a_second_run_is_refused_with_the_holder_of_the_host() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/lock");
        let held = HostLock::acquire(&path, "run 7", SHORT, &|| false).unwrap();
        let refused = HostLock::acquire(&path, "run 8", SHORT, &|| false).unwrap_err().to_string();
        assert!(refused.contains("run 7") && refused.contains(&std::process::id().to_string()), "{refused}");
        assert!(refused.contains(" since 20"), "{refused}");
        drop(held);
        HostLock::acquire(&path, "run 8", SHORT, &|| false).unwrap();
    }

    #[test]
    fn an_agent_that_finishes_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = HostLock::acquire(&path, "run 7", SHORT, &|| false).unwrap();
        held.finishing();
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || HostLock::acquire(&path, "run 8", SHORT, &|| false).map(drop)
        });
        std::thread::sleep(POLL * 3);
        assert!(!waiting.is_finished(), "it gave up, or took a held lock");
        drop(held);
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn an_agent_that_waits_for_the_lock_ends_with_its_controller() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let _held = HostLock::acquire(&path, "run 7", SHORT, &|| false).unwrap();
        let begun = Instant::now();
        HostLock::acquire(&path, "run 7", SHORT, &|| true).unwrap_err();
        assert!(begun.elapsed() < SHORT.own);
    }
}
