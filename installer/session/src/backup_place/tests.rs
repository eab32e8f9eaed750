//! Which backups of a folder are kept.

#![allow(clippy::unwrap_used, reason = "a test")]

mod of_bucket;

use std::fs;
use std::sync::Mutex;

use kubexm_engine::OperatorIdentity;
use kubexm_engine::backup::{ARCHIVE, BackupAbout, BackupError, BackupHeader, BackupKey, HEADER};
use kubexm_engine::events::Silent;
use kubexm_plan::backup::{Archive, SnapshotFacts};
use kubexm_plan::{ClusterId, Recipient};
use kubexm_spec::Digest;

use super::*;
use crate::retention::{IsKnown, too_old};

fn about(id: u8, created: i64) -> BackupAbout {
    BackupAbout {
        cluster: "red".to_owned(),
        cluster_id: ClusterId::from_random([id; 16]),
        created,
        kubernetes: None,
        host: "cp1".to_owned(),
        program: "test".to_owned(),
        recipients: vec![Recipient { key: BackupKey::generate().recipient(), name: None }],
        archive: Archive { sha256: Digest::of(format!("{id} {created}")), size: 7 },
        etcd: SnapshotFacts { revision: 1, keys: 1, size: 1 },
        had: None,
    }
}

fn header(about: BackupAbout) -> BackupHeader {
    let home = tempfile::tempdir().unwrap();
    let own = OperatorIdentity::read_or_make(&home.path().join("identity"), &|_| Err(String::new())).unwrap();
    BackupHeader::seal(about, &BackupKey::generate(), &own).unwrap()
}

fn backup(to: &Path, name: &str, about: BackupAbout) {
    let partial = Partial::create(to, name).unwrap();
    fs::write(partial.folder.join(HEADER), header(about).to_json().unwrap()).unwrap();
    fs::write(partial.folder.join(ARCHIVE), "archive").unwrap();
    partial.finish().unwrap();
}

fn names(to: &Path) -> Vec<String> {
    let entries = fs::read_dir(to).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

/// What goes of a folder when a backup was made there; their names.
fn retain(to: &Path, (made, newest): (&str, BackupAbout), keep: usize, is_known: IsKnown<'_>) -> Vec<String> {
    let candidates = Candidates { newest: &newest, is_known, events: &Silent };
    let others = folder::others(to, &to.join(made).display().to_string(), &candidates).unwrap();
    let gone = too_old(others, &newest, keep, &Silent);
    gone.iter().for_each(|one| folder::remove(&to.join(&one.name)).unwrap());
    gone.into_iter().map(|one| one.name).collect()
}

const ANYBODY: IsKnown<'_> = &|_, _| Ok(());
const NONE: [&str; 0] = [];

#[test]
fn older_backups_of_this_cluster_go_and_nothing_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path();
    for (name, id, created) in [("red-1", 1, 10), ("red-2", 1, 20), ("red-3", 1, 30), ("red-0", 2, 1)] {
        backup(to, name, about(id, created));
    }
    fs::create_dir(to.join("photos")).unwrap();
    fs::write(to.join("photos").join(HEADER), "{}").unwrap();
    fs::write(to.join("notes"), "mine").unwrap();
    assert_eq!(retain(to, ("red-3", about(1, 30)), 5, ANYBODY), NONE);
    assert_eq!(retain(to, ("red-3", about(1, 30)), 1, ANYBODY), ["red-1", "red-2"]);
    assert_eq!(names(to), ["notes", "photos", "red-0", "red-3"]);
}

/// A control plane says the id of its cluster, and may have another one's.
#[test]
fn backups_of_another_cluster_stay_even_where_its_id_is_said_to_be_this_ones() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path();
    let of_blue = |created| BackupAbout { cluster: "blue".to_owned(), ..about(1, created) };
    for created in [10, 20, 30] {
        backup(to, &format!("blue-{created}"), of_blue(created));
    }
    for created in [15, 40] {
        backup(to, &format!("red-{created}"), about(1, created));
    }
    assert_eq!(retain(to, ("red-40", about(1, 40)), 1, ANYBODY), ["red-15"]);
    assert_eq!(names(to), ["blue-10", "blue-20", "blue-30", "red-40"]);
}

