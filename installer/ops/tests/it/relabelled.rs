//! With SELinux what is written gets the policy's label: what was renamed, or linked, has that of the place where it was made.

use crate::common::Host;
use kubexm_ops::fake::{FOLDER, RELABELLED};
use kubexm_ops::{Wave, dispatch};
use kubexm_plan::op::{Dir, Kubeconfig, Link, Op, RegistryLayout};
use kubexm_spec::depot::Repository;

const ADMIN: &str = "apiVersion: v1\nkind: Config\n";

/// A file, a folder, a kubeconfig in a home, and a registry's data with names of the store's blobs.
fn written(host: &mut Host) -> String {
    let uid = rustix::process::geteuid().as_raw();
    host.put("/etc/kubernetes/admin.conf", ADMIN);
    host.put("/etc/passwd", format!("alice:x:{uid}:{uid}::/home/alice:/bin/sh\n"));
    std::fs::create_dir_all(host.machine.path("/home/alice")).unwrap();
    let layer = host.blob("a layer");
    let repository = Repository { blobs: [layer].into(), ..Repository::default() };
    let layout =
        RegistryLayout { data_dir: "/mnt/registry".into(), repositories: [("a".to_owned(), repository)].into() };
    let ops: [Op; 4] = [
        host.file("/etc/kubexm/x.conf", "x\n").into(),
        Dir { path: "/var/lib/x".into(), mode: 0o755 }.into(),
        Kubeconfig { user: "alice".into(), replaces: None }.into(),
        layout.into(),
    ];
    for op in ops {
        dispatch::converge(&op, &host.machine).unwrap();
    }
    format!("/mnt/registry/docker/registry/v2/blobs/sha256/{}/{}/data", &layer.hex()[..2], layer.hex())
}

#[test]
fn what_is_written_renamed_or_linked_gets_the_label_of_the_policy() {
    let mut host = Host::fresh();
    host.put("/sys/fs/selinux/enforce", "1");
    let blob = written(&mut host);
    let linked = std::os::unix::fs::MetadataExt::nlink(&host.machine.path(&blob).metadata().unwrap());
    assert_eq!(linked, 2, "it has a second name, and no bytes of its own");
    let relabelled = host.read(&format!("{FOLDER}/{RELABELLED}"));
    for path in ["/etc/kubexm/x.conf", "/var/lib/x", "/home/alice/.kube/config", &blob] {
        assert!(relabelled.lines().any(|line| line == path), "{path} is not among:\n{relabelled}");
    }
}

#[test]
fn without_selinux_nothing_is_relabelled() {
    let mut host = Host::fresh();
    written(&mut host);
    assert!(!host.machine.path(format!("{FOLDER}/{RELABELLED}")).exists());
}

/// A link, and a folder that a rollback gives its mode again.
#[test]
fn links_and_what_a_rollback_brings_back_get_it_too() {
    let host = Host::fresh();
    host.put("/sys/fs/selinux/enforce", "1");
    host.put("/etc/kept/file", "x");
    let kept: Op = Dir { path: "/etc/kept".into(), mode: 0o700 }.into();
    let before = dispatch::observe(&kept, &host.machine).unwrap();
    dispatch::converge(&kept, &host.machine).unwrap();
    std::fs::remove_file(host.machine.path(format!("{FOLDER}/{RELABELLED}"))).unwrap();
    let link: Op = Link { path: "/etc/kubexm/link".into(), target: "/etc/kept".into(), accepted: Vec::new() }.into();
    dispatch::converge(&link, &host.machine).unwrap();
    dispatch::restore(&kept, &host.machine, &before, Wave::Data).unwrap();
    let relabelled = host.read(&format!("{FOLDER}/{RELABELLED}"));
    for path in ["/etc/kubexm/link", "/etc/kept"] {
        assert!(relabelled.lines().any(|line| line == path), "{path} is not among:\n{relabelled}");
    }
}
