//! Folders for data in whose place somebody who is not root could put another one.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use kubexm_plan::facts::OpenFolder;

use crate::{Machine, OpError};

/// Nobody but root may write to a folder of data, nor to one that holds it.
const WRITABLE: u32 = 0o022;
const BY_GROUP: u32 = 0o020;
/// Who may write there can take away only what is theirs.
const STICKY: u32 = 0o1000;

/// Each that is open, with the first folder on its way that is not root's alone. `ours`: one that kubexm has made may belong to a
/// service of its own.
pub(super) fn look<'f>(
    machine: &Machine,
    folders: impl Iterator<Item = &'f String>,
    ours: bool,
) -> Result<Vec<OpenFolder>, OpError> {
    let looks = folders.map(|folder| one(machine, folder, ours && machine.ledger().made(folder)));
    looks.filter_map(Result::transpose).collect()
}

/// The first folder on the way to this one that is not root's alone. `of_service`: it may itself belong to another user.
pub(crate) fn one(machine: &Machine, folder: &str, of_service: bool) -> Result<Option<OpenFolder>, OpError> {
    let root = machine.path("/");
    let root = fs::canonicalize(&root).map_err(OpError::path("look at", &root))?;
    // In a directory that stands for a machine nothing is root's: its owner is.
    let owner = fs::symlink_metadata(&root).map_err(OpError::path("look at", &root))?.uid();
    let way = way(&root.join(folder.trim_start_matches('/')));
    let found = way
        .into_iter()
        .filter(|(at, _)| at.starts_with(&root))
        .find_map(|(at, next)| open(&at, next, owner, of_service).map(|found| (at, found)));
    Ok(found.map(|(at, (owner, mode))| {
        let at = at.strip_prefix(&root).map_or_else(|_| at.display().to_string(), |at| format!("/{}", at.display()));
        OpenFolder { folder: folder.to_owned(), at, owner, mode }
    }))
}

/// What follows a folder on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It is the folder itself.
    Nothing,
    /// A folder that is checked by itself.
    There,
    /// What will be made.
    Missing,
}

/// The most links that are followed, as in the kernel.
const MOST_LINKS: usize = 40;

/// What a path leads through, link by link, the outermost first: folders, and the links themselves.
fn way(path: &Path) -> Vec<(PathBuf, Next)> {
    let mut rest: VecDeque<OsString> = names(path);
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    let mut all = vec![(at.clone(), Next::There)];
    let mut next = Next::Nothing;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let entry = at.join(&name);
        let Ok(found) = fs::symlink_metadata(&entry) else {
            // What is missing will be made by whoever is first.
            next = Next::Missing;
            break;
        };
        all.push((entry.clone(), Next::There));
        if !found.is_symlink() {
            at = entry;
            continue;
        }
        links += 1;
        let Some(target) = fs::read_link(&entry).ok().filter(|_| links <= MOST_LINKS) else {
            next = Next::Missing;
            break;
        };
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        for name in names(&target).into_iter().rev() {
            rest.push_front(name);
        }
    }
    // It is the folder that was reached last, which a link may have been named after.
    if let Some(last) = all.iter_mut().rfind(|(entry, _)| *entry == at) {
        last.1 = next;
    }
    all
}

/// `..` is one of them, as in the kernel.
fn names(path: &Path) -> VecDeque<OsString> {
    let name = |component: Component<'_>| match component {
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        other => Some(other.as_os_str().to_owned()),
    };
    path.components().filter_map(name).collect()
}

/// Whose it is if it is not root's, and its mode, if somebody else may write there or owns it.
fn open(at: &Path, next: Next, root: u32, of_service: bool) -> Option<(Option<u32>, u32)> {
    let found = fs::symlink_metadata(at).ok()?;
    let mode = found.mode() & 0o7777;
    let other = Some(found.uid()).filter(|uid| *uid != root && !(of_service && next == Next::Nothing));
    // The mode of a link says nothing.
    let written = !found.is_symlink() && mode & WRITABLE != 0 && !(mode & WRITABLE == BY_GROUP && found.gid() == 0);
    let kept = mode & STICKY != 0 && next == Next::There;
    (other.is_some() || (written && !kept)).then_some((other, mode))
}
