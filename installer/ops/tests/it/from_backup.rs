//! `kubeadm init` of a cluster that is made from a backup: with the data of the backup, whenever it is interrupted, and without the nodes
//! in it.

use std::collections::BTreeMap;

use age::secrecy::ExposeSecret as _;
use kubexm_ops::fake::RootedSystem;
use kubexm_ops::{Machine, dispatch};
use kubexm_plan::SlotName;
use kubexm_plan::backup::FROM_BACKUP;
use kubexm_plan::op::{KubeadmInit, KubeadmReset, Op, RestoredEtcd};
use kubexm_spec::Digest;

use crate::backup::{archive, key};
use crate::common::{Host, same};

const SOCKET: &str = "unix:///run/containerd/containerd.sock";
const DATA: &str = "/var/lib/etcd/member/snap/db";
/// In kubeadm's config of the fake.
const NODE: &str = "node1";
const OLD: &str = "double: etcd's data\nnodes: old1 old2\n";

fn init(backup: Option<RestoredEtcd>) -> Op {
    KubeadmInit { config: "/etc/kubexm/kubeadm.yaml".into(), cri_socket: SOCKET.into(), ignore: vec![], backup }.into()
}

/// An archive of another host's etcd, which has two nodes.
fn backed_up(key: &age::x25519::Identity) -> Vec<u8> {
    let old = Host::fresh();
    old.ready_for_init();
    dispatch::converge(&init(None), &old.machine).expect("init");
    old.put(DATA, OLD);
    archive(&old, key)
}

struct Site {
    host: Host,
    machine: Machine,
    op: Op,
}

fn site() -> Site {
    let key = key();
    let bytes = backed_up(&key);
    let host = Host::fresh();
    host.ready_for_init();
    let archive: Digest = host.blob(bytes);
    let slot = SlotName("backup-key".to_owned());
    let slots = BTreeMap::from([(slot.clone(), key.to_string().expose_secret().as_bytes().to_vec())]);
    let machine = host.machine.with_slots(slots);
    let backup = RestoredEtcd {
        archive,
        slots: vec![slot],
        id: "1795642200".to_owned(),
        node: NODE.to_owned(),
        peer: "https://10.0.0.11:2380".to_owned(),
        endpoint: None,
    };
    Site { op: init(Some(backup)), host, machine }
}

fn nodes(host: &Host) -> Vec<String> {
    RootedSystem::new(host.machine.root()).nodes().expect("a state")
}

#[test]
fn an_init_from_a_backup_has_its_data_and_not_the_nodes_in_it() {
    let Site { host, machine, op } = site();
    dispatch::converge(&op, &machine).expect("init");
    assert_eq!(host.read(DATA), OLD);
    assert_eq!(nodes(&host), [NODE]);
    assert!(dispatch::observe(&op, &machine).expect("observed").satisfied);
    let left: Vec<_> = std::fs::read_dir(machine.path("/var/lib/etcd")).expect("a folder").collect();
    assert_eq!(left.len(), 1, "the snapshot, which is not encrypted, is gone: {left:?}");
}

#[test]
fn an_init_from_a_backup_that_was_killed_is_repeated_with_the_data_and_never_without_it() {
    let Site { host, machine, op } = site();
    host.put("/run/kubexm-double/kill-kubeadm-init", "");
    dispatch::converge(&op, &machine).expect_err("half-way");
    assert!(!dispatch::observe(&op, &machine).expect("observed").satisfied);
    dispatch::converge(&op, &machine).expect("init");
    assert_eq!(host.read(DATA), OLD);
    assert_eq!(nodes(&host), [NODE]);
}

#[test]
fn an_init_without_the_backup_is_refused_on_a_host_of_a_cluster_that_is_made_from_one() {
    let Site { host, machine, .. } = site();
    host.put(FROM_BACKUP, "{}");
    let error = dispatch::converge(&init(None), &machine).expect_err("an empty cluster").full();
    assert!(error.contains("create --from-backup"), "{error}");
    assert!(!machine.path(DATA).exists());
}

#[test]
fn an_archive_that_cannot_be_opened_starts_nothing_and_a_reset_leaves_the_host_as_it_was() {
    let Site { host, machine, op } = site();
    let before = host.tree();
    let other =
        BTreeMap::from([(SlotName("backup-key".to_owned()), key().to_string().expose_secret().as_bytes().to_vec())]);
    let error = dispatch::converge(&op, &machine.with_slots(other)).expect_err("another key").full();
    assert!(error.contains("archive of the backup cannot be used"), "{error}");
    assert!(nodes(&host).is_empty());
    let reset = Op::from(KubeadmReset { cri_socket: SOCKET.into() });
    dispatch::converge(&reset, &host.machine).expect("reset");
    let mut after = host.tree();
    after.retain(|path, _| before.contains_key(path) || !path.starts_with("var/lib/etcd"));
    same(&before, &after, "a reset");
}
