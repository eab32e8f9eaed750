//! Content of a folder that a service fills: lists it, and removes only what was added since.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use kubexm_plan::state_folders::MOVED;

use crate::teardown::mounts;
use crate::{Machine, OpError, fsio};

/// Folders with at most this many entries are listed recursively.
const MOST_DEEP: usize = 256;
/// Larger ones are listed non-recursively, up to this many entries.
const MOST: usize = 65_536;
/// A file system's own, in its root.
const LOST_AND_FOUND: &str = "lost+found";

/// Whether an entry is never listed, moved or removed: the file system's own, and content that was moved aside inside a
/// mount point.
pub(crate) fn always_stays(name: &str) -> bool {
    name == LOST_AND_FOUND || name.starts_with(MOVED)
}

/// The content of a folder as relative paths; a folder has a trailing `/` and comes before its content. A link, or a
/// mount below, is one entry. Names that are not UTF-8 are as in [`fsio::to_text`]. A folder with more than 256 entries is listed non-recursively and without the `/`; the
/// result is none for more than 65,536 entries, for something that is not a folder, and if it cannot be read.
pub(crate) fn list(machine: &Machine, path: &str) -> Option<Vec<String>> {
    let folder = machine.path(path);
    let device = fs::metadata(&folder).ok().filter(fs::Metadata::is_dir)?.dev();
    [(Some(device), MOST_DEEP), (None, MOST)].into_iter().find_map(|(device, most)| {
        let mut found = Vec::new();
        list_into(&folder, "", device, most, &mut found).map(|()| found)
    })
}

fn list_into(folder: &Path, before: &str, device: Option<u64>, most: usize, found: &mut Vec<String>) -> Option<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).ok()? {
        let name = entry.ok()?.file_name();
        if !always_stays(&fsio::to_text(name.as_bytes())) {
            names.push(name);
        }
        if found.len() + names.len() > most {
            return None;
        }
    }
    names.sort();
    for name in names {
        if found.len() == most {
            return None;
        }
        let (below, path) = (folder.join(&name), format!("{before}{}", fsio::to_text(name.as_bytes())));
        let is_folder = || fs::symlink_metadata(&below).is_ok_and(|look| look.is_dir() && Some(look.dev()) == device);
        if device.is_some() && is_folder() {
            let path = format!("{path}/");
            found.push(path.clone());
            list_into(&below, &path, device, most, found)?;
        } else {
            found.push(path);
        }
    }
    Some(())
}

/// Removes the entries that were added since [`list`] returned `held`. They are all examined first: if one contains a
/// mount, nothing is removed.
pub(crate) fn remove_new(machine: &Machine, path: &str, held: &[String]) -> Result<(), OpError> {
    let folder = machine.path(path);
    if !folder.is_dir() {
        return Ok(());
    }
    let mut came = Vec::new();
    find_new(&folder, "", held, &mut came)?;
    let mounted = mounts::below(machine, path)?;
    let real = fs::canonicalize(&folder).map_err(OpError::path("look at", &folder))?;
    for entry in &came {
        // mountinfo has resolved paths.
        let entry = entry.strip_prefix(&folder).map_or_else(|_| entry.clone(), |rest| real.join(rest));
        let named = mounts::named(machine, &entry);
        if let Some(mount) = mounted.iter().find(|mount| Path::new(&mount.point).starts_with(&named)) {
            return Err(mounts::left_alone(mount));
        }
    }
    came.iter().try_for_each(|entry| match entry.is_symlink() {
        // Only the link is new, not its target.
        true => fsio::remove(entry),
        false => mounts::remove_tree(machine, &mounts::named(machine, entry)),
    })
}

fn find_new(folder: &Path, before: &str, held: &[String], came: &mut Vec<PathBuf>) -> Result<(), OpError> {
    for entry in mounts::entries(folder)? {
        let name = entry.file_name().map(|name| fsio::to_text(name.as_bytes())).unwrap_or_default();
        let path = format!("{before}{name}");
        let listed = format!("{path}/");
        if always_stays(&name) || held.contains(&path) {
            continue;
        }
        if !held.contains(&listed) {
            came.push(entry);
        } else if fs::symlink_metadata(&entry).is_ok_and(|look| look.is_dir()) {
            find_new(&entry, &listed, held, came)?;
        }
    }
    Ok(())
}

/// Number of files in a folder at any depth, on its own file system, and the first few of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub files: u64,
    pub first: Vec<String>,
}

/// Counts files up to `most`. Folders and empty hidden files do not count; an unreadable entry counts as a file.
pub(crate) fn content(machine: &Machine, path: &str, most: u64) -> Content {
    let real = machine.path(path);
    let mut content = Content::default();
    match fs::metadata(&real) {
        Ok(found) if found.is_dir() => count(&real, "", found.dev(), most, &mut content),
        Ok(_) => content = Content { files: 1, first: vec![String::new()] },
        Err(_) if real.symlink_metadata().is_ok() => content = Content { files: 1, first: vec![String::new()] },
        Err(_) => {}
    }
    content
}

const FIRST: usize = 4;

impl Content {
    fn add(&mut self, path: String) {
        self.files += 1;
        if self.first.len() < FIRST {
            self.first.push(path);
        }
    }
}

fn count(folder: &Path, before: &str, device: u64, most: u64, content: &mut Content) {
    let Ok(entries) = mounts::entries(folder) else { return content.add(before.to_owned()) };
    for entry in entries {
        let name = entry.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if content.files >= most {
            return;
        }
        let path = format!("{before}{name}");
        match fs::symlink_metadata(&entry) {
            _ if always_stays(&name) => {}
            // A package's placeholder (`.keep`).
            Ok(found) if found.is_file() && found.len() == 0 && name.starts_with('.') => {}
            Ok(found) if found.is_dir() && found.dev() == device => {
                count(&entry, &format!("{path}/"), device, most, content);
            }
            _ => content.add(path),
        }
    }
}
