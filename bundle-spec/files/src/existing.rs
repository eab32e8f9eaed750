//! What already exists at the output path.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::error::io_error;
use crate::kind::LIMIT;
use crate::{Kind, OutputError};

/// Whether `-o` names standard output.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Refuses what [`crate::Writer::commit`] would refuse later: called before anything is fetched or computed. Standard output is
/// always good.
pub fn check(path: &Path, kind: &Kind, force: bool) -> Result<(), OutputError> {
    if is_stdout(path) {
        return Ok(());
    }
    check_folder(path)?;
    replaceable(path, kind, force).map(drop)
}

/// Refuses a path without a file name, and one whose folder does not exist.
pub fn check_folder(path: &Path) -> Result<(), OutputError> {
    if path.file_name().is_none() && !path.is_dir() {
        return Err(OutputError::NoName { path: path.to_owned() });
    }
    let folder = folder_of(path);
    match fs::metadata(folder) {
        Ok(there) if there.is_dir() => Ok(()),
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(io_error("examine", folder)(source)),
        _ => Err(OutputError::NoFolder { path: path.to_owned(), folder: folder.to_owned() }),
    }
}

/// The regular file at the path, or nothing when nothing is there. Everything else is refused; links are not followed.
pub fn check_regular(path: &Path) -> Result<Option<Metadata>, OutputError> {
    let there = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(io_error("examine", path))?,
    };
    let kind = there.file_type();
    let hint = is_stream(path);
    let what = match kind {
        _ if kind.is_file() => return Ok(Some(there)),
        _ if kind.is_symlink() => {
            let target = fs::read_link(path).map_err(io_error("read the link", path))?;
            return Err(OutputError::Link { path: path.to_owned(), target, hint });
        }
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a named pipe",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(OutputError::NotAFile { path: path.to_owned(), what, hint })
}

/// The file that would be replaced, where it may be.
pub(crate) fn replaceable(path: &Path, kind: &Kind, force: bool) -> Result<Option<Metadata>, OutputError> {
    let Some(there) = check_regular(path)? else { return Ok(None) };
    if force || there.len() == 0 {
        return Ok(Some(there));
    }
    let Some(recognise) = kind.recognise else { return Err(OutputError::Exists { path: path.to_owned() }) };
    match recognise(&mut open(path)?.take(LIMIT)) {
        true => Ok(Some(there)),
        false => Err(OutputError::Foreign { path: path.to_owned(), kind: kind.name }),
    }
}

fn open(path: &Path) -> Result<File, OutputError> {
    // Another program may have put a pipe there since it was examined: opening one must not wait.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).map_err(io_error("read", path))
}

/// `/dev/stdout` and its kin: who names these wants a stream.
fn is_stream(path: &Path) -> bool {
    ["/dev/stdout", "/dev/fd", "/proc/self/fd"].iter().any(|start| path.starts_with(start))
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lone_dash_is_standard_output() {
        assert!(is_stdout(Path::new("-")));
        assert!(!is_stdout(Path::new("./-")) && !is_stdout(Path::new("--")));
    }
}
