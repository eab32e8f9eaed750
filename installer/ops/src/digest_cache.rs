//! Cached digests of large files, so that observing a host does not read hundreds of megabytes of programs again.
//!
//! Every observation that reads a file writes an entry, which is used only for exactly the same file: path, device, inode,
//! size, mode, owner and both times. The time of the last change of content or metadata (ctime) is set only by the kernel, so
//! writers of the file cannot set it back. A survey uses what any process has read within a day: the cache is below /run, so
//! after a boot everything is read again, and also after a day, since a disk may silently corrupt data. Before a change a file
//! is read by the process that changes it, once: a step looks at its files before, when it keeps the old ones, and after.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::{OpError, fsio, paths};

/// Files below this size in bytes are read each time.
const LARGE: u64 = 64 << 10;
/// How long an entry is valid.
const TRUSTED: Duration = Duration::from_secs(24 * 60 * 60);
/// For how long what this process has read is used before a change: a step on a slow disk.
const RECENT: Duration = Duration::from_secs(30);
/// The kernel's ctime clock advances only every 10 ms (HZ=100), and some file systems have a resolution of a second: a
/// file that was changed so shortly before it was read may have been changed again without a new ctime.
const TICK: Duration = Duration::from_millis(50);
const WHOLE_SECONDS: Duration = Duration::from_secs(3);

/// A file's metadata and digest when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Note {
    file: Identity,
    digest: Digest,
    /// Milliseconds since 1970.
    read_ms: u64,
    /// Where this process has read the file itself.
    #[serde(skip)]
    read_here: Option<Instant>,
}

impl Note {
    fn is_recent(&self) -> bool {
        self.read_here.is_some_and(|at| at.elapsed() < RECENT)
    }
}

/// Metadata that changes whenever a file is written, replaced or touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    /// Seconds and nanoseconds since 1970.
    modified: (i64, i64),
    /// The same, of the last change of content or metadata.
    changed: (i64, i64),
}

impl Identity {
    fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.len(),
            mode: found.mode(),
            uid: found.uid(),
            gid: found.gid(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// Whether a write from `now` on certainly changes the times.
    fn is_settled(&self, now: Duration) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds)) else { return false };
        let tick = if nanoseconds == 0 { WHOLE_SECONDS } else { TICK };
        now.checked_sub(Duration::new(seconds, nanoseconds)).is_some_and(|age| age > tick)
    }
}

/// The cache of a machine. Shared by the clones of a [`crate::Machine`].
#[derive(Debug)]
pub(crate) struct DigestCache {
    path: PathBuf,
    notes: Mutex<Option<Notes>>,
}

#[derive(Debug, Default)]
struct Notes {
    by_path: BTreeMap<PathBuf, Note>,
    unsaved: bool,
}

impl DigestCache {
    /// The cache of the machine with this root; read on first use.
    pub(crate) fn below(root: &Path) -> Self {
        Self { path: root.join(paths::DIGESTS.trim_start_matches('/')), notes: Mutex::default() }
    }

    /// The digest of an open file, with the metadata of the same open file: from an entry of this process, of any process if
    /// `trust` is set, else by reading it. Entries are by path.
    pub(crate) fn digest(&self, mut file: File, path: &Path, trust: bool) -> Result<(Digest, Metadata), OpError> {
        let look = |file: &File| file.metadata().map_err(OpError::path("look at", path));
        let found = look(&file)?;
        let before = Identity::of(&found);
        let now = now();
        if before.size >= LARGE {
            let notes = self.notes();
            let note = notes.as_ref().and_then(|notes| notes.by_path.get(path)).filter(|note| note.file == before);
            if let Some(note) = note.filter(|note| note.is_recent() || (trust && is_fresh(note, now))) {
                return Ok((note.digest, found));
            }
        }
        let digest = fsio::digest_of(&mut file).map_err(OpError::path("read", path))?;
        if before.size >= LARGE && before.is_settled(now) && Identity::of(&look(&file)?) == before {
            let mut notes = self.notes();
            let notes = notes.get_or_insert_default();
            notes.unsaved = true;
            notes.by_path.insert(
                path.to_owned(),
                Note { file: before, digest, read_ms: millis(now), read_here: Some(Instant::now()) },
            );
        }
        Ok((digest, found))
    }

