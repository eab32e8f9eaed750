//! Active firewalls, time services and fapolicyd.

use crate::{Machine, OpError, fsio, systemd};

const FIREWALLS: [&str; 4] = ["firewalld.service", "ufw.service", "nftables.service", "iptables.service"];
/// chronyd.service and ntp.service may be aliases of a unit; every active name is listed.
const TIME: [&str; 7] = [
    "chrony.service",
    "chronyd.service",
    "ntp.service",
    "ntpd.service",
    "ntpsec.service",
    "openntpd.service",
    "systemd-timesyncd.service",
];
const FAPOLICYD: &str = "fapolicyd.service";

/// Active services that matter, by the names of their units.
pub(super) struct Services {
    pub firewalls: Vec<String>,
    pub time: Vec<String>,
    pub fapolicyd: bool,
}

/// One query for all of them.
pub(super) fn look(machine: &Machine) -> Result<Services, OpError> {
    let units: Vec<&str> = FIREWALLS.into_iter().chain(TIME).chain([FAPOLICYD]).collect();
    let shown = systemd::show_all(machine, &units)?;
    let active: Vec<&str> = units.iter().zip(&shown).filter(|(_, s)| s.active()).map(|(unit, _)| *unit).collect();
    let of = |wanted: &[&str]| -> Vec<String> {
        wanted.iter().filter(|unit| active.contains(*unit)).map(|unit| (*unit).to_owned()).collect()
    };
    let mut firewalls = of(&FIREWALLS);
    // Ubuntu starts ufw.service at every boot, but it only acts if this file enables it.
    let ufw = fsio::read_text(&machine.path("/etc/ufw/ufw.conf"))?.unwrap_or_default();
    if !ufw.lines().any(|line| line.trim().eq_ignore_ascii_case("ENABLED=yes")) {
        firewalls.retain(|unit| unit != "ufw.service");
    }
    Ok(Services { firewalls, time: of(&TIME), fapolicyd: active.contains(&FAPOLICYD) })
}
