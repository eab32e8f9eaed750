//! Preflight checks of kubeadm that a host's own state makes harmless, beside those that the plan ignores.

use kubexm_plan::state_folders;

use crate::{Machine, folder};

/// kubeadm's check of etcd's folder fails on any entry: `lost+found` of a disk of its own is no reason, and neither is
/// what was moved aside in it. A folder with any other file is kubeadm's to refuse.
pub(super) fn ignored(machine: &Machine, ignore: &[String]) -> Vec<String> {
    let folder = machine.path(state_folders::ETCD);
    let has_entries = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    let harmless = has_entries && folder::content(machine, state_folders::ETCD, 1).files == 0;
    ignore.iter().cloned().chain(harmless.then(|| ETCD_EMPTY.to_owned())).collect()
}

/// Name of that check (kubeadm's `DirAvailableCheck`).
const ETCD_EMPTY: &str = "DirAvailable--var-lib-etcd";
