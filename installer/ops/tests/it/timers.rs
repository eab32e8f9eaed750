//! What the services of timers do on a host.

#![allow(clippy::expect_used, clippy::panic, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_ops::fake::RootedSystem;
use kubexm_ops::{dispatch, snapshot, timers};
use kubexm_plan::kubeadm_certificates::{AUTHORITIES, MANAGED, READ_BY};
use kubexm_plan::op::{KubeadmInit, Kubeconfig, Op};
use kubexm_plan::timers::{BackupConfig, CERTS, CertsConfig, ETCD_BACKUP, TimerRun};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{EtcdKind, RuntimeKind};

use crate::common::Host;

/// In the last quarter of certificates of the year 2026.
const LATE: i64 = 1_792_022_400;
/// Before it.
pub(crate) const EARLY: i64 = 1_789_430_400;
/// After their end.
const AFTER: i64 = 1_801_440_000;
pub(crate) const DIR: &str = "/mnt/backup/etcd";

fn control_plane() -> Host {
    let host = Host::fresh();
    host.ready_for_init();
    let (config, cri_socket) = ("/etc/kubexm/kubeadm.yaml".into(), "unix:///run/containerd/containerd.sock".to_owned());
    dispatch::converge(&Op::from(KubeadmInit { config, cri_socket, ignore: vec![], backup: None }), &host.machine)
        .expect("init");
    host
}

fn backing_up(keep: u32) -> Host {
    backing_up_for(keep, Vec::new())
}

pub(crate) fn backing_up_for(keep: u32, recipients: Vec<String>) -> Host {
    let host = control_plane();
    let config = BackupConfig { name: "demo-0a1b2c3d-node1".to_owned(), dir: DIR.to_owned(), keep, recipients };
    host.put(&ETCD_BACKUP.config(), serde_json::to_string(&config).expect("JSON"));
    host
}

pub(crate) fn back_up(host: &Host, now: i64) -> TimerRun {
    timers::run(&host.machine, ETCD_BACKUP, now).unwrap_or_else(|error| panic!("{}", error.full()))
}

