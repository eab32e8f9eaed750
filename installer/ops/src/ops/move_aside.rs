//! Moves the earlier content of state folders out of the way, and back: by renames on the same file system, so that
//! content, modes, owners and times are preserved.
//!
//! A folder is renamed. A mount point cannot be renamed, and an administrator's link must not be: their entries are
//! moved to a folder inside, which has a temporary name until all of them are moved, so that an interrupted move is
//! resumed and not taken for a finished one.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use kubexm_plan::op::{AsideWas, MoveAside, MovedFolder, MovedFolders};
use kubexm_plan::state_folders::MOVED;

use crate::dirfd::DirFd;
use crate::teardown::mounts;
use crate::{Converge, Machine, OpError, Wave, folder, fsio};

impl Converge for MoveAside {
    fn observe(&self, machine: &Machine) -> Result<MovedFolders, OpError> {
        let folders = self.paths.iter().map(|path| look(machine, path)).collect::<Result<_, _>>()?;
        Ok(MovedFolders { folders })
    }

    fn satisfied(&self, found: &MovedFolders, _: &Machine) -> bool {
        found.folders.iter().all(|folder| folder.was != AsideWas::Occupied)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        for path in &self.paths {
            if look(machine, path)?.was == AsideWas::Occupied {
                move_away(machine, path)?;
            }
        }
        Ok(())
    }

    fn restore(&self, machine: &Machine, before: &MovedFolders, wave: Wave) -> Result<(), OpError> {
        let moved = before.folders.iter().rev().filter(|folder| wave == Wave::Data && folder.was == AsideWas::Occupied);
        moved.into_iter().try_for_each(|folder| bring_back(machine, folder))
    }
}

/// Where [`MoveAside`] has moved the content of a folder, if the move is finished and not reverted.
pub(crate) fn moved(machine: &Machine, path: &str) -> Option<String> {
    [beside(path), inside(path)].into_iter().find(|aside| machine.path(aside).symlink_metadata().is_ok())
}

/// Whether content that was moved is not back yet, whether the move is finished or not.
pub(crate) fn is_away(machine: &Machine, path: &str) -> bool {
    moved(machine, path).is_some() || machine.path(unfinished(path)).exists()
}

fn look(machine: &Machine, path: &str) -> Result<MovedFolder, OpError> {
    let was = if moved(machine, path).is_some() {
        AsideWas::Moved
    } else if machine.path(unfinished(path)).exists() || folder::content(machine, path, 1).files > 0 {
        AsideWas::Occupied
    } else {
        AsideWas::Empty
    };
    let modified = fs::metadata(machine.path(path)).and_then(|found| found.modified()).ok();
    let modified = modified.filter(|modified| *modified >= SystemTime::UNIX_EPOCH);
    Ok(MovedFolder { path: path.to_owned(), was, modified })
}

fn beside(path: &str) -> String {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    format!("{parent}/{MOVED}-{name}")
}

fn inside(path: &str) -> String {
    format!("{path}/{MOVED}")
}

fn unfinished(path: &str) -> String {
    format!("{path}/{MOVED}.unfinished")
}

fn move_away(machine: &Machine, path: &str) -> Result<(), OpError> {
    if let Some(mount) = mounts::below(machine, path)?.first() {
        return Err(OpError::other(format!(
            "{} ({} of {}) is mounted below {path}, which must be empty: it is left as it is; unmount it, then run again",
            mount.point, mount.filesystem, mount.source
        )));
    }
    let real = machine.path(path);
    if !real.is_symlink() && !mounts::is_point(machine, path)? {
        return fsio::rename(&real, &machine.path(beside(path)));
    }
    let (unfinished, finished) = (machine.path(unfinished(path)), machine.path(inside(path)));
    DirFd::make(&unfinished)?.set_access(0o700, None)?;
    for entry in mounts::entries(&real)? {
        match entry.file_name() {
            Some(name) if !folder::always_stays(&name.to_string_lossy()) => {
                fsio::rename(&entry, &unfinished.join(name))?
            }
            _ => {}
        }
    }
    fsio::rename(&unfinished, &finished)
}

fn bring_back(machine: &Machine, before: &MovedFolder) -> Result<(), OpError> {
    let real = machine.path(&before.path);
    let aside = machine.path(beside(&before.path));
    if aside.symlink_metadata().is_ok() {
        return put_back(&aside, &real);
    }
    for aside in [inside(&before.path), unfinished(&before.path)].map(|aside| machine.path(aside)) {
        if !aside.is_dir() {
            continue;
        }
        for entry in mounts::entries(&aside)? {
            if let Some(name) = entry.file_name() {
                put_back(&entry, &real.join(name))?;
            }
        }
        remove_emptied(&aside)?;
        fsio::sync_folder(&real)?;
    }
    match before.modified {
        Some(modified) if real.is_dir() => DirFd::open(&real)?.set_modified(modified),
        _ => Ok(()),
    }
}

/// Removes a folder whose content was moved back.
fn remove_emptied(folder: &Path) -> Result<(), OpError> {
    match fsio::remove_folder(folder)? {
        true => Ok(()),
        false => Err(OpError::other(format!(
            "something was put into {} while its content was moved back; move that away, then run again",
            folder.display()
        ))),
    }
}

/// Renames back without replacing anything: folders are merged, and for anything else both are kept and the error names
/// them.
fn put_back(from: &Path, to: &Path) -> Result<(), OpError> {
    let Ok(there) = fs::symlink_metadata(to) else { return fsio::rename(from, to) };
    let here = fs::symlink_metadata(from).map_err(OpError::path("look at", from))?;
    if !(there.is_dir() && here.is_dir()) {
        return Err(OpError::other(format!(
            "{} was moved to {} before the cluster was made, and something else is there now: nothing was replaced; move \
             one of them away, then run again",
            to.display(),
            from.display()
        )));
    }
    // rename(2) replaces an empty folder.
    match fsio::rename(from, to) {
        Err(OpError::Path { source, .. })
            if matches!(source.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {}
        renamed => return renamed,
    }
    for entry in mounts::entries(from)? {
        if let Some(name) = entry.file_name() {
            put_back(&entry, &to.join(name))?;
        }
    }
    // A service may own the folder around it and may put a link there.
    let folder = DirFd::open(to)?;
    folder.set_access(here.mode() & 0o7777, Some((here.uid(), here.gid())))?;
    folder.set_modified(here.modified().map_err(OpError::path("look at", from))?)?;
    remove_emptied(from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for MoveAside {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("what lay in folders before", |h| {
            h.put("/var/lib/etcd/snapshot.db", "theirs");
            h.put("/var/lib/kubelet/mine/x", "theirs");
            MoveAside { paths: vec!["/var/lib/etcd".into(), "/var/lib/kubelet".into(), "/var/lib/cni".into()] }
        })]);
    }
}
