//! The content-addressed store: a folder of whole blobs, each under the name of its digest.
//!
//! A file is under its final name only when all of it is on disk and its digest was computed over what was written, so a
//! kill at any moment leaves whole blobs and unfinished files in `partial/`, nothing else. Several programs may use one
//! store at once. The API is synchronous; the network side calls it from blocking tasks.
//!
//! ```text
//! blobs/sha256/<hex>     whole blobs
//! partial/<key>.part     unfinished, locked by whoever writes it; <key>.json says where it came from
//! partial/insert-*       unfinished copies from a reader, small files on their way; swept when a day old
//! facts/<hex>            small things noted under a key
//! leases/run-*           locked as long as a program uses the store, see `lease.rs`
//! turn                   locked while blobs are looked at (shared) or removed (exclusive); dated, see `lease.rs`
//! ```
//!
//! The date of a blob is when it was last used.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;

use crate::TransportError;

/// How old an abandoned copy must be before a later program removes it.
const SWEEP_AGE: Duration = Duration::from_secs(24 * 3600);
/// Bytes read from a reader at a time.
const CHUNK: usize = 1 << 20;

/// Where a file is from that a zone's folder of this machine had: the folder is nobody else's.
pub const LOCAL_FOLDER: &str = "a local folder";

/// A content-addressed store in a folder. Cheap to clone; clones and other processes may share the folder.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    /// Whether it is noted where blobs are from.
    remembers: bool,
}

