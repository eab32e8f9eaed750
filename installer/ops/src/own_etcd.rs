//! Whether a host has a member of an etcd that kubexm runs itself: then etcd's data is not kubeadm's.

use kubexm_plan::{etcd, state_folders};

use crate::Machine;

const UNITS: &str = "/etc/systemd/system";

/// By its unit, which is written before its data, and removed after it.
pub(crate) fn has_member(machine: &Machine) -> bool {
    machine.path(format!("{UNITS}/{}", etcd::UNIT)).is_file()
}

/// The folders that must be cleared before an init or a join can be retried here.
pub(crate) fn cleared(machine: &Machine) -> Vec<&'static str> {
    let member = has_member(machine);
    state_folders::cleared().into_iter().filter(|path| !(member && *path == state_folders::ETCD)).collect()
}
