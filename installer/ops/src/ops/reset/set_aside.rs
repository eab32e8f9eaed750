//! Moves folders aside by renaming, and back by another rename.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use kubexm_plan::op::reset::{ASIDE, Folder};
use kubexm_plan::state_folders::holds;

use crate::ops::move_aside;
use crate::teardown::{mounts, unmount};
use crate::{Machine, OpError, folder, fsio};

/// Kept entries by folder ([`kubexm_plan::Reset::MoveStateAside`]).
type Spared = BTreeMap<String, Vec<String>>;
type Moved = BTreeSet<String>;

/// `moved` is as in [`kubexm_plan::Reset::MoveStateAside`].
pub(super) fn look(machine: &Machine, path: &str, spared: &Spared, moved: &Moved) -> Result<Folder, OpError> {
    let inside = stays(machine, path, spared)?;
    let asides = asides(machine, path, inside)?.len();
    let occupied = if inside {
        !content(machine, path, spared)?.is_empty()
    } else {
        machine.path(path).symlink_metadata().is_ok()
    };
    let is_theirs = moved.iter().any(|folder| holds(folder, path) && !move_aside::is_away(machine, folder));
    let occupied = occupied && !is_theirs;
    Ok(Folder { path: path.to_owned(), occupied, asides })
}

pub(super) fn set_aside(machine: &Machine, path: &str, spared: &Spared, moved: &Moved) -> Result<(), OpError> {
    if !look(machine, path, spared, moved)?.occupied {
        return Ok(());
    }
    unmount::unmount_below(machine, path)?;
    let real = machine.path(path);
    let inside = stays(machine, path, spared)?;
    let aside = aside(machine, path, asides(machine, path, inside)?.len(), inside)?;
    if !inside {
        return fsio::rename(&real, &aside);
    }
    let content = content(machine, path, spared)?;
    fsio::make_private_folder(&aside)?;
    content.iter().try_for_each(|entry| match entry.file_name() {
        Some(name) => fsio::rename(entry, &aside.join(name)),
        None => Ok(()),
    })
}

/// Renames back what was moved aside since the folder was observed. Content that was added meanwhile is replaced.
pub(super) fn bring_back(machine: &Machine, before: &Folder, spared: &Spared) -> Result<(), OpError> {
    if !before.occupied {
        return Ok(());
    }
    let real = machine.path(&before.path);
    let inside = stays(machine, &before.path, spared)?;
    for aside in asides(machine, &before.path, inside)?.into_iter().skip(before.asides) {
        // Only the folder itself may be an administrator's link: who wrote in it may have made those below.
        match real.is_symlink() && real.is_dir() {
            true => put_entries_back(&aside, &real)?,
            false => put_back(&aside, &real)?,
        }
    }
    Ok(())
}

fn put_back(aside: &Path, real: &Path) -> Result<(), OpError> {
    let (there, here) = (fs::symlink_metadata(real), fs::symlink_metadata(aside));
    let is_folder = |found: &std::io::Result<fs::Metadata>| found.as_ref().is_ok_and(fs::Metadata::is_dir);
    if there.is_err() {
        return fsio::rename(aside, real);
    }
    match (is_folder(&here), is_folder(&there)) {
        (true, true) => put_entries_back(aside, real),
        (false, false) => fsio::rename(aside, real),
        (false, true) => Err(OpError::other(format!(
            "{} is a folder now, and a file of that name was set aside as {}; move the folder away, then continue",
            real.display(),
            aside.display()
        ))),
        (true, false) => Err(OpError::other(format!(
            "{} is no folder now, and a folder of that name was set aside as {}; move it away, then continue",
            real.display(),
            aside.display()
        ))),
    }
}

fn put_entries_back(aside: &Path, real: &Path) -> Result<(), OpError> {
    for entry in mounts::entries(aside)? {
        if let Some(name) = entry.file_name() {
            put_back(&entry, &real.join(name))?;
        }
    }
    fsio::remove_folder(aside).map(drop)
}

/// All folders with content of a path that was moved aside, next to it and in it.
pub(super) fn all(machine: &Machine, path: &str) -> Result<Vec<PathBuf>, OpError> {
    Ok([asides(machine, path, false)?, asides(machine, path, true)?].concat())
}

/// The oldest first.
fn asides(machine: &Machine, path: &str, inside: bool) -> Result<Vec<PathBuf>, OpError> {
    let mut found = Vec::new();
    loop {
        let next = aside(machine, path, found.len(), inside)?;
        if next.symlink_metadata().is_err() {
            return Ok(found);
        }
        found.push(next);
    }
}

fn aside(machine: &Machine, path: &str, number: usize, inside: bool) -> Result<PathBuf, OpError> {
    let number = if number == 0 { String::new() } else { format!(".{number}") };
    if inside {
        return Ok(machine.path(format!("{path}/{ASIDE}{number}")));
    }
    let (parent, name) = path.rsplit_once('/').filter(|(_, name)| !name.is_empty()).ok_or_else(|| {
        OpError::other(format!("{path} is not a folder that can be set aside; this is a fault of the plan"))
    })?;
    Ok(machine.path(format!("{parent}/{ASIDE}-{name}{number}")))
}

/// A mount point cannot be renamed, and an administrator's link to another disk must not be.
fn stays(machine: &Machine, path: &str, spared: &Spared) -> Result<bool, OpError> {
    Ok(spared.contains_key(path) || machine.path(path).is_symlink() || mounts::is_point(machine, path)?)
}

/// What is moved from a folder that itself is kept; the file system's own `lost+found`, and content that was moved
/// aside before the cluster was created, are not.
fn content(machine: &Machine, path: &str, spared: &Spared) -> Result<Vec<PathBuf>, OpError> {
    let folder = machine.path(path);
    if folder.symlink_metadata().is_ok() && !folder.is_dir() {
        // Something else is at this path by now.
        return Ok(Vec::new());
    }
    let own = |path: &PathBuf, names: &[String]| {
        let name = path.file_name().map(|name| fsio::to_text(name.as_bytes())).unwrap_or_default();
        let is_aside = name.strip_prefix(ASIDE).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        !is_aside && !folder::always_stays(&name) && !names.contains(&name)
    };
    let names = spared.get(path).map(Vec::as_slice).unwrap_or_default();
    Ok(mounts::entries(&folder)?.into_iter().filter(|path| own(path, names)).collect())
}
