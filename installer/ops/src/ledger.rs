//! The node's ledger: the state before every step's change, and the content that it overwrote.
//!
//! With it a node can be restored from another controller if the first one is lost. Folder 0700, files 0600; every
//! record and every content is fsynced before the change that it belongs to.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use kubexm_plan::StepId;
pub use kubexm_plan::ledger::{Outcome, Record, SCHEMA};
use kubexm_spec::Digest;
use rustix::fs::FileType;

use crate::OpError;
use crate::digest_cache::DigestCache;
use crate::dirfd::DirFd;
use crate::fsio;

/// The ledger's folder.
#[derive(Clone, Debug)]
pub struct Ledger {
    folder: PathBuf,
}

impl Ledger {
    /// The ledger in this folder, which is created on the first write.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(crate) fn records_path(&self) -> PathBuf {
        self.folder.join("records.jsonl")
    }

    fn content_path(&self, digest: &Digest) -> PathBuf {
        self.folder.join("content").join(digest.hex())
    }

    /// Saves the content of a file under its digest, which may just have been read; none for links and missing files. No folder on the way may be a link that
    /// somebody other than root can have made: its content could be of a file that this user may not read.
    pub(crate) fn keep(&self, path: &Path, digests: &DigestCache) -> Result<Option<Digest>, OpError> {
        let Some((folder, name)) = fsio::there(DirFd::of(path))? else { return Ok(None) };
        let found = folder.entry(name).map_err(OpError::path("look at", path))?;
        if !found.is_some_and(|found| FileType::from_raw_mode(found.st_mode).is_file()) {
            return Ok(None);
        }
        // The same open file is used throughout, even if the path is replaced meanwhile.
        let mut source = folder.open_file(name).map_err(OpError::path("open", path))?;
        let read = source.try_clone().map_err(OpError::path("open", path))?;
        let (digest, _) = digests.digest(read, path, false)?;
        self.store(&digest, |copy| {
            source.rewind().map_err(OpError::path("read", path))?;
            std::io::copy(&mut source, copy.as_file_mut()).map_err(OpError::path("keep a copy of", path))?;
            // The file may be written to during the copy: then the copy does not match the observed state.
            if fsio::digest(copy.path())? != digest {
                return Err(OpError::other(format!("{} changed while it was being copied; run again", path.display())));
            }
            Ok(())
        })?;
        Ok(Some(digest))
    }

    /// Saves bytes that are not in a file under their digest.
    pub fn keep_bytes(&self, bytes: &[u8]) -> Result<Digest, OpError> {
        let digest = Digest::of(bytes);
        self.store(&digest, |copy| copy.write_all(bytes).map_err(OpError::path("write", copy.path())))?;
        Ok(digest)
    }

    /// Stores a content atomically and synced.
    fn store(
        &self,
        digest: &Digest,
        write: impl FnOnce(&mut tempfile::NamedTempFile) -> Result<(), OpError>,
    ) -> Result<(), OpError> {
        let kept = self.content_path(digest);
        if kept.is_file() {
            return Ok(());
        }
        let folder = make_private(kept.parent().unwrap_or(&self.folder))?;
        let mut temporary = tempfile::Builder::new()
            .prefix(".new-")
            .tempfile_in(&folder)
            .map_err(OpError::path("make a temporary file in", &folder))?;
        write(&mut temporary)?;
        temporary.as_file().sync_all().map_err(OpError::path("sync", &kept))?;
        temporary.persist(&kept).map_err(|error| OpError::path("keep", &kept)(error.error))?;
        fsio::sync_folder(&folder)
    }

    /// Content that was saved earlier.
    pub fn content(&self, digest: &Digest) -> Result<Vec<u8>, OpError> {
        let path = self.content_path(digest);
        let bytes = fsio::read(&path)?.ok_or_else(|| {
            OpError::other(format!(
                "the node's ledger has no copy of the old content {digest}; put the file back by hand"
            ))
        })?;
        if Digest::of(&bytes) != *digest {
            return Err(OpError::other(format!(
                "{} no longer has the digest in its name: the node's disk is failing, or the file was changed; put the old content back by hand",
                path.display()
            )));
        }
        Ok(bytes)
    }

    /// Appends a record and waits until it is on disk. An incomplete last line from a crash is cut off first.
    ///
    /// Steps of one host run in parallel, in threads or in several agents: the file is locked during a write (flock(2),
    /// which the kernel releases after a crash), since otherwise another writer's incomplete line would be cut off.
    pub fn append(&self, record: &Record) -> Result<(), OpError> {
        make_private(&self.folder)?;
        let path = self.records_path();
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(OpError::path("open", &path))?;
        file.lock().map_err(OpError::path("lock", &path))?;
        let whole = whole_length(&fs::read(&path).map_err(OpError::path("read", &path))?);
        file.set_len(whole).map_err(OpError::path("fix", &path))?;
        file.seek(SeekFrom::End(0)).map_err(OpError::path("read", &path))?;
        let mut line = serde_json::to_vec(record)
            .map_err(|error| OpError::other(format!("a ledger record cannot be written as JSON: {error}")))?;
        line.push(b'\n');
        file.write_all(&line).and_then(|()| file.sync_all()).map_err(OpError::path("write", &path))?;
        if whole == 0 { fsio::sync_folder(&self.folder) } else { Ok(()) }
    }

    /// All records in order. An incomplete last line from a crash is ignored; any other invalid line is an error.
    pub fn records(&self) -> Result<Vec<Record>, OpError> {
        let path = self.records_path();
        let bytes = fsio::read(&path)?.unwrap_or_default();
        let whole = usize::try_from(whole_length(&bytes)).unwrap_or(bytes.len());
        bytes[..whole]
            .split(|byte| *byte == b'\n')
            .enumerate()
            .filter(|(_, line)| !line.is_empty())
            .map(|(index, line)| {
                serde_json::from_slice(line).map_err(|error| {
                    if let Some(schema) = later_schema(line) {
                        return OpError::other(format!(
                            "{}, line {} is of schema {schema}, and this program knows up to {SCHEMA}: a later version of \
                             kubexm-install wrote it; use that one",
                            path.display(),
                            index + 1
                        ));
                    }
                    OpError::other(format!(
                        "{}, line {} cannot be read: {error}; was it changed by hand, or is the node's disk failing?",
                        path.display(),
                        index + 1
                    ))
                })
            })
            .collect()
    }

    /// The state before the first attempt of a step in a run: later attempts find their own half-done work.
    pub fn before(&self, run: &str, step: &StepId) -> Result<Option<Record>, OpError> {
        Ok(self.records()?.into_iter().find(|record| record.run == run && record.step == *step))
    }

    /// Whether a recorded op has ever written a path.
    pub fn made(&self, path: &str) -> bool {
        let Ok(Some(text)) = fsio::read_text(&self.records_path()) else { return false };
        text.contains(&format!("\"{path}\""))
    }
}

/// The schema of a record that a later program wrote.
fn later_schema(line: &[u8]) -> Option<u64> {
    let record: serde_json::Value = serde_json::from_slice(line).ok()?;
    record.get("schema")?.as_u64().filter(|schema| *schema > u64::from(SCHEMA))
}

fn whole_length(bytes: &[u8]) -> u64 {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at as u64 + 1)
}

fn make_private(folder: &Path) -> Result<PathBuf, OpError> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(OpError::path("make the folder", folder))?;
    Ok(folder.to_owned())
}
