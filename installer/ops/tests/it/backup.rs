//! A backup of a control plane, and its restore on a member: what etcd had is replaced, and a rollback brings it back.

#![allow(clippy::expect_used, clippy::panic, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use age::secrecy::ExposeSecret as _;
use kubexm_ops::fake::RootedSystem;
use kubexm_ops::{Machine, Wave, backup, dispatch};
use kubexm_plan::backup::{BackupAnswer, BackupAsk};
use kubexm_plan::op::{EtcdRestored, KubeadmInit, Op, RestorePhase, RestoredHost, SNAPSHOTS};
use kubexm_plan::{ObservedState, SlotName};
use kubexm_spec::Digest;
use kubexm_spec::cluster::RuntimeKind;

use crate::common::{Host, same};

const DATA: &str = "/var/lib/etcd/member/snap/db";
const NAME: &str = "lab-1";

fn control_plane() -> Host {
    let host = Host::fresh();
    host.ready_for_init();
    let (config, cri_socket) = ("/etc/kubexm/kubeadm.yaml".into(), "unix:///run/containerd/containerd.sock".to_owned());
    dispatch::converge(&Op::from(KubeadmInit { config, cri_socket, ignore: vec![], backup: None }), &host.machine)
        .expect("init");
    host.put("/etc/kubexm/authorities.json", "sealed");
    host
}

pub(crate) fn key() -> age::x25519::Identity {
    age::x25519::Identity::generate()
}

/// The bytes of an archive that is made and forgotten.
pub(crate) fn archive(host: &Host, key: &age::x25519::Identity) -> Vec<u8> {
    let ask = |ask: BackupAsk| backup::answer(&host.machine, &ask).unwrap_or_else(|error| panic!("{}", error.full()));
    let (name, recipient) = (NAME.to_owned(), key.to_public().to_string());
    let BackupAnswer::Made { archive, etcd } = ask(BackupAsk::Make { name: name.clone(), recipient }) else {
        panic!("another answer")
    };
    assert_eq!((etcd.revision, etcd.keys), (7, 3));
    let mut bytes = Vec::new();
    loop {
        let offset = bytes.len() as u64;
        let BackupAnswer::Bytes { bytes: more } = ask(BackupAsk::Read { name: name.clone(), offset }) else {
            panic!("another answer")
        };
        if more.is_empty() {
            break;
        }
        bytes.extend(more);
    }
    assert_eq!((bytes.len() as u64, Digest::of(&bytes)), (archive.size, archive.sha256));
    assert_eq!(ask(BackupAsk::Forget { name }), BackupAnswer::Forgotten);
    bytes
}

fn members(archive: &[u8], key: &age::x25519::Identity) -> BTreeMap<String, Vec<u8>> {
    let plain = age::decrypt(key, archive).expect("what was encrypted for the key");
    let mut tar = tar::Archive::new(plain.as_slice());
    let entries = tar.entries().expect("a tar").map(|entry| {
        let mut entry = entry.expect("an entry");
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).expect("bytes");
        (entry.path().expect("a path").display().to_string(), bytes)
    });
    entries.collect()
}

#[test]
fn an_archive_has_etcd_the_keys_of_the_authorities_and_our_state_and_leaves_nothing_on_the_host() {
    let host = control_plane();
    host.put("/etc/kubernetes/pki/ca.key", "the CA's key");
    let before = host.tree();
    let key = key();
    let bytes = archive(&host, &key);
    same(&before, &host.tree(), "a backup");
    assert!(!String::from_utf8_lossy(&bytes).contains("the CA's key"), "it is not encrypted");
    let members = members(&bytes, &key);
    for name in [
        "etcd.db",
        "files/etc/kubernetes/pki/ca.key",
        "files/etc/kubernetes/manifests/etcd.yaml",
        "files/etc/kubexm/authorities.json",
    ] {
        assert!(members.contains_key(name), "{name} is not in {:?}", members.keys());
    }
}

