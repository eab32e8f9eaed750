//! Looking after a store: what goes, what stays, what is damaged.

use std::fs::{File, FileTimes};
use std::time::{Duration, SystemTime};

use kubexm_spec::Digest;
use kubexm_transport::Store;
use kubexm_transport::gc::Limits;

use crate::support::{bytes, files, store};

const DAY: Duration = Duration::from_secs(86_400);

/// A blob that was last used so many days ago.
fn put(store: &Store, seed: u64, size: usize, days: u32) -> Digest {
    let (digest, _) = store.insert(bytes(seed, size).as_slice(), None).unwrap();
    age(&store.path(&digest), days);
    digest
}

fn age(path: &std::path::Path, days: u32) {
    let then = SystemTime::now() - days * DAY;
    File::options().write(true).open(path).unwrap().set_times(FileTimes::new().set_modified(then)).unwrap();
}

fn limits(days: Option<u32>, size: Option<u64>) -> Limits {
    Limits { age: days.map(|days| days * DAY), size, dry_run: false }
}

#[test]
fn gc_removes_blobs_that_were_not_read_for_long() {
    let (_dir, store) = store();
    let (old, looked_at, young) = (put(&store, 1, 1000, 40), put(&store, 2, 1000, 40), put(&store, 3, 1000, 5));
    // As a build does, which is over when garbage is collected.
    let lease = store.lease().unwrap();
    assert!(store.holds(&looked_at, 1000).unwrap());
    drop(lease);
    let reported = store.collect(&Limits { dry_run: true, ..limits(Some(30), None) }).unwrap();
    assert!(store.contains(&young) && store.size(&old).is_some(), "a dry run removes nothing");
    let done = store.collect(&limits(Some(30), None)).unwrap();
    assert_eq!((&reported, &done.removed), (&done, &vec![(old, 1000)]));
    assert_eq!(done.kept, (2, 2000));
    assert_eq!(store.size(&old), None);
}

#[test]
fn the_least_recently_used_go_first_until_the_rest_is_small_enough() {
    let (_dir, store) = store();
    let all: Vec<Digest> = (1..=5).map(|seed| put(&store, u64::from(seed), 1000, 50 - 10 * seed)).collect();
    let done = store.collect(&limits(None, Some(2500))).unwrap();
    assert_eq!(done.removed.iter().map(|(digest, _)| *digest).collect::<Vec<_>>(), all[..3]);
    assert_eq!(done.kept, (2, 2000));
}

#[test]
fn what_a_running_build_has_found_or_put_there_stays_until_it_ends() {
    let (_dir, store) = store();
    let (found, idle) = (put(&store, 1, 1000, 40), put(&store, 2, 1000, 40));
    // As another program would.
    let other = Store::open(store.root()).unwrap();
    let lease = other.lease().unwrap();
    assert!(other.holds(&found, 1000).unwrap());
    let (put_there, _) = other.insert(bytes(3, 1000).as_slice(), None).unwrap();
    let done = store.collect(&limits(None, Some(0))).unwrap();
    assert_eq!(done.removed, [(idle, 1000)]);
    assert_eq!((done.kept, done.in_use), ((2, 2000), (2, 2000)));
    drop(lease);
    let done = store.collect(&limits(None, Some(0))).unwrap();
    assert_eq!(done.removed.len(), 2);
    assert!(!store.contains(&found) && !store.contains(&put_there));
}

/// A clock that is set back, and a file server whose clock is ahead of ours, look alike: the build began after now.
#[test]
fn what_a_running_build_uses_stays_though_the_clock_was_set_back() {
    let (_dir, store) = store();
    let (found, idle) = (put(&store, 1, 1000, 40), put(&store, 2, 1000, 40));
    let lease = store.lease().unwrap();
    let ahead = SystemTime::now() + DAY;
    for file in [lease.path().to_owned(), store.root().join("turn")] {
        File::options().write(true).open(file).unwrap().set_times(FileTimes::new().set_modified(ahead)).unwrap();
    }
    assert!(store.holds(&found, 1000).unwrap());
    store.insert(bytes(3, 1000).as_slice(), None).unwrap();
    let mut partial = store.partial("x").unwrap();
    partial.write(&bytes(4, 1000), None).unwrap();
    partial.commit().unwrap();
    // A later build, by the clock as it is now, changes nothing for the first one.
    let other = store.lease().unwrap();
    store.insert(bytes(5, 1000).as_slice(), None).unwrap();
    let done = store.collect(&limits(Some(30), Some(0))).unwrap();
    assert_eq!((done.removed, done.in_use), (vec![(idle, 1000)], (4, 4000)));
    drop((lease, other));
    // Once nobody runs, the wrong date is forgotten.
    drop(store.lease().unwrap());
    assert!(std::fs::metadata(store.root().join("turn")).unwrap().modified().unwrap() < ahead);
}

#[test]
fn a_lease_of_a_program_that_was_killed_holds_nothing() {
    let (_dir, store) = store();
    std::fs::write(store.root().join("leases/run-dead"), "").unwrap();
    put(&store, 1, 1000, 0);
    assert_eq!(store.collect(&limits(None, Some(0))).unwrap().removed.len(), 1);
    assert!(files(&store, "leases").is_empty());
}

#[test]
fn gc_removes_old_partial_files_that_nobody_writes() {
    let (_dir, store) = store();
    for key in ["old", "busy", "young"] {
        store.partial(key).unwrap().write(b"half", None).unwrap();
    }
    let busy = store.partial("busy").unwrap();
    age(&store.root().join("partial/old.part"), 40);
    age(&store.root().join("partial/busy.part"), 40);
    let done = store.collect(&limits(Some(30), None)).unwrap();
    assert_eq!(done.unfinished, (1, 4));
    drop(busy);
    assert_eq!(files(&store, "partial"), ["busy.part", "young.part"]);
}

#[test]
fn gc_removes_damaged_blobs_and_keeps_whole_ones_and_foreign_files() {
    let (_dir, store) = store();
    let whole = put(&store, 1, 100_000, 40);
    let flipped = put(&store, 2, 100_000, 0);
    let short = put(&store, 3, 100_000, 0);
    let mut body = bytes(2, 100_000);
    body[50_000] ^= 1;
    std::fs::write(store.path(&flipped), body).unwrap();
    std::fs::write(store.path(&short), &bytes(3, 100_000)[..99_999]).unwrap();
    let stranger = store.root().join("blobs/sha256/notes.txt");
    std::fs::write(&stranger, "mine").unwrap();
    let last = std::sync::Mutex::new((0, 0));
    let checked = store.check(3, &|done, total| *last.lock().unwrap() = (done, total)).unwrap();
    let mut damaged = vec![flipped, short];
    damaged.sort();
    assert_eq!((checked.whole, checked.damaged, checked.strange), ((1, 100_000), damaged, vec![stranger.clone()]));
    assert!(store.size(&whole).is_some() && store.size(&flipped).is_none() && stranger.exists());
    assert_eq!(last.lock().unwrap().1, 299_999);
    // A check is no use: what nobody needs grows old all the same.
    assert_eq!(store.collect(&limits(Some(30), None)).unwrap().removed, [(whole, 100_000)]);
}
