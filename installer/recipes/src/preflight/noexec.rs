//! Programs can be executed where they are installed (no `noexec` mount).

use super::input::PreflightInput;
use super::report::Report;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for host in &input.hosts {
        for mount in &host.facts.noexec {
            report.fail(
                host.name(),
                format!("{mount} mounted noexec"),
                "a mount that programs may run from",
                format!("`mount -o remount,exec {mount}`, and the same in /etc/fstab"),
            );
        }
    }
}
