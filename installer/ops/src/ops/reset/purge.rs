//! The end of a reset: what was set aside, kubexm's state and the agent are deleted.

use kubexm_spec::names;

use super::set_aside;
use crate::ops::packages;
use crate::teardown::mounts;
use crate::{Machine, OpError, fsio, paths, transient};

/// What is still there.
pub(super) fn left(machine: &Machine, folders: &[String]) -> Result<Vec<String>, OpError> {
    let mut left = Vec::new();
    for folder in folders {
        left.extend(set_aside::all(machine, folder)?.iter().map(|aside| mounts::named(machine, aside)));
    }
    let ours = std::iter::once(paths::STATE.to_owned()).chain(programs());
    left.extend(ours.filter(|path| machine.path(path).symlink_metadata().is_ok() && !is_empty_mount(machine, path)));
    Ok(left)
}

pub(super) fn purge(machine: &Machine, folders: &[String], parents: &[String]) -> Result<(), OpError> {
    for folder in folders {
        for aside in set_aside::all(machine, folder)? {
            mounts::remove_tree(machine, &mounts::named(machine, &aside))?;
        }
    }
    for parent in parents {
        // It stays when others put something there.
        let _ = std::fs::remove_dir(machine.path(parent));
    }
    // With what they came for upgraded permanently, and staying, nobody has rolled them back.
    packages::forget_keys(machine)?;
    transient::forget_ended(machine, None)?;
    mounts::remove_tree(machine, paths::STATE)?;
    // The last: without it nobody could continue here.
    programs().try_for_each(|path| fsio::remove(&machine.path(path)))
}

/// The agent, and the older one that a newer put aside.
fn programs() -> impl Iterator<Item = String> {
    ["", ".before"].into_iter().map(|end| format!("/usr/local/bin/{}{end}", names::INSTALLER))
}

/// A disk of its own for our state stays mounted when it is empty.
fn is_empty_mount(machine: &Machine, path: &str) -> bool {
    let empty = mounts::entries(&machine.path(path)).is_ok_and(|entries| entries.is_empty());
    empty && mounts::is_point(machine, path).unwrap_or(false)
}
