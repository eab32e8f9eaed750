//! A snapshot of etcd is kept only if it is whole and was taken from a healthy member.

#![allow(clippy::expect_used, clippy::panic, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::os::unix::fs::PermissionsExt as _;

use kubexm_ops::fake::RootedSystem;
use kubexm_ops::{dispatch, snapshot};
use kubexm_plan::op::{EtcdSnapshot, KubeadmInit, Op, SNAPSHOTS};

use crate::common::Host;

fn control_plane() -> Host {
    let host = Host::fresh();
    host.ready_for_init();
    let (config, cri_socket) = ("/etc/kubexm/kubeadm.yaml".into(), "unix:///run/containerd/containerd.sock".to_owned());
    dispatch::converge(&Op::from(KubeadmInit { config, cri_socket, ignore: vec![], backup: None }), &host.machine)
        .expect("init");
    host
}

fn op() -> EtcdSnapshot {
    EtcdSnapshot { name: "before-upgrade".to_owned() }
}

fn files(host: &Host) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(host.machine.path(SNAPSHOTS)) else { return Vec::new() };
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

fn refused(host: &Host, words: &str) {
    let error = dispatch::converge(&op().into(), &host.machine).expect_err(words).full();
    assert!(error.contains(words), "{error}");
    assert!(files(host).is_empty(), "{:?}", files(host));
}

#[test]
fn a_snapshot_has_its_checksum_and_is_roots_alone() {
    let host = control_plane();
    dispatch::converge(&op().into(), &host.machine).expect("a snapshot");
    let path = host.machine.path(op().path());
    assert!(snapshot::is_sound(&path).expect("a look"));
    assert_eq!(snapshot::status(&host.machine, &op().path()).expect("a status").revision, 7);
    let folder = path.parent().expect("a folder").metadata().expect("a folder").permissions().mode() & 0o777;
    assert_eq!((folder, files(&host)), (0o700, vec!["before-upgrade.db".to_owned()]));
}

#[test]
fn one_that_was_cut_off_is_an_error_and_is_not_kept() {
    let host = control_plane();
    host.put("/run/kubexm-double/cut-snapshot", "");
    refused(&host, "does not match its checksum");
}

#[test]
fn a_member_without_a_leader_gives_none() {
    let host = control_plane();
    RootedSystem::new(host.machine.root()).kill_member("node1").expect("a state");
    refused(&host, "Connection refused");
}

#[test]
fn a_full_disk_is_found_before_it_begins() {
    let host = control_plane();
    host.put("/run/kubexm-double/space.json", r#"{"/": [1048576, 1073741824]}"#);
    refused(&host, "make room");
}

#[test]
fn a_damaged_snapshot_of_the_name_is_replaced() {
    let host = control_plane();
    host.put(&op().path(), "no snapshot");
    assert!(!dispatch::observe(&op().into(), &host.machine).expect("a look").satisfied);
    dispatch::converge(&op().into(), &host.machine).expect("a snapshot");
    assert!(dispatch::observe(&op().into(), &host.machine).expect("a look").satisfied);
}
