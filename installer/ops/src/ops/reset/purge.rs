//! The end of a reset: deletes what was moved aside, kubexm's state and the agent.

use kubexm_spec::names;

use super::set_aside;
use crate::ops::packages;
use crate::teardown::mounts;
use crate::{Machine, OpError, backup, fsio, own_state, paths, transient};

/// What is still to be deleted.
pub(super) fn left(machine: &Machine, folders: &[String]) -> Result<Vec<String>, OpError> {
    let mut left = Vec::new();
    for folder in folders {
        left.extend(set_aside::all(machine, folder)?.iter().map(|aside| mounts::named(machine, aside)));
    }
    let exists = |path: &String| machine.path(path).symlink_metadata().is_ok();
    // Files of others in the folder stay, and so does the folder.
    let folder = Some(paths::STATE.to_owned()).filter(exists);
    if let Some(folder) = folder.filter(|path| !is_empty_mount(machine, path)) {
        match own_state::foreign(machine)?.is_empty() {
            true => left.push(folder),
            false => left.extend(own_state::present(machine)?),
        }
    }
    left.extend(programs().filter(exists));
    Ok(left)
}

pub(super) fn purge(machine: &Machine, folders: &[String], parents: &[String]) -> Result<(), OpError> {
    for folder in folders {
        for aside in set_aside::all(machine, folder)? {
            mounts::remove_tree(machine, &mounts::named(machine, &aside))?;
        }
    }
    for parent in parents {
        // A folder that contains something else is kept.
        let _ = std::fs::remove_dir(machine.path(parent));
    }
    // Keys are normally removed with their packages, but not if these were upgraded irreversibly and are kept.
    packages::forget_keys(machine)?;
    transient::forget_ended(machine, None)?;
    backup::leave(machine)?;
    own_state::remove(machine)?;
    // Last, since nothing can be continued without it.
    programs().try_for_each(|path| fsio::remove(&machine.path(path)))
}

/// The agent, and an older version that was kept next to it.
fn programs() -> impl Iterator<Item = String> {
    ["", ".before"].into_iter().map(|end| format!("/usr/local/bin/{}{end}", names::INSTALLER))
}

/// A separate disk for kubexm's state remains mounted when it is empty.
fn is_empty_mount(machine: &Machine, path: &str) -> bool {
    let empty = mounts::entries(&machine.path(path)).is_ok_and(|entries| entries.is_empty());
    empty && mounts::is_point(machine, path).unwrap_or(false)
}
