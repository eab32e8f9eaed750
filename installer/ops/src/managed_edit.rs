//! Files that others edit, too: our part of one goes or comes back, and what others put there since stays.
//!
//! A reset may come years after the edit. By then /etc/fstab has new disks and /etc/hosts has the site's names, and the
//! bytes of the day of the install would take all of them away.

use crate::place::{self, Entry, Look, Place, PutBack};
use crate::{Machine, OpError, fsio};

/// An edit of a text that is not ours alone.
pub(crate) trait Edit {
    /// The edited text; editing it again changes nothing.
    fn make(&self, text: &str) -> String;

    /// The text with nothing of kubexm in it, as far as it can be distinguished from the text alone.
    fn bare(&self, text: &str) -> String;

    /// `now` with the parts of kubexm that `then` had, and no others.
    fn toward(&self, now: &str, then: &str) -> String;
}

/// Restores what was there before the edit: exactly the earlier bytes where nobody else changed anything since, else
/// our part alone. A file that somebody has replaced by a link is left. `held` says that the edit was in the file
/// before.
pub(crate) fn restore(machine: &Machine, before: &Place, held: bool, edit: &impl Edit) -> Result<(), OpError> {
    let entry = Entry::look(machine, &before.path)?;
    if entry == before.entry {
        return Ok(());
    }
    let real = machine.path(&before.path);
    let then = match &before.entry {
        Entry::Absent => String::new(),
        Entry::File { digest, .. } => match machine.ledger().content(digest) {
            Ok(bytes) => fsio::to_text(&bytes),
            // Never kept, for there was nothing to change.
            Err(_) if held => return Ok(()),
            Err(error) => return Err(error),
        },
        Entry::Link { target } => behind(machine, &before.path, target)?,
        Entry::Directory { .. } | Entry::Special => return Ok(()),
    };
    let now = match entry {
        Entry::File { .. } => fsio::read_text(&real)?.unwrap_or_default(),
        Entry::Absent => return before.restore(machine),
        Entry::Link { .. } | Entry::Directory { .. } | Entry::Special => return Ok(()),
    };
    if now == edit.make(&then) || same(&edit.bare(&now), &edit.bare(&then)) {
        return before.restore(machine);
    }
    let back = edit.toward(&now, &then);
    if back == now {
        return Ok(());
    }
    machine.write_file(&before.path, &fsio::to_bytes(&back), place::access_like(machine, &before.path, 0o644)?)
}

/// The text of the file that a link at `path` leads to.
fn behind(machine: &Machine, path: &str, target: &str) -> Result<String, OpError> {
    let folder = std::path::Path::new(path).parent().unwrap_or(std::path::Path::new("/"));
    Ok(fsio::read_text(&machine.path(folder.join(target)))?.unwrap_or_default())
}

/// Whether two texts have the same lines, blank ones and ends of lines left aside: an edit may drop those.
fn same(one: &str, other: &str) -> bool {
    fn said(text: &str) -> impl Iterator<Item = &str> {
        text.lines().map(str::trim_end).filter(|line| !line.is_empty())
    }
    said(one).eq(said(other))
}