/// What the API server asks with is below a folder of others.
#[test]
fn an_archive_beside_an_etcd_of_others_has_what_the_api_server_asks_it_with() {
    let host = control_plane();
    let manifest = host.read("/etc/kubernetes/manifests/kube-apiserver.yaml");
    let ssl = "/etc/ssl/etcd/ssl";
    let flags = format!(
        "{manifest}    - --etcd-servers=https://127.0.0.1:2379\n    - --etcd-cafile=/etc/kubernetes/pki/etcd/ca.crt\n    - \
         --etcd-certfile={ssl}/node-a1.pem\n    - --etcd-keyfile={ssl}/../ssl/node-a1-key.pem\n"
    );
    host.put("/etc/kubernetes/manifests/kube-apiserver.yaml", flags);
    host.put(&format!("{ssl}/archive/node-a1.pem"), "theirs");
    symlink("archive/node-a1.pem", host.machine.path(format!("{ssl}/node-a1.pem"))).expect("a link");
    host.put(&format!("{ssl}/node-a1-key.pem"), "a path that leads about is left out");
    host.put(&format!("{ssl}/member-a1-key.pem"), "not the API server's");
    let key = key();
    let members = members(&archive(&host, &key), &key);
    let of_etcd: Vec<_> = members.keys().filter(|name| name.contains("etc/ssl")).collect();
    assert_eq!(of_etcd, ["files/etc/ssl/etcd/ssl/node-a1.pem"]);
    assert_eq!(members["files/etc/ssl/etcd/ssl/node-a1.pem"], b"theirs");
}

#[test]
fn a_backup_that_fails_leaves_no_snapshot_and_no_archive() {
    let host = control_plane();
    host.put("/run/kubexm-double/cut-snapshot", "");
    let ask = BackupAsk::Make { name: NAME.to_owned(), recipient: key().to_public().to_string() };
    let error = backup::answer(&host.machine, &ask).expect_err("a cut snapshot").full();
    assert!(error.contains("checksum"), "{error}");
    let left = std::fs::read_dir(host.machine.path(SNAPSHOTS)).map(Iterator::count).unwrap_or(0);
    assert_eq!(left, 0);
}

#[test]
fn what_a_killed_backup_or_restore_has_left_in_clear_goes_with_the_next_one_and_nothing_else_does() {
    let left = ["lab-0.backup.db", "lab-0.scratch/member/snap/db", ".lab-0.backup.partial", "restore-0.db"];
    for restores in [false, true] {
        let (host, key) = (control_plane(), key());
        let digest = host.blob(archive(&host, &key));
        for name in left.iter().chain(&["upgrade-1.db", "notes"]) {
            host.put(&format!("{SNAPSHOTS}/{name}"), "every Secret");
        }
        match restores {
            true => drop(carry_out(&phases(digest)[..2], &with_key(&host, &key))),
            false => drop(archive(&host, &key)),
        }
        let entries = std::fs::read_dir(host.machine.path(SNAPSHOTS)).expect("a folder");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        assert_eq!(names, ["notes", "upgrade-1.db"], "a restore: {restores}");
    }
}

#[test]
fn a_name_that_leads_elsewhere_is_refused() {
    let host = control_plane();
    for name in ["../../etc/shadow", "/etc/shadow", ".."] {
        let error =
            backup::answer(&host.machine, &BackupAsk::Read { name: name.to_owned(), offset: 0 }).expect_err(name);
        assert!(error.full().contains("is no name of a backup"), "{}", error.full());
    }
}

fn phases(archive: Digest) -> [Op; 3] {
    phases_on(archive, RestoredHost::Stacked)
}

pub(crate) fn phases_on(archive: Digest, on: RestoredHost) -> [Op; 3] {
    let data = RestorePhase::Data {
        archive,
        slots: vec![SlotName("key".to_owned())],
        name: "node1".to_owned(),
        peer: "https://10.0.0.1:2380".to_owned(),
        initial_cluster: "node1=https://10.0.0.1:2380".to_owned(),
    };
    [RestorePhase::Stopped, data, RestorePhase::Started]
        .map(|phase| EtcdRestored { id: "1".to_owned(), runtime: RuntimeKind::Containerd, on, phase }.into())
}

pub(crate) fn with_key(host: &Host, key: &age::x25519::Identity) -> Machine {
    let secret = key.to_string().expose_secret().as_bytes().to_vec();
    host.machine.with_slots([(SlotName("key".to_owned()), secret)].into())
}