impl Store {
    /// Opens the store in `root`, making the folders that are missing.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, TransportError> {
        let store = Self { root: root.into(), remembers: false };
        for dir in [store.blobs(), store.partials(), store.facts(), store.leases()] {
            fs::create_dir_all(&dir).map_err(|e| TransportError::disk("make the folder", &dir, None, e))?;
        }
        store.sweep();
        Ok(store)
    }

    /// The same store, in which it is noted where each blob is from. A node's is not: it is taken away whole.
    #[must_use]
    pub fn remembering(self) -> Self {
        Self { remembers: true, ..self }
    }

    /// The folder it is in.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where a blob is, or would be.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(digest.hex())
    }

    /// Whether the blob is here. Its content was checked when it was put here; see [`Store::holds`] and [`Store::verify`].
    pub fn contains(&self, digest: &Digest) -> bool {
        self.used(digest).is_some()
    }

    /// Size of a blob that is used from now on: no garbage collection takes it before this run ends (see [`Store::lease`]).
    fn used(&self, digest: &Digest) -> Option<u64> {
        let path = self.path(digest);
        let size = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?.len();
        let Some(turn) = self.turn_to_look() else { return Some(size) };
        // It may have gone while we waited for our turn.
        turn.used(&File::open(&path).ok()?);
        Some(size)
    }

    /// Size of a blob in bytes; none when it is not here.
    pub fn size(&self, digest: &Digest) -> Option<u64> {
        fs::metadata(self.path(digest)).ok().filter(fs::Metadata::is_file).map(|meta| meta.len())
    }

    /// Whether the blob is here with this size. A blob of another size on disk is hashed again, and removed when damaged.
    pub fn holds(&self, digest: &Digest, size: u64) -> Result<bool, TransportError> {
        match self.used(digest) {
            Some(found) if found == size => Ok(true),
            Some(_) => {
                self.verify(digest)?;
                Ok(false)
            }
            None => Ok(false),
        }
    }

    /// Opens a blob for reading.
    pub fn open_blob(&self, digest: &Digest) -> Result<File, TransportError> {
        let path = self.path(digest);
        File::open(&path).map_err(|e| TransportError::disk("open", &path, None, e))
    }

    /// All of a small blob (a manifest, an index); `limit` is in bytes.
    pub fn read(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>, TransportError> {
        let path = self.path(digest);
        let file = self.open_blob(digest)?;
        // All at once: memory that grows is cleared and copied several times, and an index of packages has fifty megabytes.
        let size = file.metadata().map_or(0, |meta| meta.len().min(limit));
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| TransportError::disk("read", &path, None, e))?;
        if bytes.len() as u64 > limit {
            let source = io::Error::other(format!("it is larger than the {limit} bytes that such a blob may have"));
            return Err(TransportError::disk("read", &path, None, source));
        }
        Ok(bytes)
    }

    /// Copies a reader into the store, hashing on the way. The reader is always read to its end. A digest other than
    /// `expected` leaves nothing behind.
    pub fn insert(&self, mut reader: impl Read, expected: Option<Digest>) -> Result<(Digest, u64), TransportError> {
        let dir = self.partials();
        let mut temporary = tempfile::Builder::new()
            .prefix("insert-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(&dir)
            .map_err(|e| TransportError::disk("make a file in", &dir, None, e))?;
        let path = temporary.path().to_owned();
        let failed = |e| TransportError::disk("write", &path, None, e);
        let (mut hasher, mut size, mut buffer) = (Hasher::default(), 0, vec![0; CHUNK]);
        loop {
            let read = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(TransportError::disk("read what should become", &path, None, error)),
            };
            hasher.update(&buffer[..read]);
            temporary.write_all(&buffer[..read]).map_err(failed)?;
            size += read as u64;
        }
        let found = hasher.finish();
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            let origin = "the source of this copy".to_owned();
            return Err(TransportError::Mismatch { origin, expected, found });
        }
        temporary.as_file().sync_all().map_err(failed)?;
        let target = self.path(&found);
        let turn = self.turn_to_look();
        if let Some(turn) = &turn {
            turn.used(temporary.as_file());
        }
        temporary.persist(&target).map_err(|e| TransportError::disk("rename to", &target, None, e.error))?;
        sync_dir(&self.blobs())?;
        Ok((found, size))
    }

    /// Brings the names of all blobs to the disk. A blob whose name is not there after a power cut is lost.
    pub fn sync_names(&self) -> Result<(), TransportError> {
        sync_dir(&self.blobs())
    }

    /// Hashes a blob again. True when it is here and whole; a damaged one is removed, so that it is fetched anew.
    pub fn verify(&self, digest: &Digest) -> Result<bool, TransportError> {
        let path = self.path(digest);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(TransportError::disk("open", &path, None, error)),
        };
        let mut hasher = Hasher::default();
        io::copy(&mut file, &mut hasher).map_err(|e| TransportError::disk("read", &path, None, e))?;
        if hasher.finish() == *digest {
            return Ok(true);
        }
        tracing::warn!(path = %path.display(), "a damaged blob is removed");
        fs::remove_file(&path).map_err(|e| TransportError::disk("remove", &path, None, e))?;
        sync_dir(&self.blobs())?;
        Ok(false)
    }

    /// Notes a small fact under a key, replacing what was noted before. What may change (what a tag points at, a published
    /// checksum) is read again in a run without a network only. Not synced: what a power cut takes is asked for again.
    pub fn note(&self, key: &str, value: &str) -> Result<(), TransportError> {
        if self.recorded(key)?.as_deref() == Some(value) {
            return Ok(());
        }
        self.write_loose(&self.fact(key), value.as_bytes())
    }

    /// What was noted under a key.
    pub fn recorded(&self, key: &str) -> Result<Option<String>, TransportError> {
        let path = self.fact(key);
        match fs::read_to_string(&path) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(TransportError::disk("read", &path, None, error)),
        }
    }

    /// Notes at which place a blob was fetched. What cannot be noted is not known later, and does no other harm.
    pub(crate) fn note_from(&self, digest: &Digest, place: &str) {
        if !self.remembers {
            return;
        }
        if let Err(error) = self.note(&from_key(digest), place) {
            tracing::warn!(%error, "the source of a blob could not be recorded");
        }
    }

    /// At which place a blob was fetched: an address without its query, the repository of an image, or [`LOCAL_FOLDER`]. None of what
    /// was copied from this machine or fetched by a program that did not note it.
    pub fn came_from(&self, digest: &Digest) -> Option<String> {
        self.recorded(&from_key(digest)).ok().flatten()
    }

    /// Writes a small file of the store by a temporary file and a rename, without fsync: a kill leaves it whole or as it was, a
    /// power cut may leave it empty. What a kill leaves is in `partial/`, where it is swept.
    pub(crate) fn write_loose(&self, path: &Path, bytes: &[u8]) -> Result<(), TransportError> {
        let failed = |e| TransportError::disk("write", path, Some(bytes.len() as u64), e);
        let mut temporary = tempfile::Builder::new().prefix("insert-").tempfile_in(self.partials()).map_err(failed)?;
        temporary.write_all(bytes).map_err(failed)?;
        temporary.persist(path).map(drop).map_err(|e| failed(e.error))
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.root.join("blobs/sha256")
    }

    pub(crate) fn partials(&self) -> PathBuf {
        self.root.join("partial")
    }

    fn facts(&self) -> PathBuf {
        self.root.join("facts")
    }

    fn fact(&self, key: &str) -> PathBuf {
        self.facts().join(Digest::of(key).hex())
    }

    /// Removes copies that a killed program left. A copy in progress has a young mtime. Failing is harmless.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(self.partials()) else { return };
        let Some(limit) = SystemTime::now().checked_sub(SWEEP_AGE) else { return };
        for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("insert-")) {
            if entry.metadata().and_then(|meta| meta.modified()).is_ok_and(|time| time < limit) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn from_key(digest: &Digest) -> String {
    format!("from {digest}")
}

/// Makes a rename in `dir` survive a power cut.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), TransportError> {
    File::open(dir).and_then(|d| d.sync_all()).map_err(|e| TransportError::disk("sync the folder", dir, None, e))
}