    /// Writes new entries to disk. If that fails, the files are only read again.
    pub(crate) fn save(&self) {
        let mut notes = self.notes();
        let Some(notes) = notes.as_mut().filter(|notes| notes.unsaved) else { return };
        let now = now();
        notes.by_path.retain(|_, note| is_fresh(note, now));
        if self.write(&notes.by_path).is_ok() {
            notes.unsaved = false;
        }
    }

    fn write(&self, notes: &BTreeMap<PathBuf, Note>) -> std::io::Result<()> {
        let folder = fsio::make_parent(&self.path).map_err(std::io::Error::other)?;
        // Readable and writable by this user alone.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec(notes)?)?;
        file.persist(&self.path).map(drop).map_err(|error| error.error)
    }

    /// The entries, read from disk on first use. A file that another user could have written is ignored.
    fn notes(&self) -> MutexGuard<'_, Option<Notes>> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.is_none() {
            let ours = fs::symlink_metadata(&self.path).is_ok_and(|found| {
                let own = rustix::process::geteuid().as_raw();
                found.is_file() && found.uid() == own && found.permissions().mode() & 0o022 == 0
            });
            let bytes = if ours { fs::read(&self.path).unwrap_or_default() } else { Vec::new() };
            let by_path = serde_json::from_slice(&bytes).unwrap_or_default();
            *notes = Some(Notes { by_path, unsaved: false });
        }
        notes
    }
}

