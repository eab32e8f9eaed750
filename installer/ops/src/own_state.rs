//! kubexm's own entries in `/var/lib/kubexm`: what else is there is somebody else's, and is never removed.

use std::ffi::OsStr;

use crate::teardown::mounts;
use crate::{Machine, OpError, fsio, paths};

/// Every name that a step, an act, the agent or the ledger uses there.
const OWN: [&str; 16] = [
    "acts",
    "applied",
    "depot",
    "kubeadm",
    "ledger",
    "packages-keys.json",
    "packages.json",
    "placed",
    "repos",
    "reverted",
    "runs",
    "scripts",
    "seeded",
    "stamp.json",
    "store",
    "units",
];

fn is_own(name: &OsStr) -> bool {
    // Temporary files of an interrupted write.
    OWN.iter().any(|own| name == *own) || name.to_string_lossy().starts_with(".kubexm-")
}

/// Paths of kubexm's entries that are there.
pub(crate) fn present(machine: &Machine) -> Result<Vec<String>, OpError> {
    entries(machine, is_own)
}

/// Paths of everybody else's.
pub(crate) fn foreign(machine: &Machine) -> Result<Vec<String>, OpError> {
    entries(machine, |name| !is_own(name) && name != "lost+found")
}

/// Removes kubexm's entries, and the folder if nothing else is in it.
pub(crate) fn remove(machine: &Machine) -> Result<(), OpError> {
    if foreign(machine)?.is_empty() {
        return mounts::remove_tree(machine, paths::STATE);
    }
    present(machine)?.iter().try_for_each(|path| mounts::remove_tree(machine, path))?;
    fsio::sync_folder(&machine.path(paths::STATE))
}

fn entries(machine: &Machine, wanted: impl Fn(&OsStr) -> bool) -> Result<Vec<String>, OpError> {
    let all = mounts::entries(&machine.path(paths::STATE))?;
    Ok(all
        .iter()
        .filter(|path| path.file_name().is_some_and(&wanted))
        .map(|path| mounts::named(machine, path))
        .collect())
}
