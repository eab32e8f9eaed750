//! Folders renamed aside: gone for everybody who looks where they were, and back by another rename.

use std::fs;
use std::path::{Path, PathBuf};

use kubexm_plan::reset::ASIDE;
use serde::{Deserialize, Serialize};

use crate::teardown::mounts;
use crate::{Machine, OpError, fsio};

/// A folder as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Folder {
    path: String,
    /// Something is there that is not aside.
    pub(super) occupied: bool,
    /// Asides that were there: what is renamed later is in one with this number or a higher one.
    asides: usize,
}

pub(super) fn look(machine: &Machine, path: &str) -> Result<Folder, OpError> {
    let asides = asides(machine, path)?.len();
    let occupied = if stays(machine, path)? {
        !content(&machine.path(path))?.is_empty()
    } else {
        machine.path(path).symlink_metadata().is_ok()
    };
    Ok(Folder { path: path.to_owned(), occupied, asides })
}

pub(super) fn set_aside(machine: &Machine, path: &str) -> Result<(), OpError> {
    if !look(machine, path)?.occupied {
        return Ok(());
    }
    mounts::unmount_below(machine, path)?;
    let real = machine.path(path);
    let aside = aside(machine, path, asides(machine, path)?.len())?;
    if !stays(machine, path)? {
        return rename(&real, &aside);
    }
    let content = content(&real)?;
    fs::create_dir(&aside).map_err(OpError::path("make the folder", &aside))?;
    content.iter().try_for_each(|entry| match entry.file_name() {
        Some(name) => rename(entry, &aside.join(name)),
        None => Ok(()),
    })
}

/// Renames back what was set aside since the folder was looked at. What came into the folder meanwhile gives way.
pub(super) fn bring_back(machine: &Machine, before: &Folder) -> Result<(), OpError> {
    if !before.occupied {
        return Ok(());
    }
    let real = machine.path(&before.path);
    for aside in asides(machine, &before.path)?.into_iter().skip(before.asides) {
        put_back(&aside, &real)?;
    }
    Ok(())
}

fn put_back(aside: &Path, real: &Path) -> Result<(), OpError> {
    let (there, here) = (fs::symlink_metadata(real), fs::symlink_metadata(aside));
    let is_folder = |found: &std::io::Result<fs::Metadata>| found.as_ref().is_ok_and(fs::Metadata::is_dir);
    if there.is_err() {
        return rename(aside, real);
    }
    if !(is_folder(&here) && real.is_dir()) {
        if is_folder(&there) {
            return Err(OpError::other(format!(
                "{} is a folder now, and a file of that name was set aside as {}; move the folder away, then go on",
                real.display(),
                aside.display()
            )));
        }
        return rename(aside, real);
    }
    for entry in mounts::entries(aside)? {
        if let Some(name) = entry.file_name() {
            put_back(&entry, &real.join(name))?;
        }
    }
    fs::remove_dir(aside).map_err(OpError::path("remove", aside))
}

/// The folders with what was set aside of a path, the oldest first.
pub(super) fn asides(machine: &Machine, path: &str) -> Result<Vec<PathBuf>, OpError> {
    let mut found = Vec::new();
    loop {
        let next = aside(machine, path, found.len())?;
        if next.symlink_metadata().is_err() {
            return Ok(found);
        }
        found.push(next);
    }
}

fn aside(machine: &Machine, path: &str, number: usize) -> Result<PathBuf, OpError> {
    let number = if number == 0 { String::new() } else { format!(".{number}") };
    if stays(machine, path)? {
        return Ok(machine.path(format!("{path}/{ASIDE}{number}")));
    }
    let (parent, name) = path.rsplit_once('/').filter(|(_, name)| !name.is_empty()).ok_or_else(|| {
        OpError::other(format!("{path} is no folder that can be set aside; this is a fault of the plan"))
    })?;
    Ok(machine.path(format!("{parent}/{ASIDE}-{name}{number}")))
}

/// A mount point cannot be renamed, and an administrator's link to another disk must not be.
fn stays(machine: &Machine, path: &str) -> Result<bool, OpError> {
    Ok(machine.path(path).is_symlink() || mounts::is_point(machine, path)?)
}

/// What lies in a folder that stays; a file system's own `lost+found` is not ours.
fn content(folder: &Path) -> Result<Vec<PathBuf>, OpError> {
    let own = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name != "lost+found" && name.strip_prefix(ASIDE).is_none_or(|rest| !rest.is_empty() && !rest.starts_with('.'))
    };
    Ok(mounts::entries(folder)?.into_iter().filter(own).collect())
}

fn rename(from: &Path, to: &Path) -> Result<(), OpError> {
    fs::rename(from, to).map_err(OpError::path("rename aside or back", from))?;
    [from, to].iter().filter_map(|path| path.parent()).try_for_each(fsio::sync_folder)
}
