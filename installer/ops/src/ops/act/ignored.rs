//! Preflight checks of kubeadm that can be ignored because of a host's state, in addition to those of the plan.

use crate::{Machine, OpError, folder, own_etcd};

/// kubeadm's check of etcd's folder fails on any entry: `lost+found` of a separate disk and content that was moved
/// aside are harmless. With any other file the check is not ignored.
pub(super) fn ignored(machine: &Machine, ignore: &[String]) -> Result<Vec<String>, OpError> {
    let data = own_etcd::data_dir(machine)?;
    let has_entries = std::fs::read_dir(machine.path(&data)).is_ok_and(|mut entries| entries.next().is_some());
    let harmless = has_entries && folder::content(machine, &data, 1).files == 0;
    // The name of kubeadm's `DirAvailableCheck`: `DirAvailable--var-lib-etcd`.
    let check = format!("DirAvailable-{}", data.replace('/', "-"));
    Ok(ignore.iter().cloned().chain(harmless.then_some(check)).collect())
}
