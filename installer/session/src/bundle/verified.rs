//! A cache of the bundle files that were verified completely, so that later runs need not read them again.
//!
//! An entry is valid only for exactly the same files: path, device, inode, times, size and the manifest's digest. Where
//! the file system does not keep these reliably, or its medium can be changed on another machine, there is no entry.

use std::borrow::Cow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use kubexm_archive::Bundle;
use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::error::SessionError;
use crate::file_system::{FileSystems, unreliable};
use crate::files;
use crate::medium::Medium;

/// Metadata of the files of a bundle, and of the bases of a delta, when they were verified.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VerifiedFiles {
    files: Vec<Seen>,
    manifest: Digest,
}

/// One file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Seen {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// Last change of the content, in nanoseconds since 1970.
    modified: i128,
    /// Last change of content or metadata (ctime), which users cannot set.
    changed: i128,
    size: u64,
}

impl VerifiedFiles {
    /// The current metadata of the files.
    pub fn look(bundle: &Bundle) -> Result<Self, SessionError> {
        let all = std::iter::once(bundle).chain(bundle.bases()).flat_map(Bundle::files);
        let files = all.map(|path| Seen::look(&path)).collect::<Result<_, _>>()?;
        Ok(Self { files, manifest: bundle.manifest_digest() })
    }

    /// The name of the first file system or medium whose metadata do not show that a file was replaced; none if all of them do. What is
    /// on the file system of `home` is the operator's own.
    pub fn unreliable(
        &self,
        file_systems: &dyn FileSystems,
        home: &Path,
    ) -> Result<Option<Cow<'static, str>>, SessionError> {
        for file in &self.files {
            let failed = |error| SessionError::disk("examine the file system of", &file.path, &error);
            if let Some(name) = unreliable(file_systems.magic(&file.path).map_err(failed)?) {
                return Ok(Some(name));
            }
            match file_systems.medium(&file.path, home).map_err(failed)? {
                Medium::Fixed => {}
                Medium::Removable => return Ok(Some(Cow::Borrowed("a removable disk"))),
                Medium::Unknown => return Ok(Some(Cow::Borrowed("a disk that may not be in this machine"))),
            }
        }
        Ok(None)
    }

    /// Whether exactly these files were verified before. An unreadable entry does not count.
    pub fn is_noted(&self, folder: &Path) -> bool {
        let recorded =
            std::fs::read(self.note(folder)).ok().and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        recorded.is_some_and(|recorded| recorded == *self)
    }

    /// Writes the entry.
    pub fn keep(&self, folder: &Path) -> Result<(), SessionError> {
        let path = self.note(folder);
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| SessionError::disk("write", &path, &error))?;
        files::write_private(&path, &bytes)
    }

    fn note(&self, folder: &Path) -> PathBuf {
        let names: Vec<&[u8]> = self.files.iter().map(|file| file.path.as_os_str().as_encoded_bytes()).collect();
        folder.join(format!("{}.json", Digest::of(names.join(&b'\n')).hex()))
    }
}

impl Seen {
    fn look(path: &Path) -> Result<Self, SessionError> {
        let failed = |error: std::io::Error| SessionError::disk("examine", path, &error);
        let path = path.canonicalize().map_err(failed)?;
        let metadata = path.metadata().map_err(failed)?;
        let nanoseconds = |seconds, rest| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            size: metadata.len(),
            path,
        })
    }
}
