//! systemd is new enough to run kubexm's steps.

use super::input::PreflightInput;
use super::report::Report;

/// kubeadm, apt and dnf run in transient units that outlive the agent, with their own time limit and log:
/// `RuntimeMaxSec=` of 229, `StandardOutput=file:` of 236 (systemd's NEWS). 239 is the oldest of the systems in the
/// support table that has both.
const OLDEST: u32 = 239;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for host in &input.hosts {
        if let Some(version) = host.facts.systemd.filter(|version| *version < OLDEST) {
            report.fail(
                host.name(),
                format!("systemd {version}"),
                format!(
                    "{OLDEST} or newer, which starts kubeadm, apt and dnf in units with a limit and a log of their own"
                ),
                "use a host with a newer release of its system: systemd cannot be upgraded alone",
            );
        }
    }
}
