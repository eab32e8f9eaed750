//! Firewalls, time services and fapolicyd, when they are active.

use crate::{Machine, OpError, fsio, systemd};

const FIREWALLS: [&str; 4] = ["firewalld.service", "ufw.service", "nftables.service", "iptables.service"];
const TIME: [&str; 7] = [
    "chrony.service",
    "chronyd.service",
    "ntp.service",
    "ntpd.service",
    "ntpsec.service",
    "openntpd.service",
    "systemd-timesyncd.service",
];

pub(super) fn firewalls(machine: &Machine) -> Result<Vec<String>, OpError> {
    let mut found = active(machine, &FIREWALLS)?;
    // Ubuntu runs ufw.service at every boot; it does something only when this says so.
    let ufw = fsio::read_text(&machine.path("/etc/ufw/ufw.conf"))?.unwrap_or_default();
    if !ufw.lines().any(|line| line.trim().eq_ignore_ascii_case("ENABLED=yes")) {
        found.retain(|unit| unit != "ufw.service");
    }
    Ok(found)
}

pub(super) fn fapolicyd(machine: &Machine) -> Result<bool, OpError> {
    Ok(!active(machine, &["fapolicyd.service"])?.is_empty())
}

pub(super) fn time(machine: &Machine) -> Result<Vec<String>, OpError> {
    active(machine, &TIME)
}

/// chronyd.service and ntp.service can be other names of a unit; each name that is active is listed.
fn active(machine: &Machine, units: &[&str]) -> Result<Vec<String>, OpError> {
    let mut found = Vec::new();
    for unit in units {
        if systemd::show(machine, unit)?.active() {
            found.push((*unit).to_owned());
        }
    }
    Ok(found)
}
