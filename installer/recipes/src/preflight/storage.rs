//! Nodes can mount the volumes of `spec.storage`.

use super::input::PreflightInput;
use super::report::Report;

/// The program by which mount(8) mounts NFS; kubelet calls mount.
const MOUNT_NFS: &str = "mount.nfs";

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    if input.cx.cluster.storage.nfs.is_none() {
        return;
    }
    for host in input.nodes() {
        let has = host.facts.programs.get(MOUNT_NFS).is_some_and(Option::is_some)
            || host.planned_packages().is_some_and(|planned| planned.brings(MOUNT_NFS));
        // The check of packages names those that cannot be installed.
        if !has && host.packages.is_ok() {
            report.fail(
                host.name(),
                "no mount.nfs",
                "mount.nfs, by which volumes of `spec.storage.nfs` are mounted",
                "install nfs-common (Debian, Ubuntu) or nfs-utils (Red Hat and its kin), or name the system in `spec.bundle.os` and \
                 build the bundle again: it then contains them",
            );
        }
    }
}
