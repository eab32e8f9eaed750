//! Programs can be executed where they are installed (no `noexec` mount).

use super::input::PreflightInput;
use super::report::{Report, word};
use super::space::disk_of;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for host in &input.hosts {
        // Facts know the usual folders alone; programs of images run from the runtime's.
        let folder = input.cx.cluster.runtime.own_folder().filter(|_| host.roles.in_cluster());
        let disk = folder.and_then(|folder| disk_of(&host.facts.disks, folder)).filter(|disk| disk.noexec);
        let own = disk.map(|disk| &disk.mount).filter(|mount| !host.facts.noexec.contains(mount));
        for mount in host.facts.noexec.iter().chain(own) {
            report.fail(
                host.name(),
                format!("{mount} mounted noexec"),
                "a mount that programs may run from",
                format!("`mount -o remount,exec {}`, and the same in /etc/fstab", word(mount)),
            );
        }
    }
}
