//! Programs can be executed where they are installed (no `noexec` mount).

use super::report::Report;
use super::site::Site;

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    for host in &site.hosts {
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