/// An entry from the future is invalid: the clock was set back.
fn is_fresh(note: &Note, now: Duration) -> bool {
    now.checked_sub(Duration::from_millis(note.read_ms)).is_some_and(|age| age < TRUSTED)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;

    use super::*;

    /// Creates a file that is old enough to be cached.
    fn program(folder: &Path, bytes: &[u8]) -> PathBuf {
        let path = folder.join("program");
        fs::write(&path, bytes).unwrap();
        while !Identity::of(&path.metadata().unwrap()).is_settled(now()) {
            std::thread::sleep(TICK / 10);
        }
        path
    }

    fn large(byte: u8) -> Vec<u8> {
        vec![byte; 100 << 10]
    }

    /// The digest that another run's survey uses.
    fn trusted(folder: &Path, path: &Path) -> Digest {
        DigestCache::below(folder).digest(File::open(path).unwrap(), path, true).unwrap().0
    }

    /// Changes the digest in the entry, to detect its use.
    fn forge(folder: &Path, digest: Digest) {
        let recorded = DigestCache::below(folder);
        recorded.notes().as_mut().unwrap().by_path.values_mut().for_each(|note| note.digest = digest);
        recorded.notes().as_mut().unwrap().unsaved = true;
        recorded.save();
    }

    #[test]
    fn a_changed_byte_is_found_though_size_and_mtime_are_set_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = program(folder.path(), &large(1));
        let recorded = DigestCache::below(folder.path());
        recorded.digest(File::open(&path).unwrap(), &path, false).unwrap();
        recorded.save();
        let was = path.metadata().unwrap();
        let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all(&[2]).unwrap();
        file.set_times(FileTimes::new().set_modified(was.modified().unwrap())).unwrap();
        drop(file);
        let is = path.metadata().unwrap();
        assert_eq!((is.len(), is.mtime(), is.mtime_nsec()), (was.len(), was.mtime(), was.mtime_nsec()));
        let mut bytes = large(1);
        bytes[0] = 2;
        assert_eq!(recorded.digest(File::open(&path).unwrap(), &path, true).unwrap().0, Digest::of(&bytes));
        assert_eq!(trusted(folder.path(), &path), Digest::of(&bytes));
    }

    #[test]
    fn only_surveys_use_cached_digests_of_the_same_file_and_for_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let path = program(folder.path(), &large(1));
        let recorded = DigestCache::below(folder.path());
        recorded.digest(File::open(&path).unwrap(), &path, false).unwrap();
        recorded.save();
        let forged = Digest::of("forged");
        forge(folder.path(), forged);
        assert_eq!(trusted(folder.path(), &path), forged, "it was read again");
        assert_eq!(
            DigestCache::below(folder.path()).digest(File::open(&path).unwrap(), &path, false).unwrap().0,
            Digest::of(large(1))
        );
        let old = DigestCache::below(folder.path());
        for note in old.notes().as_mut().unwrap().by_path.values_mut() {
            note.read_ms -= millis(TRUSTED);
        }
        assert_eq!(
            old.digest(File::open(&path).unwrap(), &path, true).unwrap().0,
            Digest::of(large(1)),
            "a note of yesterday was trusted"
        );
        // The same content under another inode.
        let copy = folder.path().join("copy");
        fs::copy(&path, &copy).unwrap();
        fs::rename(&copy, &path).unwrap();
        assert_eq!(trusted(folder.path(), &path), Digest::of(large(1)), "a note of another file was trusted");
    }

    #[test]
    fn before_a_change_only_what_this_process_has_just_read_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = program(folder.path(), &large(1));
        let cache = DigestCache::below(folder.path());
        let look = || cache.digest(File::open(&path).unwrap(), &path, false).unwrap().0;
        assert_eq!(look(), Digest::of(large(1)));
        let set = |change: &dyn Fn(&mut Note)| cache.notes().as_mut().unwrap().by_path.values_mut().for_each(change);
        let forged = Digest::of("forged");
        set(&|note| note.digest = forged);
        assert_eq!(look(), forged, "it was read twice within a step");
        set(&|note| note.read_here = Instant::now().checked_sub(RECENT));
        assert_eq!(look(), Digest::of(large(1)), "what was read long ago was used");
        set(&|note| (note.digest, note.read_here) = (forged, None));
        assert_eq!(look(), Digest::of(large(1)), "what another process has read was used");
        // The same size and time of modification, other content.
        set(&|note| note.digest = forged);
        let was = path.metadata().unwrap().modified().unwrap();
        fs::write(&path, large(2)).unwrap();
        File::options().write(true).open(&path).unwrap().set_times(FileTimes::new().set_modified(was)).unwrap();
        assert_eq!(look(), Digest::of(large(2)), "a file that was written to since was not read");
    }

    #[test]
    fn cache_entries_that_others_may_write_to_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = program(folder.path(), &large(1));
        let recorded = DigestCache::below(folder.path());
        recorded.digest(File::open(&path).unwrap(), &path, false).unwrap();
        recorded.save();
        forge(folder.path(), Digest::of("forged"));
        fs::set_permissions(&recorded.path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(trusted(folder.path(), &path), Digest::of(large(1)));
    }

    #[test]
    fn the_digest_of_a_just_written_file_is_not_cached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, large(1)).unwrap();
        let fresh = Identity::of(&path.metadata().unwrap());
        let (seconds, nanoseconds) = fresh.changed;
        let changed = Duration::new(u64::try_from(seconds).unwrap(), u32::try_from(nanoseconds).unwrap());
        assert!(!fresh.is_settled(changed), "a second write in the same tick would not show");
        assert!(!fresh.is_settled(changed - TICK), "the clock was set back");
        assert!(fresh.is_settled(changed + TICK * 2));
        let whole = Identity { changed: (seconds, 0), ..fresh };
        assert!(!whole.is_settled(Duration::from_secs(u64::try_from(seconds).unwrap()) + TICK * 2));
    }
}
