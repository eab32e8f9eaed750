//! Containers and mounts of isulad.

use kubexm_ops::teardown::{foreign, mounts, unmount};

use super::{mounted, pids, process};
use crate::common::Host;

#[test]
fn containers_that_isulad_starts_with_kubexms_runc_end_and_those_of_another_stay() {
    let host = Host::fresh();
    let of = |runc: &'static str, exec: bool| {
        let mut all = vec!["isulad-shim", "0123", "/var/lib/isulad/engines/x/0123", runc, "info"];
        all.extend(exec.then_some("10"));
        all
    };
    let ours = "/usr/local/lib/kubexm-isulad/runc";
    process(&host, 1, 0, "systemd", &["/sbin/init"], "/init.scope");
    process(&host, 10, 1, "isulad-shim", &of(ours, false), "/system.slice/isulad.service");
    process(&host, 11, 10, "pause", &["/pause"], "/elsewhere");
    process(&host, 12, 1, "isulad-shim", &of(ours, true), "/system.slice/isulad.service");
    process(&host, 20, 1, "isulad-shim", &of("runc", false), "/system.slice/isulad.service");
    process(&host, 21, 20, "nginx", &["nginx"], "/isulad/1");
    assert_eq!(pids(&host.machine), [10, 11, 12]);
}

/// It is there while isulad runs: every reset would be refused.
#[test]
fn the_mount_that_isulad_makes_for_itself_goes_and_another_disk_below_it_stays() {
    let host = Host::fresh();
    let own = "/var/lib/isulad/mnt";
    let merged = "/var/lib/isulad/storage/overlay/1/merged";
    mounted(&host, &[(own, "ext4", "/dev/sda1"), (merged, "overlay", "overlay")]);
    assert_eq!(foreign::look(&host.machine, &[]).expect("a look"), []);
    unmount::unmount_below(&host.machine, "/var/lib/isulad").expect("unmounted");
    assert_eq!(mounts::below(&host.machine, "/var/lib/isulad").expect("mounts").len(), 0);
    for theirs in ["/var/lib/isulad/storage", "/var/lib/isulad/mine"] {
        mounted(&host, &[(theirs, "ext4", "/dev/sdb1")]);
        let found = foreign::look(&host.machine, &[]).expect("a look");
        assert_eq!(found.iter().map(|mount| mount.point.as_str()).collect::<Vec<_>>(), [theirs]);
        unmount::unmount_below(&host.machine, "/var/lib/isulad").expect_err("it is the operator's");
    }
}
