//! The entry at a path, and how it is restored: the state of every op that writes files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::FileType;

use crate::dirfd::DirFd;
use crate::fsio::{self, Access};
use crate::{Machine, OpError};

pub use kubexm_plan::path_state::{PathEntry, PathState};

/// Observes a path of a machine.
pub trait Look: Sized {
    /// Observes, and changes nothing.
    fn look(machine: &Machine, path: &str) -> Result<Self, OpError>;
}

/// A state that can be restored.
pub trait PutBack {
    /// Restores the earlier entry; parents that were created for it are removed if they are empty.
    fn restore(&self, machine: &Machine) -> Result<(), OpError>;
}

impl Look for PathEntry {
    /// Follows no link, and no link to a folder on the way that somebody other than root can have made: what is found goes to journal and
    /// ledger, and back to the path on a rollback.
    fn look(machine: &Machine, path: &str) -> Result<Self, OpError> {
        let real = machine.path(path);
        if real.file_name().is_none() {
            // The root folder.
            let found = fs::symlink_metadata(&real).map_err(OpError::path("look at", &real))?;
            return Ok(Self::Directory { mode: found.mode() & 0o7777 });
        }
        let Some((folder, name)) = fsio::there(DirFd::of(&real))? else { return Ok(Self::Absent) };
        let Some(found) = folder.entry(name).map_err(OpError::path("look at", &real))? else { return Ok(Self::Absent) };
        let mode = found.st_mode & 0o7777;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => {
                // Owner and content must be of the same file, even if the path is replaced meanwhile: a restore gives this
                // content to this owner.
                let file = folder.open_file(name).map_err(OpError::path("open", &real))?;
                let (digest, found) = machine.digest_cache().digest(file, &real, machine.survey().is_some())?;
                Ok(Self::File { digest, mode: found.mode() & 0o7777, uid: found.uid(), gid: found.gid() })
            }
            FileType::Directory => Ok(Self::Directory { mode }),
            FileType::Symlink => {
                let gone =
                    || OpError::other(format!("{} was replaced while it was looked at; run again", real.display()));
                let target = folder.link(name).ok_or_else(gone)?;
                Ok(Self::Link { target: fsio::to_text(target.as_os_str().as_bytes()) })
            }
            _ => Ok(Self::Special),
        }
    }
}

impl Look for PathState {
    /// Including missing parents.
    fn look(machine: &Machine, path: &str) -> Result<Self, OpError> {
        let mut missing = Vec::new();
        let mut parent = Path::new(path).parent();
        while let Some(folder) = parent {
            if machine.path(folder).symlink_metadata().is_ok() {
                break;
            }
            missing.push(folder.to_string_lossy().into_owned());
            parent = folder.parent();
        }
        Ok(Self { path: path.to_owned(), entry: PathEntry::look(machine, path)?, missing, held: None })
    }
}

impl PutBack for PathState {
    fn restore(&self, machine: &Machine) -> Result<(), OpError> {
        let real = machine.path(&self.path);
        if PathEntry::look(machine, &self.path)? != self.entry {
            match &self.entry {
                PathEntry::Absent => clear(&real)?,
                PathEntry::File { digest, mode, uid, gid } => {
                    let bytes = machine.ledger().content(digest)?;
                    let owner = Some((*uid, *gid));
                    machine.write_file(&self.path, &bytes, Access { mode: *mode, owner })?;
                }
                PathEntry::Directory { mode } => {
                    if !real.is_dir() {
                        fsio::remove(&real)?;
                    }
                    DirFd::make(&real)?.set_access(*mode, None)?;
                    machine.relabel(&self.path)?;
                }
                PathEntry::Link { target } => put_link(machine, &self.path, target)?,
                PathEntry::Special => {
                    return Err(OpError::other(format!(
                        "{} was a device, socket or pipe before, which kubexm cannot restore: create it again by hand",
                        self.path
                    )));
                }
            }
        }
        for folder in &self.missing {
            // A folder that contains something else by now is kept.
            if !fsio::remove_folder(&machine.path(folder)).unwrap_or(false) {
                break;
            }
        }
        Ok(())
    }
}

/// Refuses to replace anything except a file or a link.
pub fn replaceable(machine: &Machine, path: &str) -> Result<(), OpError> {
    let real = machine.path(path);
    if real.file_name().is_none() {
        return Err(OpError::other(format!("{path} is the root folder, and a file must go there; name another path")));
    }
    let Some((folder, name)) = fsio::there(DirFd::of(&real))? else { return Ok(()) };
    let found = folder.entry(name).map_err(OpError::path("look at", &real))?;
    match found.map(|found| FileType::from_raw_mode(found.st_mode)) {
        None | Some(FileType::RegularFile | FileType::Symlink) => Ok(()),
        Some(FileType::Directory) => {
            Err(OpError::other(format!("{path} is a directory, and a file must go there; move it away and run again")))
        }
        Some(_) => Err(OpError::other(format!(
            "{path} is a device, socket or pipe, and a file must go there; move it away and run again"
        ))),
    }
}

/// Mode and owner of the existing file, or the mode for a new one.
pub(crate) fn access_like(machine: &Machine, path: &str, mode: u32) -> Result<Access, OpError> {
    Ok(match PathEntry::look(machine, path)? {
        PathEntry::File { mode, uid, gid, .. } => Access { mode, owner: Some((uid, gid)) },
        _ => Access::mode(mode),
    })
}

/// Creates a symbolic link atomically, by rename.
pub(crate) fn put_link(machine: &Machine, path: &str, target: &str) -> Result<(), OpError> {
    let real = machine.path(path);
    let (folder, name) = DirFd::made_for(&real)?;
    folder.put_link(OsStr::from_bytes(&fsio::to_bytes(target)), name)?;
    machine.relabel(path)
}

fn clear(real: &Path) -> Result<(), OpError> {
    match fs::symlink_metadata(real) {
        // Only an empty folder: content of others is not deleted.
        Ok(found) if found.is_dir() => fsio::remove_folder(real).map(drop),
        Ok(_) => fsio::remove(real),
        Err(_) => Ok(()),
    }
}
