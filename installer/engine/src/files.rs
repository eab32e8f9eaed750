//! Files of the controller: written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::EngineError;

/// Makes a directory with its parents, readable by its owner only: journals name hosts and paths.
pub(crate) fn make_dir(path: &Path) -> Result<(), EngineError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(EngineError::file("create", path))
}

/// Makes what was renamed or created in a directory last.
pub(crate) fn sync_dir(path: &Path) -> Result<(), EngineError> {
    File::open(path).and_then(|d| d.sync_all()).map_err(EngineError::file("sync", path))
}

/// Writes a file whole: temporary file beside it, fsync, rename, fsync of the directory.
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

/// A name that is one plain component of a path: what a host says is never taken as a path.
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
