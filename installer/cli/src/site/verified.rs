//! A note of which bundle files were read whole and found right, so that later runs need not read them again.
//!
//! It is believed only for the very same file: path, device, inode, times, size and the manifest's digest.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use kubexm_archive::Bundle;
use kubexm_spec::Digest;
use kubexm_terminal::Failure;
use serde::{Deserialize, Serialize};

use crate::support::{failures, files};

/// What a bundle file looked like when it was verified.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verified {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// Last change of the content, in nanoseconds since 1970.
    modified: i128,
    /// Last change of content or metadata: this one cannot be set back.
    changed: i128,
    size: u64,
    manifest: Digest,
}

impl Verified {
    /// How the file looks now.
    pub fn look(bundle: &Bundle) -> Result<Self, Failure> {
        let path = bundle.path();
        let failed = |error: std::io::Error| failures::disk("examine", path, &error);
        let path = path.canonicalize().map_err(failed)?;
        let metadata = path.metadata().map_err(failed)?;
        let nanoseconds = |seconds, rest| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            size: metadata.len(),
            manifest: bundle.manifest_digest(),
            path,
        })
    }

    /// Whether this very file was verified before. A note that cannot be read is none.
    pub fn is_noted(&self, folder: &Path) -> bool {
        let noted = std::fs::read(self.note(folder)).ok().and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        noted.is_some_and(|noted| noted == *self)
    }

    /// Notes it.
    pub fn keep(&self, folder: &Path) -> Result<(), Failure> {
        let path = self.note(folder);
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| failures::disk("write", &path, &error))?;
        files::write_private(&path, &bytes)
    }

    fn note(&self, folder: &Path) -> PathBuf {
        let name = Digest::of(self.path.as_os_str().as_encoded_bytes());
        folder.join(format!("{}.json", name.hex()))
    }
}
