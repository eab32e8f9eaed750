//! Preflight checks of kubeadm that can be ignored because of a host's state, in addition to those of the plan.

use kubexm_plan::state_folders;

use crate::{Machine, folder};

/// kubeadm's check of etcd's folder fails on any entry: `lost+found` of a separate disk and content that was moved
/// aside are harmless. With any other file the check is not ignored.
pub(super) fn ignored(machine: &Machine, ignore: &[String]) -> Vec<String> {
    let folder = machine.path(state_folders::ETCD);
    let has_entries = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    let harmless = has_entries && folder::content(machine, state_folders::ETCD, 1).files == 0;
    ignore.iter().cloned().chain(harmless.then(|| ETCD_EMPTY.to_owned())).collect()
}

/// Name of the check (kubeadm's `DirAvailableCheck`).
const ETCD_EMPTY: &str = "DirAvailable--var-lib-etcd";
