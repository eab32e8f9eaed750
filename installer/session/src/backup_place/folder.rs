//! Backups in a folder of this machine.

use std::fs;
use std::path::Path;

use kubexm_engine::backup::{ARCHIVE, BackupHeader, HEADER};

use crate::error::SessionError;
use crate::retention::{Candidates, Kept};

/// What is not a whole backup of the cluster is left out, and so is what a link points at: that is somebody else's.
pub(super) fn others(to: &Path, made: &str, candidates: &Candidates<'_>) -> Result<Vec<Kept>, SessionError> {
    let entries = fs::read_dir(to).map_err(|error| SessionError::disk("list", to, &error))?;
    Ok(entries
        .flatten()
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.path().display().to_string() != made)
        .filter_map(|entry| {
            let header = BackupHeader::read(&entry.path()).ok()?;
            let size = fs::symlink_metadata(entry.path().join(ARCHIVE)).ok()?.len();
            let (at, name) = (entry.path().display().to_string(), entry.file_name().to_str()?.to_owned());
            candidates.kept(at, name, &header, size)
        })
        .collect())
}

/// The header goes last: without it nobody would know what the rest is.
pub(super) fn remove(folder: &Path) -> Result<(), SessionError> {
    let remove = || {
        fs::remove_file(folder.join(ARCHIVE))?;
        fs::remove_file(folder.join(HEADER))?;
        fs::remove_dir(folder)
    };
    remove().map_err(|error| SessionError::disk("remove", folder, &error))
}
