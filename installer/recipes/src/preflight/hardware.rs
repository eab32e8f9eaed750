//! CPUs and memory. The thresholds are what machines sold as "4 GB" and "2 GB" report.

use super::report::Report;
use super::site::{Site, gib};

const CPUS: u32 = 2;
/// 3.5 GiB.
const CONTROL_PLANE: u64 = 7 << 29;
/// 1.7 GiB.
const WORKER: u64 = (17_u64 << 30).div_ceil(10);

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    for seen in &site.hosts {
        if seen.facts.cpus < CPUS {
            report.fail(
                seen.name(),
                format!("{} CPU", seen.facts.cpus),
                format!("{CPUS} CPUs or more"),
                "give the machine more CPUs",
            );
        }
        let (role, wanted) = if seen.control_plane { ("control plane", CONTROL_PLANE) } else { ("worker", WORKER) };
        if seen.facts.memory < wanted {
            report.fail(
                seen.name(),
                format!("{} of memory", gib(seen.facts.memory)),
                format!("{} or more on a {role}", gib(wanted)),
                "give the machine more memory",
            );
        }
    }
}
