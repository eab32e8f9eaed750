//! A file that gets its name only when it is complete.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use crate::error::io_error;
use crate::existing::{check_folder, folder_of, is_stdout, replaceable};
use crate::{Access, Kind, OutputError};

/// Characters of the target's name in that of the temporary file: the longest names leave room for what is added.
const NAME: usize = 64;

/// Writes the whole content at once.
pub fn write(path: &Path, kind: &Kind, force: bool, content: &[u8]) -> Result<(), OutputError> {
    let mut writer = Writer::create(path, kind, force)?;
    writer.write_all(content).map_err(io_error("write", path))?;
    writer.commit()
}

/// Writes the whole content to the file that `-o` names, or to `stdout`, which reports by itself what cannot be written to it.
pub fn put(path: &Path, kind: &Kind, force: bool, content: &[u8], stdout: &dyn Fn(&[u8])) -> Result<(), OutputError> {
    match is_stdout(path) {
        true => stdout(content),
        false => write(path, kind, force, content)?,
    }
    Ok(())
}

/// `.NAME.….partial` beside the target until [`Writer::commit`]; removed when dropped before.
#[derive(Debug)]
pub struct Writer {
    file: NamedTempFile,
    target: PathBuf,
    kind: Kind,
    force: bool,
}

impl Writer {
    /// Refuses what may not be replaced, and creates the temporary file.
    pub fn create(target: &Path, kind: &Kind, force: bool) -> Result<Self, OutputError> {
        check_folder(target)?;
        let replaced = replaceable(target, kind, force)?;
        let mode = match kind.access {
            Access::Private => 0o600,
            Access::Umask => 0o666,
        };
        let mut prefix = OsString::from(".");
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        prefix.push(name.chars().take(NAME).collect::<String>());
        prefix.push(".");
        let folder = folder_of(target);
        let file = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".partial")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder)
            .map_err(io_error("create a file in", folder))?;
        if let Some(replaced) = replaced.filter(|there| there.len() > 0 && kind.access == Access::Umask) {
            // FAT refuses modes, and has none to keep.
            let _ = file.as_file().set_permissions(Permissions::from_mode(replaced.permissions().mode() & 0o777));
        }
        Ok(Self { file, target: target.to_owned(), kind: *kind, force })
    }

    /// The temporary file, from its start.
    pub fn file_mut(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Brings the content to the disk and gives it its name. What has appeared at the path since [`Writer::create`] is examined
    /// as if it had been there.
    pub fn commit(self) -> Result<(), OutputError> {
        self.file.as_file().sync_all().map_err(io_error("write out", &self.target))?;
        let replaced = replaceable(&self.target, &self.kind, self.force)?;
        let path = self.file.into_temp_path();
        rename(&path, &self.target, replaced.is_some())?;
        // It has another name now: there is nothing to remove.
        let _ = path.keep();
        Ok(())
    }
}

impl Write for Writer {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        self.file.write(content)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Gives a file its final name and brings that to the disk. Unless `replace`, what has just appeared there is refused.
pub fn rename(from: &Path, to: &Path, replace: bool) -> Result<(), OutputError> {
    let named = match replace {
        true => fs::rename(from, to),
        false => rename_new(from, to),
    };
    match named {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(OutputError::Exists { path: to.to_owned() });
        }
        other => other.map_err(io_error("name", to))?,
    }
    let folder = folder_of(to);
    File::open(folder).and_then(|open| open.sync_all()).map_err(io_error("write out", folder))
}

fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some network file systems have no such rename. The caller has just looked.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => fs::rename(from, to),
        other => Ok(other?),
    }
}
