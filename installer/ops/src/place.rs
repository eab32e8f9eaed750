//! What is at a path, how it is remembered, and how it comes back: the state of every op that writes files.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::dirfd::DirFd;
use crate::fsio::{self, Access};
use crate::{Machine, OpError};

pub use kubexm_plan::place::{Entry, Place};

/// What is found at a path of a machine.
pub trait Look: Sized {
    /// Looks, and changes nothing.
    fn look(machine: &Machine, path: &str) -> Result<Self, OpError>;
}

/// What can be restored.
pub trait PutBack {
    /// Restores what was there; parents that were made for it go when nothing else is in them.
    fn restore(&self, machine: &Machine) -> Result<(), OpError>;
}

impl Look for Entry {
    /// Without following a link.
    fn look(machine: &Machine, path: &str) -> Result<Self, OpError> {
        let real = machine.path(path);
        let found = match fs::symlink_metadata(&real) {
            Ok(found) => found,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Self::Absent);
            }
            Err(error) => return Err(OpError::path("look at", &real)(error)),
        };
        let mode = found.mode() & 0o7777;
        if found.is_file() {
            // Owner and content are of one and the same file, whatever is put there meanwhile: a restore gives the
            // content to the owner.
            let (digest, found) = machine.digest_cache().digest(&real, machine.survey().is_some())?;
            Ok(Self::File { digest, mode: found.mode() & 0o7777, uid: found.uid(), gid: found.gid() })
        } else if found.is_dir() {
            Ok(Self::Directory { mode })
        } else if found.is_symlink() {
            let target = fs::read_link(&real).map_err(OpError::path("read the link", &real))?;
            Ok(Self::Link { target: target.to_string_lossy().into_owned() })
        } else {
            Ok(Self::Special)
        }
    }
}

impl Look for Place {
    /// With its parents.
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
        Ok(Self { path: path.to_owned(), entry: Entry::look(machine, path)?, missing, held: None })
    }
}

impl PutBack for Place {
    fn restore(&self, machine: &Machine) -> Result<(), OpError> {
        let real = machine.path(&self.path);
        if Entry::look(machine, &self.path)? != self.entry {
            match &self.entry {
                Entry::Absent => clear(&real)?,
                Entry::File { digest, mode, uid, gid } => {
                    let bytes = machine.ledger().content(digest)?;
                    let owner = Some((*uid, *gid));
                    machine.write_file(&self.path, &bytes, Access { mode: *mode, owner })?;
                }
                Entry::Directory { mode } => {
                    if !real.is_dir() {
                        fsio::remove(&real)?;
                    }
                    DirFd::make(&real)?.set_access(*mode, None)?;
                }
                Entry::Link { target } => put_link(machine, &self.path, target)?,
                Entry::Special => {
                    return Err(OpError::other(format!("{} was a device, socket or pipe: put it back", self.path)));
                }
            }
        }
        for folder in &self.missing {
            // Something else may live there by now; then the folder stays.
            if !fsio::remove_folder(&machine.path(folder)).unwrap_or(false) {
                break;
            }
        }
        Ok(())
    }
}

/// Refuses to put a file over something that is not a file or a link.
pub fn replaceable(machine: &Machine, path: &str) -> Result<(), OpError> {
    match Entry::look(machine, path)? {
        Entry::Directory { .. } => {
            Err(OpError::other(format!("{path} is a directory, and a file must go there; move it away and run again")))
        }
        Entry::Special => Err(OpError::other(format!(
            "{path} is a device, socket or pipe, and a file must go there; move it away and run again"
        ))),
        Entry::Absent | Entry::File { .. } | Entry::Link { .. } => Ok(()),
    }
}

/// Mode and owner of the file that is there, or the mode for a new one.
pub(crate) fn access_like(machine: &Machine, path: &str, mode: u32) -> Result<Access, OpError> {
    Ok(match Entry::look(machine, path)? {
        Entry::File { mode, uid, gid, .. } => Access { mode, owner: Some((uid, gid)) },
        _ => Access::mode(mode),
    })
}

/// Puts a symbolic link into place by rename.
pub(crate) fn put_link(machine: &Machine, path: &str, target: &str) -> Result<(), OpError> {
    let real = machine.path(path);
    let (folder, name) = DirFd::made_for(&real)?;
    folder.put_link(target, name)
}

fn clear(real: &Path) -> Result<(), OpError> {
    match fs::symlink_metadata(real) {
        // Only an empty one: what others put below it is not ours to delete.
        Ok(found) if found.is_dir() => fsio::remove_folder(real).map(drop),
        Ok(_) => fsio::remove(real),
        Err(_) => Ok(()),
    }
}
