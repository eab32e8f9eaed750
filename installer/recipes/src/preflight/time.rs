//! Clocks are synchronised, and a time service is active. Certificates and etcd need correct clocks.

use super::input::{ObservedHost, PreflightInput};
use super::report::Report;
use crate::modules::time;

/// Largest difference between any two of controller and nodes.
const SKEW_MS: u64 = 2_000;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    // Offsets are relative to the controller's clock, which is read without a round trip.
    let mut clocks = vec![("the controller", 0_i64, 0_u64)];
    clocks.extend(input.hosts.iter().map(|s| (s.name(), s.facts.clock_offset_ms, s.facts.round_trip_ms)));
    for (index, (one, offset, trip)) in clocks.iter().enumerate() {
        for (other, other_offset, other_trip) in &clocks[index + 1..] {
            let allowed = SKEW_MS.saturating_add(trip / 2).saturating_add(other_trip / 2);
            let skew = offset.abs_diff(*other_offset);
            if skew > allowed {
                report.fail(
                    other,
                    format!("a clock that differs from that of {one} by {}.{} s", skew / 1_000, skew % 1_000 / 100),
                    "2 s or less",
                    "set the clock (`timedatectl set-time`), or run a time service that reaches a server",
                );
            }
        }
    }
    if !input.cx.cluster.system.ntp_servers.is_empty() {
        return input.hosts.iter().for_each(|host| report_clock(host, report));
    }
    for host in input.hosts.iter().filter(|s| s.facts.time_services.is_empty()) {
        report.warn(
            host.name(),
            "no active time service",
            "chronyd, ntpd or systemd-timesyncd",
            "clocks drift apart without one: set it up with a server inside the network",
        );
    }
}

/// Findings about a host's time services if `spec.system.ntpServers` is set.
fn report_clock(host: &ObservedHost<'_>, report: &mut Report) {
    let (name, to_install) = (host.name(), host.planned_packages());
    if !time::has_chrony(host.facts, to_install) {
        report.fail(
            name,
            "no chronyd",
            "chrony, which `spec.system.ntpServers` sets up",
            "add the system to `spec.bundle.os` and build the bundle again (it then contains chrony, unless \
             `system.osPackages: none`), install chrony yourself, or leave `ntpServers` out",
        );
    }
    // An earlier run of kubexm has configured chrony.
    if host.ours {
        return;
    }
    let back = "it is restored when the run is rolled back or the cluster is reset; leave `ntpServers` out to keep it";
    let others = time::others(host.facts, to_install);
    if !others.is_empty() {
        report.warn(
            name,
            format!("{}, which will be stopped and disabled", others.join(", ")),
            "chrony alone to set the clock",
            back,
        );
    }
    if time::runs_chrony(host.facts) {
        let needed = "the servers of `spec.system.ntpServers` alone";
        report.warn(name, "chrony, whose configuration file will be replaced", needed, back);
    }
}
