//! Whether a host has a member of an etcd of kubexm's own.

use kubexm_plan::etcd;

use crate::Machine;

const UNITS: &str = "/etc/systemd/system";

/// By its unit, which is written before its data, and removed after it.
pub(crate) fn has_member(machine: &Machine) -> bool {
    machine.path(format!("{UNITS}/{}", etcd::UNIT)).is_file()
}
