//! Firewalls, time services and fapolicyd, when they are active.

use crate::{Machine, OpError, fsio, systemd};

const FIREWALLS: [&str; 4] = ["firewalld.service", "ufw.service", "nftables.service", "iptables.service"];
/// chronyd.service and ntp.service can be other names of a unit; each name that is active is listed.
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

/// What is active of the services that matter, by the name of its unit.
pub(super) struct Services {
    pub firewalls: Vec<String>,
    pub time: Vec<String>,
    pub fapolicyd: bool,
}

/// One question for all of them.
pub(super) fn look(machine: &Machine) -> Result<Services, OpError> {
    let units: Vec<&str> = FIREWALLS.into_iter().chain(TIME).chain([FAPOLICYD]).collect();
    let shown = systemd::show_all(machine, &units)?;
    let active: Vec<&str> = units.iter().zip(&shown).filter(|(_, s)| s.active()).map(|(unit, _)| *unit).collect();
    let of = |wanted: &[&str]| -> Vec<String> {
        wanted.iter().filter(|unit| active.contains(*unit)).map(|unit| (*unit).to_owned()).collect()
    };
    let mut firewalls = of(&FIREWALLS);
    // Ubuntu runs ufw.service at every boot; it does something only when this says so.
    let ufw = fsio::read_text(&machine.path("/etc/ufw/ufw.conf"))?.unwrap_or_default();
    if !ufw.lines().any(|line| line.trim().eq_ignore_ascii_case("ENABLED=yes")) {
        firewalls.retain(|unit| unit != "ufw.service");
    }
    Ok(Services { firewalls, time: of(&TIME), fapolicyd: active.contains(&FAPOLICYD) })
}
