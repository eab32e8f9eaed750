//! Files of the controller: written completely or not at all, readable by their owner only.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::error::SessionError;

/// Writes a file atomically: temporary file in the same folder (mode 0600), fsync, rename, fsync of the folder.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), SessionError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let write = || {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut file = tempfile::Builder::new().prefix(".kubexm-").tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|failed| failed.error)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|error: std::io::Error| SessionError::disk("write", path, &error))
}
