//! Files of the controller: written completely or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::EngineError;

/// Creates a directory and its parents, readable by their owner only, since journals contain hosts and paths.
pub(crate) fn make_dir(path: &Path) -> Result<(), EngineError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(EngineError::file("create", path))
}

/// Syncs a directory, so that renamed and created entries survive a crash.
pub(crate) fn sync_dir(path: &Path) -> Result<(), EngineError> {
    File::open(path).and_then(|d| d.sync_all()).map_err(EngineError::file("sync", path))
}

/// Writes a file atomically: temporary file in the same folder, fsync, rename, fsync of the directory.
pub(crate) fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> Result<(), EngineError> {
    let parent = path.parent().unwrap_or(Path::new("."));
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = parent.join(name);
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if let Err(source) = written {
        let _ = fs::remove_file(&temporary);
        return Err(EngineError::File { action: "write", path: path.to_owned(), source });
    }
    sync_dir(parent)
}

/// Turns a name into a single path component: a host's answer is never used as a path.
pub(crate) fn plain_name(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' })
        .take(200)
        .collect();
    match plain.trim_start_matches('.') {
        "" => "_".to_owned(),
        rest => rest.to_owned(),
    }
}
