//! Edits of files that others edit too: kubexm's part is removed or restored, and changes of others are kept.
//!
//! A reset may run years after the edit. By then /etc/fstab has new disks and /etc/hosts has new names, which restoring
//! the old content would remove.

use crate::path_state::{self, Look, PathEntry, PathState, PutBack};
use crate::{Machine, OpError, fsio};

/// An edit of a text that others edit too.
pub(crate) trait Edit {
    /// The edited text; editing it again changes nothing.
    fn make(&self, text: &str) -> String;

    /// The text without kubexm's parts, as far as they can be recognised in the text alone.
    fn bare(&self, text: &str) -> String;

    /// `now` with exactly the parts of kubexm that `then` had.
    fn toward(&self, now: &str, then: &str) -> String;
}

/// Restores the state before the edit: the exact earlier content if nobody else has changed the file since, otherwise
/// only kubexm's part. A file that was replaced by a link is left alone. `held` tells whether the edit was in the file
/// before.
pub(crate) fn restore(machine: &Machine, before: &PathState, held: bool, edit: &impl Edit) -> Result<(), OpError> {
    let entry = PathEntry::look(machine, &before.path)?;
    if entry == before.entry {
        return Ok(());
    }
    let real = machine.path(&before.path);
    let then = match &before.entry {
        PathEntry::Absent => String::new(),
        PathEntry::File { digest, .. } => match machine.ledger().content(digest) {
            Ok(bytes) => fsio::to_text(&bytes),
            // The content was not saved, because there was nothing to change.
            Err(_) if held => return Ok(()),
            Err(error) => return Err(error),
        },
        PathEntry::Link { target } => behind(machine, &before.path, target)?,
        PathEntry::Directory { .. } | PathEntry::Special => return Ok(()),
    };
    let now = match entry {
        PathEntry::File { .. } => fsio::read_text(&real)?.unwrap_or_default(),
        PathEntry::Absent => return before.restore(machine),
        PathEntry::Link { .. } | PathEntry::Directory { .. } | PathEntry::Special => return Ok(()),
    };
    if now == edit.make(&then) || same(&edit.bare(&now), &edit.bare(&then)) {
        return before.restore(machine);
    }
    let back = edit.toward(&now, &then);
    if back == now {
        return Ok(());
    }
    machine.write_file(&before.path, &fsio::to_bytes(&back), path_state::access_like(machine, &before.path, 0o644)?)
}

/// The text of the file that a link at `path` points to.
fn behind(machine: &Machine, path: &str, target: &str) -> Result<String, OpError> {
    let folder = std::path::Path::new(path).parent().unwrap_or(std::path::Path::new("/"));
    Ok(fsio::read_text(&machine.path(folder.join(target)))?.unwrap_or_default())
}

/// Whether two texts have the same lines, ignoring blank lines and line endings, which an edit may change.
fn same(one: &str, other: &str) -> bool {
    fn said(text: &str) -> impl Iterator<Item = &str> {
        text.lines().map(str::trim_end).filter(|line| !line.is_empty())
    }
    said(one).eq(said(other))
}