pub(crate) fn files(host: &Host, dir: &str) -> Vec<String> {
    let entries = std::fs::read_dir(host.machine.path(dir)).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub(crate) fn mode(host: &Host, path: &str) -> u32 {
    host.machine.path(path).metadata().expect("a file").permissions().mode() & 0o777
}

#[test]
fn a_backup_is_whole_and_roots_alone_and_the_oldest_goes() {
    let host = backing_up(2);
    let first = back_up(&host, EARLY);
    assert!(!first.failed, "{first:?}");
    let path = format!("{DIR}/etcd-demo-0a1b2c3d-node1-20260915T000000Z.db");
    assert!(first.what.contains(&path), "{first:?}");
    assert!(snapshot::is_sound(&host.machine.path(&path)).expect("a look"));
    assert_eq!((mode(&host, DIR), mode(&host, &path) & 0o077), (0o700, 0));
    // Of another member, which shares the folder, of an operator, and of a service that was killed.
    for other in [
        "etcd-demo-0a1b2c3d-node2-20200101T000000Z.db",
        "etcd-demo-0a1b2c3d-node1-mine.db",
        ".etcd-demo-0a1b2c3d-node1-20260101T000000Z.partial",
    ] {
        host.put(&format!("{DIR}/{other}"), "x");
    }
    back_up(&host, EARLY + 60);
    let third = back_up(&host, EARLY + 120);
    assert!(third.what.contains("1 older removed, 2 kept"), "{third:?}");
    assert_eq!(
        files(&host, DIR),
        [
            "etcd-demo-0a1b2c3d-node1-20260915T000100Z.db",
            "etcd-demo-0a1b2c3d-node1-20260915T000200Z.db",
            "etcd-demo-0a1b2c3d-node1-mine.db",
            "etcd-demo-0a1b2c3d-node2-20200101T000000Z.db"
        ]
    );
}

#[test]
fn backups_of_a_clock_that_was_ahead_go_first_and_the_new_one_stays() {
    let host = backing_up(2);
    for year in [2030, 2031] {
        host.put(&format!("{DIR}/etcd-demo-0a1b2c3d-node1-{year}0101T000000Z.db"), "x");
    }
    // Of an earlier cluster of the same hosts, and of the same name.
    host.put(&format!("{DIR}/etcd-demo-99999999-node1-20200101T000000Z.db"), "x");
    assert!(!back_up(&host, EARLY).failed);
    let names = ["20260915T000000Z", "20310101T000000Z"].map(|time| format!("etcd-demo-0a1b2c3d-node1-{time}.db"));
    let mut wanted = names.to_vec();
    wanted.push("etcd-demo-99999999-node1-20200101T000000Z.db".to_owned());
    assert_eq!(files(&host, DIR), wanted);
}

#[test]
fn another_users_folder_gets_no_backup() {
    let host = backing_up(1);
    std::fs::create_dir_all(host.machine.path(DIR)).expect("a folder");
    let parent = host.machine.path("/mnt/backup");
    if std::os::unix::fs::chown(&parent, Some(1234), Some(1234)).is_err() {
        // Only root can give a folder away.
        return;
    }
    let refused = back_up(&host, EARLY);
    assert!(refused.failed && refused.what.contains("/mnt/backup belongs to another user"), "{refused:?}");
    assert_eq!(files(&host, DIR), Vec::<String>::new());
}

/// Whoever owns a folder that a link leads through can put another one there.
#[test]
fn a_folder_behind_a_link_is_looked_at_where_the_link_leads() {
    let host = backing_up(1);
    let real = host.machine.path("/home/bob/data/etcd");
    std::fs::create_dir_all(&real).expect("a folder");
    std::fs::create_dir_all(host.machine.path("/mnt")).expect("a folder");
    std::os::unix::fs::symlink(host.machine.path("/home/bob/link"), host.machine.path("/mnt/backup")).expect("a link");
    std::os::unix::fs::symlink("data", host.machine.path("/home/bob/link")).expect("a link");
    let bob = host.machine.path("/home/bob");
    if std::os::unix::fs::chown(&bob, Some(54321), Some(54321)).is_err() {
        return;
    }
    let refused = back_up(&host, EARLY);
    assert!(refused.failed && refused.what.contains("/home/bob belongs to another user"), "{refused:?}");
    assert_eq!(std::fs::read_dir(real).expect("a list").count(), 0);
}

#[test]
fn a_folder_that_anybody_could_make_first_gets_no_backup() {
    let host = backing_up(1);
    std::fs::create_dir_all(host.machine.path("/mnt")).expect("a folder");
    std::fs::set_permissions(host.machine.path("/mnt"), std::fs::Permissions::from_mode(0o1777)).expect("a mode");
    let refused = back_up(&host, EARLY);
    assert!(refused.failed && refused.what.contains("/mnt can be written by others"), "{refused:?}");
    assert!(!host.machine.path("/mnt/backup").exists());
}

#[test]
fn a_backup_that_fails_removes_none_and_says_why() {
    let host = backing_up(1);
    back_up(&host, EARLY);
    let before = files(&host, DIR);
    host.put("/run/kubexm-double/cut-snapshot", "");
    let cut = back_up(&host, EARLY + 60);
    assert!(cut.failed && cut.what.contains("does not match its checksum"), "{cut:?}");
    host.put("/run/kubexm-double/space.json", r#"{"/": [1048576, 1073741824]}"#);
    let full = back_up(&host, EARLY + 120);
    assert!(full.failed && full.what.contains(DIR) && full.what.contains("make room"), "{full:?}");
    assert_eq!(files(&host, DIR), before);
    let recorded: TimerRun = serde_json::from_str(&host.read(&ETCD_BACKUP.record())).expect("a record");
    assert_eq!(recorded, full);
    assert_eq!(mode(&host, &ETCD_BACKUP.record()), 0o600);
}

#[test]
fn a_folder_that_others_can_write_to_gets_no_backup() {
    let host = backing_up(1);
    std::fs::create_dir_all(host.machine.path(DIR)).expect("a folder");
    std::fs::set_permissions(host.machine.path(DIR), std::fs::Permissions::from_mode(0o777)).expect("a mode");
    let refused = back_up(&host, EARLY);
    assert!(refused.failed && refused.what.contains("chmod go-w"), "{refused:?}");
    assert_eq!(files(&host, DIR), Vec::<String>::new());
}

#[test]
fn without_the_disk_of_the_earlier_backups_none_is_made_below_its_mount_point() {
    const MOUNTED: &str = "36 25 0:40 / /mnt/backup rw - nfs4 server:/export rw\n";
    let host = backing_up(3);
    host.put("/proc/self/mountinfo", MOUNTED);
    assert_eq!(back_up(&host, EARLY).mount.as_deref(), Some("/mnt/backup"));
    host.put("/proc/self/mountinfo", "");
    for at in [60, 120] {
        let gone = back_up(&host, EARLY + at);
        assert!(
            gone.failed && gone.what.contains("/mnt/backup, which has the earlier backups, is not mounted"),
            "{gone:?}"
        );
    }
    assert_eq!(files(&host, DIR).len(), 1);
    host.put("/proc/self/mountinfo", MOUNTED);
    assert!(!back_up(&host, EARLY + 180).failed);
    assert_eq!(files(&host, DIR).len(), 2);
}

/// Valid to the end of a year.
fn certificate(year: i32) -> String {
    let mut params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    // As kubeadm does it: when its authority begins.
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(year + 1, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    params.self_signed(&key).expect("a certificate").pem()
}

const KEY_FILE: &str = "-----BEGIN KEY-----\n-----END KEY-----\n";

/// As kubeadm writes one: the key is the last thing in it.
fn kubeconfig(pem: &str) -> String {
    let (certificate, key) = (BASE64.encode(pem), BASE64.encode(KEY_FILE));
    format!("    client-certificate-data: {certificate}\n    client-key-data: {key}\n")
}

fn renewing() -> Host {
    let host = control_plane();
    let pem = certificate(2026);
    for (_, path) in MANAGED {
        let kubeconfig = kubeconfig(&pem);
        host.put(path, if path.ends_with(".crt") { pem.clone() } else { kubeconfig });
        if path.ends_with(".crt") {
            host.put(&path.replace(".crt", ".key"), KEY_FILE);
        }
    }
    for ca in AUTHORITIES {
        host.put(ca, certificate(2029));
        host.put(&ca.replace(".crt", ".key"), "a key");
    }
    let config = CertsConfig {
        host: "node1".to_owned(),
        users: vec!["root".to_owned()],
        runtime: RuntimeKind::Containerd,
        etcd: EtcdKind::Kubeadm,
        renew_before_s: 91 * 86_400,
    };
    host.put(&CERTS.config(), serde_json::to_string(&config).expect("JSON"));
    dispatch::converge(&Op::from(Kubeconfig { user: "root".to_owned(), replaces: None }), &host.machine)
        .expect("a kubeconfig");
    host
}

fn renew(host: &Host, now: i64) -> TimerRun {
    timers::run(&host.machine, CERTS, now).unwrap_or_else(|error| panic!("{}", error.full()))
}

fn is_renewed(host: &Host) -> bool {
    host.read("/etc/kubernetes/pki/apiserver.crt").contains("renewed")
}

#[test]
fn certificates_are_renewed_in_their_last_quarter_and_what_has_read_them_is_restarted() {
    let host = renewing();
    // Pods whose files are newer than they are: no business of a service that has nothing to renew.
    let early = renew(&host, EARLY);
    assert!(!early.failed && early.what.starts_with("no certificate is due"), "{early:?}");
    assert!(!is_renewed(&host));
    let late = renew(&host, LATE);
    assert!(!late.failed, "{late:?}");
    assert!(late.what.contains("apiserver") && late.what.contains("4 static pods restarted"), "{late:?}");
    let fake = RootedSystem::new(host.machine.root());
    for (pod, files) in READ_BY {
        let read = fake.read_by(pod).expect("a state").expect("a pod");
        for file in files {
            assert_eq!(read.get(*file), Some(&Digest::of(host.read(file))), "{pod} {file}");
        }
    }
    assert_eq!(host.read("/root/.kube/config"), host.read("/etc/kubernetes/admin.conf"));
}

#[test]
fn a_kubeconfig_that_its_user_has_edited_is_left_and_its_user_is_named() {
    let host = renewing();
    host.put("/root/.kube/config", "with contexts of others");
    let late = renew(&host, LATE);
    assert!(!late.failed && late.what.contains("left as they were: the kubeconfigs of root"), "{late:?}");
    assert_eq!(host.read("/root/.kube/config"), "with contexts of others");
}

#[test]
fn an_ended_kubeconfig_that_no_pod_reads_is_no_reason_to_skip_health_and_lease() {
    let host = renewing();
    let pem = certificate(2025);
    let text = format!("    client-certificate-data: {}\n", BASE64.encode(&pem));
    host.put("/etc/kubernetes/super-admin.conf", text);
    host.put("/run/kubexm-double/api-down", "");
    let refused = renew(&host, LATE);
    assert!(refused.failed && !is_renewed(&host), "{refused:?}");
}

#[test]
fn a_restart_that_a_killed_service_has_not_made_is_made_by_the_next() {
    let host = renewing();
    // It does not answer until it is let, so that the service fails after the renewal.
    host.put("/run/kubexm-double/api-down", "");
    let failed = renew(&host, AFTER);
    assert!(failed.failed && is_renewed(&host), "{failed:?}");
    std::fs::remove_file(host.machine.path("/run/kubexm-double/api-down")).expect("removed");
    for (_, path) in MANAGED {
        let pem = certificate(2027);
        let kubeconfig = kubeconfig(&pem);
        host.put(path, if path.ends_with(".crt") { pem.clone() } else { kubeconfig });
    }
    let next = renew(&host, AFTER);
    assert!(!next.failed && next.what.starts_with("the last renewal was finished"), "{next:?}");
    assert_eq!(host.read("/root/.kube/config"), host.read("/etc/kubernetes/admin.conf"));
    assert!(renew(&host, AFTER).what.starts_with("no certificate is due"));
}

#[test]
fn without_the_key_of_an_authority_the_others_are_renewed_and_its_files_are_named() {
    let host = renewing();
    std::fs::remove_file(host.machine.path("/etc/kubernetes/pki/front-proxy-ca.key")).expect("removed");
    let ends = host.read("/etc/kubernetes/pki/front-proxy-client.crt");
    let failed = renew(&host, LATE);
    assert!(failed.failed && failed.what.contains("/etc/kubernetes/pki/front-proxy-client.crt"), "{failed:?}");
    assert!(!failed.what.contains("apiserver.crt") && is_renewed(&host), "{failed:?}");
    assert_eq!(host.read("/etc/kubernetes/pki/front-proxy-client.crt"), ends);
}

#[test]
fn what_a_loss_of_power_has_cut_is_put_back_and_renewed_the_next_night() {
    const CERT: &str = "/etc/kubernetes/pki/apiserver.crt";
    const KEY: &str = "/etc/kubernetes/pki/apiserver.key";
    let host = renewing();
    host.put("/run/kubexm-double/api-down", "");
    let failed = renew(&host, AFTER);
    assert!(failed.failed, "{failed:?}");
    assert_eq!(mode(&host, &CERTS.unfinished()), 0o600);
    // As kubeadm leaves them in the moment in which it writes them.
    for (cut, also) in [(CERT, "/etc/kubernetes/scheduler.conf"), (KEY, "/etc/kubernetes/admin.conf")] {
        host.put(cut, "");
        host.put(also, "");
    }
    std::fs::remove_file(host.machine.path("/run/kubexm-double/api-down")).expect("removed");
    // Behind the certificate in it, of which nothing is missing.
    let manager = host.read("/etc/kubernetes/controller-manager.conf");
    host.put("/etc/kubernetes/controller-manager.conf", &manager[..manager.len() - 30]);
    let next = renew(&host, AFTER);
    assert!(!next.failed && next.what.starts_with("renewed: "), "{next:?}");
    let manager = host.read("/etc/kubernetes/controller-manager.conf");
    assert!(manager.contains(&BASE64.encode(KEY_FILE)), "{manager}");
    assert!(is_renewed(&host) && host.read(KEY).contains("-----END "), "{next:?}");
    for conf in ["scheduler.conf", "admin.conf"] {
        assert!(!host.read(&format!("/etc/kubernetes/{conf}")).is_empty(), "{conf}");
    }
    assert!(!host.machine.path(CERTS.unfinished()).exists(), "no key is left in it");
}

#[test]
fn a_new_key_beside_the_certificate_of_before_is_put_back() {
    const CERT: &str = "/etc/kubernetes/pki/apiserver.crt";
    const KEY: &str = "/etc/kubernetes/pki/apiserver.key";
    let host = renewing();
    let (cert, key) = (host.read(CERT), host.read(KEY));
    host.put("/run/kubexm-double/api-down", "");
    assert!(renew(&host, AFTER).failed);
    host.put(CERT, &cert);
    host.put(KEY, "-----BEGIN KEY-----\nanother\n-----END KEY-----\n");
    // It does not answer still, and fails in the same place: what was put back is renewed again.
    let next = renew(&host, AFTER);
    assert!(next.failed && is_renewed(&host), "{next:?}");
    assert_eq!(host.read(KEY), format!("{key}renewed\n"), "of the key of before, and not of the other one");
    // The pair of before is that of the last renewal, not of the first.
    let (cert, key) = (host.read(CERT), host.read(KEY));
    assert!(renew(&host, AFTER).failed);
    host.put(CERT, &cert);
    host.put(KEY, "-----BEGIN KEY-----\nanother\n-----END KEY-----\n");
    assert!(renew(&host, AFTER).failed);
    assert_eq!(host.read(KEY), format!("{key}renewed\n"));
}

#[test]
fn a_cut_file_of_which_there_is_no_copy_is_named_and_the_others_are_renewed() {
    let host = renewing();
    host.put("/etc/kubernetes/super-admin.conf", "");
    let failed = renew(&host, LATE);
    assert!(failed.failed && failed.what.contains("no certificate in /etc/kubernetes/super-admin.conf"), "{failed:?}");
    assert!(is_renewed(&host), "{failed:?}");
}

#[test]
fn a_service_that_waited_for_a_run_that_took_its_timer_away_leaves_nothing() {
    let host = renewing();
    std::fs::remove_file(host.machine.path(CERTS.config())).expect("removed");
    let left = timers::left_out(&host.machine, CERTS, LATE, "locked".to_owned()).expect("an answer");
    assert!(left.failed && !host.machine.path(CERTS.record()).exists(), "{left:?}");
}

#[test]
fn a_disk_of_fstab_that_is_not_mounted_gets_no_backup_below_it() {
    let host = backing_up(1);
    host.put("/etc/fstab", "server:/export /mnt/backup nfs nofail 0 0\n");
    let refused = back_up(&host, EARLY);
    assert!(refused.failed && refused.what.contains("/etc/fstab has a file system at /mnt/backup"), "{refused:?}");
    assert!(!host.machine.path(DIR).exists());
}

#[test]
fn what_ends_with_its_authority_is_not_renewed_every_night_and_the_authority_is_named() {
    const CA: &str = "/etc/kubernetes/pki/front-proxy-ca.crt";
    let host = renewing();
    let authority = |year| host.put(CA, certificate(year));
    let ends = host.read("/etc/kubernetes/pki/front-proxy-client.crt");
    authority(2026);
    let renewed = renew(&host, LATE);
    assert!(!renewed.failed && !renewed.what.contains("front-proxy-client"), "{renewed:?}");
    assert_eq!(host.read("/etc/kubernetes/pki/front-proxy-client.crt"), ends);
    let ended = renew(&host, AFTER);
    assert!(ended.failed && ended.what.contains(CA), "{ended:?}");
}

#[test]
fn an_ill_member_of_etcd_stops_a_renewal_before_it_begins() {
    let host = renewing();
    RootedSystem::new(host.machine.root()).kill_member("node1").expect("a state");
    let refused = renew(&host, LATE);
    assert!(refused.failed && !is_renewed(&host), "{refused:?}");
}

#[test]
fn certificates_that_have_ended_are_renewed_though_nothing_may_answer() {
    let host = renewing();
    host.put("/run/kubexm-double/api-down", "");
    let renewed = renew(&host, AFTER);
    assert!(is_renewed(&host), "{renewed:?}");
}

#[test]
fn another_control_plane_that_renews_is_not_disturbed_and_a_lease_that_was_left_is_taken_over() {
    let host = renewing();
    let lease = |time: &str| {
        format!(
            "{{\"kind\": \"Lease\", \"metadata\": {{\"name\": \"kubexm-certs\", \"resourceVersion\": \"7\"}}, \"spec\": \
             {{\"holderIdentity\": \"node2\", \"acquireTime\": \"{time}\"}}}}"
        )
    };
    let fake = RootedSystem::new(host.machine.root());
    fake.put_object(&lease("2026-10-14T23:59:00.000000Z")).expect("a state");
    let waits = renew(&host, LATE);
    assert!(waits.failed && waits.what.starts_with("node2 renews its certificates"), "{waits:?}");
    assert!(!is_renewed(&host));
    fake.put_object(&lease("2026-10-14T22:00:00.000000Z")).expect("a state");
    let taken = renew(&host, LATE);
    assert!(!taken.failed && is_renewed(&host), "{taken:?}");
    assert_eq!(fake.object("Lease/kubexm-certs").expect("a state"), None, "it was given back");
}
