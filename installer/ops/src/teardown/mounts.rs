//! Mounts below a folder, and removal of a folder without ever crossing one: what is mounted there (a volume, an NFS
//! export, a separate disk) belongs to the user.
//!
//! Format of `/proc/self/mountinfo`: proc(5).

use std::fs;
use std::path::{Path, PathBuf};

use crate::dirfd::DirFd;
use crate::{Machine, OpError, fsio};

/// A line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub point: String,
    /// `overlay`, `nfs4`, `tmpfs`.
    pub filesystem: String,
    /// Device or export.
    pub source: String,
}

/// Every mount, in the order in which they were mounted.
pub fn all(machine: &Machine) -> Result<Vec<Mount>, OpError> {
    let text = fsio::read_text(&machine.path("/proc/self/mountinfo"))?.unwrap_or_default();
    Ok(text.lines().filter_map(parse).collect())
}

/// Whether a folder is itself a mount point.
pub fn is_point(machine: &Machine, path: &str) -> Result<bool, OpError> {
    let path = real(machine, path);
    Ok(all(machine)?.iter().any(|mount| mount.point == path))
}

/// The mount at a folder itself; the last of several, which covers the others.
pub(crate) fn at(machine: &Machine, path: &str) -> Result<Option<Mount>, OpError> {
    let path = real(machine, path);
    Ok(all(machine)?.into_iter().rfind(|mount| mount.point == path))
}

/// Mounts strictly below a folder, in the order in which they were mounted.
pub fn below(machine: &Machine, path: &str) -> Result<Vec<Mount>, OpError> {
    let path = real(machine, path);
    let inside = |mount: &Mount| mount.point != path && Path::new(&mount.point).starts_with(&path);
    Ok(all(machine)?.into_iter().filter(inside).collect())
}

/// The error of steps that would have to delete a mount.
pub(crate) fn left_alone(mount: &Mount) -> OpError {
    OpError::other(format!(
        "{} is mounted ({} of {}) in what is to be removed: it is left with its data; unmount it, then run again",
        mount.point, mount.filesystem, mount.source
    ))
}

/// The machine's path for a path of this process.
pub(crate) fn named(machine: &Machine, real: &Path) -> String {
    let below = real.strip_prefix(machine.root()).unwrap_or(real);
    format!("/{}", below.to_string_lossy().trim_start_matches('/'))
}

/// Deletes a folder with its content without crossing a mount point: if there is one below, nothing is deleted. A
/// folder that is itself a mount point, or a link to another disk, is emptied and kept.
pub fn remove_tree(machine: &Machine, path: &str) -> Result<(), OpError> {
    let real_path = machine.path(path);
    let Ok(found) = fs::symlink_metadata(&real_path) else { return Ok(()) };
    if !found.is_dir() && !found.is_symlink() {
        return fsio::remove(&real_path);
    }
    if let Some(mount) = below(machine, path)?.first() {
        return Err(left_alone(mount));
    }
    let Ok(root) = fs::metadata(&real_path) else { return fsio::remove(&real_path) };
    if !root.is_dir() {
        return fsio::remove(&real_path);
    }
    let folder = DirFd::open(&real_path)?;
    empty(&folder, folder.device()?)?;
    if found.is_symlink() || is_point(machine, path)? || fsio::remove_folder(&real_path)? {
        return Ok(());
    }
    Err(OpError::other(format!(
        "{} is filled again while it is being removed: end what writes there, then run again",
        real_path.display()
    )))
}

/// Deletes the content of a folder on this device. Entries that disappear meanwhile (sockets of a daemon that ends) are
/// ignored. If another user replaces a folder meanwhile, the new one is not entered.
fn empty(folder: &DirFd, device: u64) -> Result<(), OpError> {
    for name in folder.names()? {
        let path = folder.path().join(&name);
        let Some(inner) = folder.inner(&name)? else {
            gone(folder.unlink(&name)).map_err(OpError::path("remove", &path))?;
            continue;
        };
        if inner.device()? != device {
            return Err(OpError::other(format!(
                "{} lies on another file system than {}: its data is not kubexm's to delete; unmount it, then run \
                 again",
                path.display(),
                folder.path().display()
            )));
        }
        empty(&inner, device)?;
        gone(folder.remove_folder(&name)).map_err(OpError::path("remove", &path))?;
    }
    Ok(())
}

fn gone(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// The entries of a folder, sorted; empty if it does not exist.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, OpError> {
    let listed = match fs::read_dir(folder) {
        Ok(listed) => listed,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(OpError::path("list", folder)(error)),
    };
    let mut paths = listed
        .map(|entry| entry.map(|entry| entry.path()).map_err(OpError::path("list", folder)))
        .collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

/// The path with links resolved, as in mountinfo. Links of a machine that is only a directory lead out of it.
pub(super) fn real(machine: &Machine, path: &str) -> String {
    let canonical = machine.is_real().then(|| fs::canonicalize(path).ok()).flatten();
    canonical.map_or_else(|| path.trim_end_matches('/').to_owned(), |path| path.to_string_lossy().into_owned())
}

pub(crate) fn fstab_points(machine: &Machine) -> Result<Vec<String>, OpError> {
    let text = fsio::read_text(&machine.path("/etc/fstab"))?.unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    Ok(lines.filter_map(|line| line.split_whitespace().nth(1)).map(unescape).collect())
}

/// `36 35 98:0 /root /point options shared:1 - type source superoptions`.
fn parse(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    Some(Mount {
        point: unescape(before.split(' ').nth(4)?),
        filesystem: after.next()?.to_owned(),
        source: unescape(after.next().unwrap_or_default()),
    })
}

/// Space, tab, newline and backslash are written in octal.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}
