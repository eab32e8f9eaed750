//! Every host has the time zone that cluster.yaml names.

use kubexm_plan::op::ZONES;

use super::input::PreflightInput;
use super::report::Report;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let Some(zone) = &input.cx.cluster.system.timezone else { return };
    for host in input.hosts.iter().filter(|host| !host.facts.timezones.contains(zone)) {
        let (found, fix) = if host.facts.timezones.is_empty() {
            (format!("no time zones in {ZONES}"), "install the package tzdata there, or leave out spec.system.timezone")
        } else {
            (
                format!("no time zone {zone:?}"),
                "name one that `timedatectl list-timezones` shows there; old names (US/Pacific) may be in a package of their \
                 own, tzdata-legacy",
            )
        };
        report.fail(host.name(), found, format!("{ZONES}/{zone}, which spec.system.timezone names"), fix);
    }
}
