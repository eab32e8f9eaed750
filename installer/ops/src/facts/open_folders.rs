//! Folders for data in whose place somebody who is not root could put another one.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use kubexm_plan::facts::OpenFolder;

use crate::{Machine, OpError};

/// Nobody but root may write to a folder of data, nor to one that holds it.
const WRITABLE: u32 = 0o022;
const BY_GROUP: u32 = 0o020;
/// Who may write there can take away only what is theirs.
const STICKY: u32 = 0o1000;

/// Each that is open, with the first folder on its way that is not root's alone. `ours`: its own may belong to a service of kubexm's.
pub(super) fn look<'f>(
    machine: &Machine,
    folders: impl Iterator<Item = &'f String>,
    ours: bool,
) -> Result<Vec<OpenFolder>, OpError> {
    let mut folders = folders.peekable();
    if folders.peek().is_none() {
        return Ok(Vec::new());
    }
    let root = machine.path("/");
    let root = fs::canonicalize(&root).map_err(OpError::path("look at", &root))?;
    // In a directory that stands for a machine nothing is root's: its owner is.
    let owner = fs::symlink_metadata(&root).map_err(OpError::path("look at", &root))?.uid();
    let open = |folder: &String| {
        let (at, found) = way(&machine.path(folder))
            .into_iter()
            .filter(|(at, _)| at.starts_with(&root))
            .find_map(|(at, next)| open(&at, next, owner, ours).map(|found| (at, found)))?;
        let at = at.strip_prefix(&root).map_or_else(|_| at.display().to_string(), |at| format!("/{}", at.display()));
        Some(OpenFolder { folder: folder.clone(), at, owner: found.0, mode: found.1 })
    };
    Ok(folders.filter_map(open).collect())
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

/// The folders of a path, and those that its links lead through, the outermost first.
fn way(path: &Path) -> Vec<(PathBuf, Next)> {
    let exists = |at: &Path| fs::symlink_metadata(at).is_ok();
    let mut all = Vec::new();
    let mut next = Next::Nothing;
    for at in path.ancestors().filter(|at| !at.as_os_str().is_empty()) {
        all.push((at.to_owned(), next));
        next = if exists(at) { Next::There } else { Next::Missing };
    }
    // A link that leads nowhere is found by whoever makes the folder.
    if let Some(real) = path.ancestors().find_map(|at| Some((fs::canonicalize(at).ok()?, at == path))) {
        let (real, whole) = real;
        let mut next = if whole { Next::Nothing } else { Next::Missing };
        for at in real.ancestors() {
            all.push((at.to_owned(), next));
            next = Next::There;
        }
    }
    all.reverse();
    all
}

/// Whose it is if it is not root's, and its mode, if somebody else may write there or owns it.
fn open(at: &Path, next: Next, root: u32, ours: bool) -> Option<(Option<u32>, u32)> {
    let found = fs::symlink_metadata(at).ok()?;
    let mode = found.mode() & 0o7777;
    let other = Some(found.uid()).filter(|uid| *uid != root && !(ours && next == Next::Nothing));
    // The mode of a link says nothing.
    let written = !found.is_symlink() && mode & WRITABLE != 0 && !(mode & WRITABLE == BY_GROUP && found.gid() == 0);
    let kept = mode & STICKY != 0 && next == Next::There;
    (other.is_some() || (written && !kept)).then_some((other, mode))
}