pub(crate) fn carry_out(ops: &[Op], machine: &Machine) -> Vec<ObservedState> {
    let mut found = Vec::new();
    for op in ops {
        found.push(dispatch::observe(op, machine).expect("a look"));
        dispatch::keep(op, machine).expect("keep");
        dispatch::converge(op, machine).unwrap_or_else(|error| panic!("{op}: {}", error.full()));
        assert!(dispatch::observe(op, machine).expect("a look").satisfied, "{op}");
    }
    found
}

pub(crate) fn roll_back(ops: &[Op], found: &[ObservedState], machine: &Machine) {
    for wave in Wave::ALL {
        for (op, found) in ops.iter().zip(found).rev() {
            dispatch::restore(op, machine, found, wave).unwrap_or_else(|error| panic!("{op}: {}", error.full()));
        }
    }
}

fn runs(host: &Host, pod: &str) -> bool {
    RootedSystem::new(host.machine.root()).read_by(pod).expect("a state").is_some()
}

#[test]
fn etcd_gets_the_data_of_the_backup_after_all_of_it_is_lost() {
    let (host, key) = (control_plane(), key());
    host.put(DATA, "the objects of before");
    let digest = host.blob(archive(&host, &key));
    std::fs::remove_dir_all(host.machine.path("/var/lib/etcd")).expect("lost");
    let machine = with_key(&host, &key);
    let [stop, data, start] = phases(digest);
    carry_out(&[stop], &machine);
    assert!(!runs(&host, "etcd") && !runs(&host, "kube-apiserver"));
    carry_out(&[data, start], &machine);
    assert_eq!(host.read(DATA), "the objects of before");
    assert!(!host.machine.path(SNAPSHOTS).exists(), "the snapshot, which is not encrypted, stays");
}

#[test]
fn an_etcdutl_that_cannot_raise_revisions_is_found_before_anything_stops() {
    let (host, key) = (control_plane(), key());
    let digest = host.blob(archive(&host, &key));
    host.put("/run/kubexm-double/old-etcdutl", "");
    let before = host.tree();
    let error = dispatch::converge(&phases(digest)[0], &with_key(&host, &key)).expect_err("too old").full();
    assert!(error.contains("--bump-revision"), "{error}");
    same(&before, &host.tree(), "a refused restore");
}

#[test]
fn a_rollback_brings_back_what_etcd_had_and_starts_it() {
    for lost in [false, true] {
        let (host, key) = (control_plane(), key());
        let digest = host.blob(archive(&host, &key));
        host.put(DATA, "written since");
        if lost {
            std::fs::remove_dir_all(host.machine.path("/var/lib/etcd/member")).expect("lost");
        }
        let (before, machine, ops) = (host.tree(), with_key(&host, &key), phases(digest));
        let found = carry_out(&ops, &machine);
        roll_back(&ops, &found, &machine);
        same(&before, &host.tree(), &format!("a rollback, lost: {lost}"));
        roll_back(&ops, &found, &machine);
        same(&before, &host.tree(), "a second rollback");
    }
}

#[test]
fn an_attempt_that_was_interrupted_keeps_the_earlier_data_and_not_its_own() {
    let (host, key) = (control_plane(), key());
    let digest = host.blob(archive(&host, &key));
    host.put(DATA, "written since");
    let (machine, ops) = (with_key(&host, &key), phases(digest));
    let found = carry_out(&ops[..2], &machine);
    // Killed before its mark.
    std::fs::remove_file(host.machine.path("/var/lib/kubexm/acts/restore-1-data")).expect("a mark");
    carry_out(&ops[1..2], &machine);
    roll_back(&ops[..2], &found, &machine);
    assert_eq!(host.read(DATA), "written since");
}

#[test]
fn an_archive_that_was_altered_or_a_wrong_key_changes_nothing() {
    let (host, right) = (control_plane(), key());
    let bytes = archive(&host, &right);
    let mut altered = bytes.clone();
    let last = altered.len() - 40;
    altered[last] ^= 1;
    for (bytes, key) in [(altered, right), (bytes, key())] {
        let digest = host.blob(bytes);
        let before = host.tree();
        let machine = with_key(&host, &key);
        let [_, data, _] = phases(digest);
        let error = dispatch::converge(&data, &machine).expect_err("no data").full();
        assert!(error.contains("the archive of the backup cannot be used") || error.contains("cannot"), "{error}");
        assert!(!error.contains("AGE-SECRET"), "{error}");
        same(&before, &host.tree(), "a failed restore");
    }
}