#[test]
fn the_backup_that_was_just_made_stays_whatever_the_clock_says_and_one_that_is_cut_off_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path();
    for (name, created) in [("red-1", 10), ("red-2", 20), ("red-3", 30), ("red-4", i64::MAX)] {
        backup(to, name, about(1, created));
    }
    let elsewhere = tempfile::tempdir().unwrap();
    backup(elsewhere.path(), "red-0", about(1, 1));
    std::os::unix::fs::symlink(elsewhere.path().join("red-0"), to.join("red-0")).unwrap();
    fs::write(to.join("red-2").join(ARCHIVE), "cut").unwrap();
    // Made with a clock that went back.
    assert_eq!(retain(to, ("red-1", about(1, 10)), 1, ANYBODY), NONE);
    assert_eq!(retain(to, ("red-3", about(1, 30)), 2, ANYBODY), NONE);
    assert_eq!(retain(to, ("red-3", about(1, 30)), 1, ANYBODY), ["red-1"]);
    assert_eq!(names(to), ["red-0", "red-2", "red-3", "red-4"]);
    assert!(elsewhere.path().join("red-0").join(ARCHIVE).is_file());
}

#[test]
fn copies_of_one_backup_count_once() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path();
    for (name, created) in [("red-1", 10), ("red-2", 20), ("red-2-copy", 20), ("red-3", 30)] {
        backup(to, name, about(1, created));
    }
    assert_eq!(retain(to, ("red-3", about(1, 30)), 3, ANYBODY), NONE);
    assert_eq!(names(to), ["red-1", "red-2", "red-2-copy", "red-3"]);
}

#[test]
fn backups_of_strangers_stay_and_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path();
    for (name, created) in [("red-1", 10), ("red-2", 20), ("red-3", 30)] {
        backup(to, name, about(1, created));
    }
    let is_known: IsKnown<'_> = &|folder, _| match folder.ends_with("red-2") {
        true => Err(BackupError::CannotMake("a stranger made it".to_owned())),
        false => Ok(()),
    };
    assert_eq!(retain(to, ("red-3", about(1, 30)), 2, is_known), NONE);
    assert_eq!(names(to), ["red-1", "red-2", "red-3"]);
    assert_eq!(retain(to, ("red-3", about(1, 30)), 1, is_known), ["red-1"]);
}

#[test]
fn a_header_is_known_or_gone_before_the_next_one_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path();
    for (name, created) in [("red-1", 10), ("red-2", 20), ("red-3", 30), ("red-4", 40)] {
        backup(to, name, about(1, created));
    }
    let asked = Mutex::new(Vec::new());
    // Whoever is asked about the first one leaves no other to read.
    let is_known: IsKnown<'_> = &|folder, _| {
        asked.lock().unwrap().push(folder.to_owned());
        for other in names(to).iter().map(|name| to.join(name)).filter(|other| other != folder) {
            fs::write(other.join(HEADER), "").unwrap();
        }
        Ok(())
    };
    retain(to, ("red-4", about(1, 40)), 5, is_known);
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[test]
fn a_backup_that_was_not_finished_leaves_nothing_and_has_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let partial = Partial::create(folder.path(), "red-1").unwrap();
    fs::write(partial.folder.join(ARCHIVE), "half").unwrap();
    assert_eq!(names(folder.path()), [".red-1.partial"]);
    drop(partial);
    assert_eq!(names(folder.path()), NONE);
    backup(folder.path(), "red-1", about(1, 1));
    let Err(error) = Partial::create(folder.path(), "red-1") else { unreachable!("there is one") };
    assert!(error.to_string().contains("is there already"), "{error}");
}
