//! An unfinished blob: a `.part` file that one writer at a time holds, and that the next one continues with.

use std::fs::{self, File, FileTimes, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;
use serde::{Deserialize, Serialize};

use crate::TransportError;
use crate::store::Store;

/// Where the bytes of a `.part` file came from, so that they are only resumed when that is still the same thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Came {
    /// The address.
    pub url: String,
    /// The strong entity tag that the origin gave (RFC 9110, 8.8.3).
    pub etag: Option<String>,
}

/// A locked `.part` file. Dropping it lets go of the lock and keeps the bytes for the next one; an empty one is removed.
pub struct Partial {
    store: Store,
    path: PathBuf,
    file: File,
    hasher: Hasher,
    length: u64,
    finished: bool,
}

impl Store {
    /// The unfinished file of a key (a blob's hex digest, or any name of letters, digits, `-` and `.`), once no one else
    /// writes it. Waits for that; whoever waited looks for the blob first.
    pub fn partial(&self, key: &str) -> Result<Partial, TransportError> {
        Partial::lock(self, key)
    }

    /// Bytes of a blob that an earlier run has fetched.
    pub fn partial_size(&self, digest: &Digest) -> u64 {
        fs::metadata(self.partials().join(format!("{}.part", digest.hex()))).map_or(0, |found| found.len())
    }

    /// Like [`Store::partial`], but none when someone else writes it now.
    pub fn try_partial(&self, key: &str) -> Result<Option<Partial>, TransportError> {
        Partial::try_lock(self, key)
    }
}

impl Partial {
    pub(crate) fn lock(store: &Store, key: &str) -> Result<Self, TransportError> {
        loop {
            let (path, file) = open(store, key)?;
            file.lock().map_err(|e| TransportError::disk("lock", &path, None, e))?;
            if still_named(&file, &path) {
                return Self::resume(store, path, file);
            }
        }
    }

    pub(crate) fn try_lock(store: &Store, key: &str) -> Result<Option<Self>, TransportError> {
        loop {
            let (path, file) = open(store, key)?;
            match file.try_lock() {
                Ok(()) if still_named(&file, &path) => return Self::resume(store, path, file).map(Some),
                // The one before us finished between our opening and our locking: what we hold is the blob itself.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(TransportError::disk("lock", &path, None, e)),
            }
        }
    }

    /// Hashes what is already there: a part file is never trusted without that.
    fn resume(store: &Store, path: PathBuf, mut file: File) -> Result<Self, TransportError> {
        let mut hasher = Hasher::default();
        let length = io::copy(&mut file, &mut hasher).map_err(|e| TransportError::disk("read", &path, None, e))?;
        Ok(Self { store: store.clone(), path, file, hasher, length, finished: false })
    }

    /// Bytes that are there.
    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds bytes at the end. `wanted` is the whole size, to say how much is missing on a full disk.
    pub fn write(&mut self, bytes: &[u8], wanted: Option<u64>) -> Result<(), TransportError> {
        if let Err(error) = self.file.write_all(bytes) {
            // Some of the bytes may be there: the file is cut back to what was hashed.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            let needed = wanted.map(|wanted| wanted.saturating_sub(self.length));
            return Err(TransportError::disk("write", &self.path, needed, error));
        }
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Drops every byte, to begin again.
    pub fn clear(&mut self) -> Result<(), TransportError> {
        self.file
            .set_len(0)
            .and_then(|()| self.file.seek(SeekFrom::Start(0)))
            .map_err(|e| TransportError::disk("truncate", &self.path, None, e))?;
        self.hasher = Hasher::default();
        self.length = 0;
        Ok(())
    }

    /// The digest of what is there.
    pub fn digest(&self) -> Digest {
        self.hasher.clone().finish()
    }

    /// Where the bytes came from; none when that is not known.
    pub fn came(&self) -> Option<Came> {
        let mut text = String::new();
        File::open(self.side()).ok()?.take(64 << 10).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Notes where the bytes come from.
    pub fn note_came(&self, came: &Came) -> Result<(), TransportError> {
        let side = self.side();
        let json = serde_json::to_vec(came).map_err(|e| TransportError::disk("write", &side, None, e.into()))?;
        // Not synced: after a power cut, where the bytes came from is simply not known.
        self.store.write_loose(&side, &json)
    }

    /// Makes a blob of it. The bytes are on disk before the name is. The name is not waited for: one that is lost with the
    /// power is fetched again, and waiting takes as long as fetching a small file does. Who says that the blob is safe calls
    /// [`Store::sync_names`] first.
    pub fn commit(mut self) -> Result<(Digest, u64), TransportError> {
        let digest = self.digest();
        let target = self.store.path(&digest);
        // It may have been whole since an earlier run; it is used from now on.
        let turn = self.store.turn_to_look();
        match &turn {
            Some(turn) => turn.used(&self.file),
            None => drop(self.file.set_times(FileTimes::new().set_modified(SystemTime::now()))),
        }
        self.file.sync_all().map_err(|e| TransportError::disk("sync", &self.path, None, e))?;
        fs::rename(&self.path, &target).map_err(|e| TransportError::disk("rename to", &target, None, e))?;
        self.finished = true;
        let _ = fs::remove_file(self.side());
        Ok((digest, self.length))
    }

    /// Deletes it.
    pub fn discard(mut self) -> Result<(), TransportError> {
        self.finished = true;
        self.remove().map_err(|e| TransportError::disk("remove", &self.path, None, e))
    }

    fn remove(&self) -> io::Result<()> {
        let _ = fs::remove_file(self.side());
        fs::remove_file(&self.path)
    }

    fn side(&self) -> PathBuf {
        self.path.with_extension("json")
    }
}

impl std::fmt::Debug for Partial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Partial").field("path", &self.path).field("length", &self.length).finish_non_exhaustive()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.finished && self.length == 0 {
            let _ = self.remove();
        }
    }
}

fn open(store: &Store, key: &str) -> Result<(PathBuf, File), TransportError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if key.is_empty() || key.starts_with('.') || !key.chars().all(plain) {
        let problem = "a part file's name may have letters, digits, `-` and `.` only".to_owned();
        return Err(TransportError::Setting { what: format!("{key:?}"), problem });
    }
    // Not with_extension: a key may itself hold a dot.
    let path = store.partials().join(format!("{key}.part"));
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    file.map(|file| (path.clone(), file)).map_err(|e| TransportError::disk("open", &path, None, e))
}

/// Whether the locked file still has that name: the one who held the lock may have renamed or removed it.
fn still_named(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(named)) => ours.dev() == named.dev() && ours.ino() == named.ino(),
        _ => false,
    }
}
