//! Clocks agree, and something keeps them so. Certificates and etcd do not forgive a clock that is off.

use super::{Report, Site};

/// Between any two of controller and nodes.
const SKEW_MS: u64 = 2_000;

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    // The controller's clock is the zero of the offsets, measured without a round trip.
    let mut clocks = vec![("the controller", 0_i64, 0_u64)];
    clocks.extend(site.hosts.iter().map(|s| (s.name(), s.facts.clock_offset_ms, s.facts.round_trip_ms)));
    for (index, (one, offset, trip)) in clocks.iter().enumerate() {
        for (other, other_offset, other_trip) in &clocks[index + 1..] {
            let allowed = SKEW_MS.saturating_add(trip / 2).saturating_add(other_trip / 2);
            let skew = offset.abs_diff(*other_offset);
            if skew > allowed {
                report.fail(
                    other,
                    format!("a clock {}.{} s away from that of {one}", skew / 1_000, skew % 1_000 / 100),
                    "2 s or less",
                    "set the clock (`timedatectl set-time`), or run a time service that reaches a server",
                );
            }
        }
    }
    for seen in site.hosts.iter().filter(|s| s.facts.time_services.is_empty()) {
        report.warn(
            seen.name(),
            "no active time service",
            "chronyd, ntpd or systemd-timesyncd",
            "clocks drift apart without one: set it up with a server inside the network",
        );
    }
}
