//! Looking after a store: what has not been used for long is removed, what is damaged too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use kubexm_spec::Digest;
use rustix::fs::FlockOperation;

use crate::TransportError;
use crate::store::Store;

/// What may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Blobs and unfinished files that nobody has used for so long.
    pub age: Option<Duration>,
    /// The least recently used, until the blobs take no more bytes than this.
    pub size: Option<u64>,
    /// Nothing is removed, only reported.
    pub dry_run: bool,
}

/// What a collection of garbage did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Blobs that were removed, with their size in bytes, least recently used first.
    pub removed: Vec<(Digest, u64)>,
    /// Unfinished files that were removed, and their bytes.
    pub unfinished: (usize, u64),
    /// Blobs that stay, and their bytes.
    pub kept: (usize, u64),
    /// Of those, blobs that would go if no running build used the store.
    pub in_use: (usize, u64),
}

/// What was found by hashing every blob again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Whole blobs, and their bytes.
    pub whole: (usize, u64),
    /// Blobs that were not what their name says; they were removed, so that they are fetched anew.
    pub damaged: Vec<Digest>,
    /// Files that no blob is named like; they are left alone.
    pub strange: Vec<PathBuf>,
}

struct Found {
    digest: Digest,
    size: u64,
    used: SystemTime,
}

impl Store {
    /// Removes what the limits let go of, never what a running build has found or put there.
    pub fn collect(&self, limits: &Limits) -> Result<Collected, TransportError> {
        let _turn = self.turn(FlockOperation::LockExclusive)?;
        let now = SystemTime::now();
        let since = self.used_since()?;
        let held = |used: SystemTime| since.is_some_and(|since| used >= since);
        let old =
            |used: SystemTime| limits.age.is_some_and(|age| now.duration_since(used).is_ok_and(|unused| unused > age));
        let (mut blobs, _) = self.all()?;
        blobs.sort_by_key(|blob| (blob.used, blob.digest));
        let mut left: u64 = blobs.iter().map(|blob| blob.size).sum();
        let mut collected = Collected::default();
        let count = |sum: &mut (usize, u64), size| *sum = (sum.0 + 1, sum.1 + size);
        for Found { digest, size, used } in blobs {
            let goes = old(used) || limits.size.is_some_and(|most| left > most);
            if goes && !held(used) {
                if !limits.dry_run {
                    remove(&self.path(&digest))?;
                }
                left -= size;
                collected.removed.push((digest, size));
                continue;
            }
            count(&mut collected.kept, size);
            if goes {
                count(&mut collected.in_use, size);
            }
        }
        for (path, size, used) in files(&self.partials())? {
            // Locked while it is written; one that nobody writes is what a killed build left.
            let key = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".part"));
            let Some(key) = key.filter(|_| old(used) && !held(used)) else { continue };
            let Some(partial) = self.try_partial(key)? else { continue };
            count(&mut collected.unfinished, size);
            if !limits.dry_run {
                partial.discard()?;
            }
        }
        if !limits.dry_run {
            crate::store::sync_dir(&self.blobs())?;
        }
        Ok(collected)
    }

    /// Hashes every blob again, on so many threads; damaged ones are removed. `progress` gets bytes done and in all.
    pub fn check(&self, threads: usize, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Checked, TransportError> {
        let (mut blobs, strange) = self.all()?;
        // The largest first, so that the threads end together.
        blobs.sort_by_key(|blob| (std::cmp::Reverse(blob.size), blob.digest));
        let total = blobs.iter().map(|blob| blob.size).sum();
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let result = Mutex::new(Ok(Checked { strange, ..Checked::default() }));
        std::thread::scope(|scope| {
            for _ in 0..threads.clamp(1, blobs.len().max(1)) {
                scope.spawn(|| {
                    while let Some(blob) = blobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let whole = self.verify(&blob.digest);
                        progress(done.fetch_add(blob.size, Ordering::Relaxed) + blob.size, total);
                        let mut result = result.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        match (whole, &mut *result) {
                            (Ok(true), Ok(checked)) => {
                                checked.whole = (checked.whole.0 + 1, checked.whole.1 + blob.size);
                            }
                            (Ok(false), Ok(checked)) => checked.damaged.push(blob.digest),
                            (Err(error), Ok(_)) => *result = Err(error),
                            (_, Err(_)) => return,
                        }
                    }
                });
            }
        });
        let mut checked = result.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)?;
        checked.damaged.sort();
        Ok(checked)
    }

    /// Every blob, and files that are none.
    fn all(&self) -> Result<(Vec<Found>, Vec<PathBuf>), TransportError> {
        let (mut blobs, mut strange) = (Vec::new(), Vec::new());
        for (path, size, used) in files(&self.blobs())? {
            match path.file_name().and_then(|name| Digest::from_hex(name.to_str()?).ok()) {
                Some(digest) => blobs.push(Found { digest, size, used }),
                None => strange.push(path),
            }
        }
        strange.sort();
        Ok((blobs, strange))
    }
}

/// Files of a folder with their size in bytes, and when they were last used. One that goes meanwhile is none.
fn files(folder: &Path) -> Result<Vec<(PathBuf, u64, SystemTime)>, TransportError> {
    let failed = |e| TransportError::disk("read", folder, None, e);
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(meta) = entry.metadata() else { continue };
        if meta.is_file() {
            all.push((entry.path(), meta.len(), meta.modified().unwrap_or(SystemTime::UNIX_EPOCH)));
        }
    }
    Ok(all)
}

fn remove(path: &Path) -> Result<(), TransportError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(TransportError::disk("remove", path, None, error)),
        _ => Ok(()),
    }
}
