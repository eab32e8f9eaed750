//! A bundle on a stick or a disk, read back from there.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::copy::{Done, ReadBack, copy as copy_files};
use crate::session::{Session, SessionError};

/// What was copied.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Copied {
    schema: &'static str,
    pub target: PathBuf,
    pub files: Vec<CopiedFile>,
    pub read_back: ReadBack,
    /// Bytes.
    pub written: u64,
    /// Bytes.
    pub free_before: u64,
}

/// One file in the target.
#[derive(Debug, Serialize)]
pub struct CopiedFile {
    pub path: PathBuf,
    /// In bytes.
    pub size: u64,
    pub sha256: String,
    pub done: Done,
}

/// Copies a bundle, its sums and everything that these list into a folder.
pub fn copy(session: &Session, bundle: &Path, target: &Path, force: bool) -> Result<Copied, SessionError> {
    let bundle = session.bundle(bundle)?;
    let copied = copy_files(&bundle, target, force, &|kind| session.report_to_people(kind))?;
    let files = copied.files.into_iter().map(|file| CopiedFile {
        path: file.path,
        size: file.size,
        sha256: file.sha256.hex(),
        done: file.done,
    });
    Ok(Copied {
        schema: "kubexm.io/copy/v1",
        target: target.to_owned(),
        files: files.collect(),
        read_back: copied.read_back,
        written: copied.written,
        free_before: copied.free,
    })
}
