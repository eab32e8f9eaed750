//! Backups of etcd that a timer makes for recipients of age.

#![allow(clippy::expect_used, clippy::panic, reason = "the arrangement of a test: a fault here is a fault of the test")]

use age::x25519::Identity;
use kubexm_ops::snapshot;
use kubexm_plan::op::SNAPSHOTS;
use kubexm_plan::timers::{BackupConfig, ETCD_BACKUP};

use crate::common::Host;
use crate::timers::{DIR, EARLY, back_up, backing_up_for, files, mode};

const FIRST: &str = "etcd-demo-0a1b2c3d-node1-20260915T000000Z.db.age";

fn encrypting(keep: u32) -> (Host, [Identity; 2]) {
    let keys = [Identity::generate(), Identity::generate()];
    (backing_up_for(keep, keys.iter().map(|key| key.to_public().to_string()).collect()), keys)
}

/// Only the backups lie anywhere, and only encrypted.
fn assert_nothing_in_clear(host: &Host) {
    assert!(!host.machine.path(SNAPSHOTS).exists(), "{:?}", files(host, SNAPSHOTS));
    for name in files(host, DIR) {
        assert!(name.ends_with(".age"), "{name}");
    }
}

#[test]
fn each_recipient_opens_a_whole_snapshot_and_nobody_else_does() {
    let (host, keys) = encrypting(2);
    let made = back_up(&host, EARLY);
    assert!(!made.failed && made.what.contains(&format!("backed up to {DIR}/{FIRST} (")), "{made:?}");
    assert_eq!(files(&host, DIR), [FIRST]);
    assert_eq!((mode(&host, DIR), mode(&host, &format!("{DIR}/{FIRST}"))), (0o700, 0o600));
    assert_nothing_in_clear(&host);
    let sealed = std::fs::read(host.machine.path(format!("{DIR}/{FIRST}"))).expect("a file");
    let opened = tempfile::tempdir().expect("a folder");
    for key in keys {
        let plain = age::decrypt(&key, &sealed).expect("what was encrypted for the key");
        let path = opened.path().join("etcd.db");
        std::fs::write(&path, plain).expect("written");
        assert!(snapshot::is_sound(&path).expect("a look"));
    }
    assert!(age::decrypt(&Identity::generate(), &sealed).is_err());
}

#[test]
fn the_oldest_goes_whether_it_is_encrypted_or_not() {
    let (host, _) = encrypting(2);
    let own = "etcd-demo-0a1b2c3d-node1";
    for other in [
        // Of before the field was set, of a clock that was ahead, of another member and of an operator.
        format!("{own}-20260101T000000Z.db"),
        format!("{own}-20300101T000000Z.db.age"),
        "etcd-demo-0a1b2c3d-node2-20200101T000000Z.db.age".to_owned(),
        format!("{own}-mine.db.age"),
        format!("{own}-20200101T000000Z.db.age.old"),
    ] {
        host.put(&format!("{DIR}/{other}"), "x");
    }
    let made = back_up(&host, EARLY);
    assert!(made.what.contains("1 older removed, 2 kept"), "{made:?}");
    let wanted = [
        format!("{own}-20200101T000000Z.db.age.old"),
        format!("{own}-20260101T000000Z.db"),
        FIRST.to_owned(),
        format!("{own}-mine.db.age"),
        "etcd-demo-0a1b2c3d-node2-20200101T000000Z.db.age".to_owned(),
    ];
    assert_eq!(files(&host, DIR), wanted);
    back_up(&host, EARLY + 60);
    // Without the field again, the encrypted ones count too.
    let config =
        BackupConfig { name: "demo-0a1b2c3d-node1".to_owned(), dir: DIR.to_owned(), keep: 2, recipients: vec![] };
    host.put(&ETCD_BACKUP.config(), serde_json::to_string(&config).expect("JSON"));
    back_up(&host, EARLY + 120);
    let left: Vec<String> = files(&host, DIR).into_iter().filter(|name| name.contains("node1-2026")).collect();
    assert_eq!(left, [format!("{own}-20260915T000100Z.db.age"), format!("{own}-20260915T000200Z.db")]);
}

#[test]
fn a_backup_that_fails_leaves_nothing_in_clear_and_removes_none() {
    let (host, _) = encrypting(1);
    assert!(!back_up(&host, EARLY).failed);
    host.put("/run/kubexm-double/cut-snapshot", "");
    let cut = back_up(&host, EARLY + 60);
    assert!(cut.failed && cut.what.contains("does not match its checksum"), "{cut:?}");
    assert_nothing_in_clear(&host);
    // No room: for the snapshot, and then where the backups are.
    for folder in [SNAPSHOTS, "/mnt"] {
        host.put("/run/kubexm-double/space.json", format!(r#"{{"{folder}": [1048576, 1073741824]}}"#));
        let full = back_up(&host, EARLY + 120);
        assert!(full.failed && full.what.contains(folder) && full.what.contains("make room"), "{full:?}");
        assert_nothing_in_clear(&host);
    }
    std::fs::remove_file(host.machine.path("/run/kubexm-double/space.json")).expect("removed");
    let config = host.read(&ETCD_BACKUP.config()).replacen("age1", "age2", 1);
    host.put(&ETCD_BACKUP.config(), config);
    let wrong = back_up(&host, EARLY + 180);
    assert!(wrong.failed && wrong.what.contains("no key of age") && !wrong.what.contains("age2"), "{wrong:?}");
    assert_eq!(files(&host, DIR), [FIRST]);
    assert_nothing_in_clear(&host);
}

#[test]
fn what_a_killed_one_has_left_in_clear_goes_with_the_next_run_even_where_that_makes_none() {
    let (host, _) = encrypting(3);
    let (own, others) = ("etcd-demo-0a1b2c3d-node1-20260914T000000Z", "before-v1.35.4.db");
    let left = |host: &Host| {
        for name in [format!(".{own}.partial"), format!(".{own}.partial.part")] {
            host.put(&format!("{SNAPSHOTS}/{name}"), "every Secret");
        }
        host.put(&format!("{SNAPSHOTS}/{others}"), "of an upgrade");
        host.put(&format!("{DIR}/.{own}.partial"), "half of one");
    };
    left(&host);
    host.put("/etc/fstab", "server:/export /mnt/backup nfs nofail 0 0\n");
    let refused = back_up(&host, EARLY);
    assert!(refused.failed && refused.what.contains("not mounted"), "{refused:?}");
    assert_eq!(files(&host, SNAPSHOTS), [others]);
    std::fs::remove_file(host.machine.path("/etc/fstab")).expect("removed");
    left(&host);
    assert!(!back_up(&host, EARLY).failed);
    assert_eq!(files(&host, SNAPSHOTS), [others]);
    assert_eq!(files(&host, DIR), [FIRST]);
}

#[test]
fn a_host_that_an_earlier_program_has_configured_is_backed_up_as_before() {
    let (host, _) = encrypting(3);
    let config = format!(r#"{{"name": "demo-0a1b2c3d-node1", "dir": "{DIR}", "keep": 3}}"#);
    host.put(&ETCD_BACKUP.config(), config);
    assert!(!back_up(&host, EARLY).failed);
    assert_eq!(files(&host, DIR), [FIRST.trim_end_matches(".age")]);
}
