//! The store by itself.

use std::io::{self, Read};

use kubexm_spec::Digest;
use kubexm_transport::TransportError;

use crate::support::{bytes, files, store};

#[test]
fn what_is_inserted_is_found_under_its_digest() {
    let (_dir, store) = store();
    let body = bytes(3, 100_000);
    let digest = Digest::of(&body);
    assert!(!store.contains(&digest));
    assert_eq!(store.insert(body.as_slice(), Some(digest)).unwrap(), (digest, 100_000));
    assert_eq!((store.contains(&digest), store.size(&digest)), (true, Some(100_000)));
    let mut read = Vec::new();
    store.open_blob(&digest).unwrap().read_to_end(&mut read).unwrap();
    assert_eq!(read, body);
    assert!(files(&store, "partial").is_empty());
}

#[test]
fn wrong_bytes_and_a_reader_that_fails_leave_nothing() {
    let (_dir, store) = store();
    let error = store.insert(&b"other"[..], Some(Digest::of("wanted"))).unwrap_err();
    assert!(matches!(error, TransportError::Mismatch { found, .. } if found == Digest::of("other")), "{error}");
    let failing = (&b"some"[..]).chain(Failing);
    assert!(store.insert(failing, None).is_err());
    assert!(files(&store, "partial").is_empty());
    assert!(files(&store, "blobs/sha256").is_empty());
}

struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("broken"))
    }
}

#[test]
fn a_damaged_blob_is_found_and_removed() {
    let (_dir, store) = store();
    let (digest, size) = store.insert(&b"content"[..], None).unwrap();
    assert!(store.verify(&digest).unwrap());
    std::fs::write(store.path(&digest), b"CONTENT").unwrap();
    assert!(store.holds(&digest, size).unwrap(), "the same size is not read again");
    assert!(!store.verify(&digest).unwrap());
    assert!(!store.contains(&digest));

    let (digest, size) = store.insert(&b"content"[..], None).unwrap();
    std::fs::write(store.path(&digest), b"cont").unwrap();
    assert!(!store.holds(&digest, size).unwrap());
    assert!(!store.contains(&digest));
}

#[test]
fn a_partial_file_is_resumed_and_becomes_the_blob() {
    let (_dir, store) = store();
    let body = bytes(4, 50_000);
    let digest = Digest::of(&body);
    let mut partial = store.partial(&digest.hex()).unwrap();
    partial.write(&body[..20_000], None).unwrap();
    assert!(store.try_partial(&digest.hex()).unwrap().is_none(), "one writer at a time");
    drop(partial);

    let mut partial = store.partial(&digest.hex()).unwrap();
    assert_eq!(partial.length(), 20_000);
    partial.write(&body[20_000..], None).unwrap();
    assert_eq!(partial.commit().unwrap(), (digest, 50_000));
    assert_eq!(std::fs::read(store.path(&digest)).unwrap(), body);
    assert!(files(&store, "partial").is_empty());
}

#[test]
fn who_waited_for_a_partial_does_not_get_hold_of_the_finished_blob() {
    let (_dir, store) = store();
    let mut first = store.partial("key").unwrap();
    first.write(b"done", None).unwrap();
    let waiter = std::thread::spawn({
        let store = store.clone();
        move || {
            let mut second = store.partial("key").unwrap();
            let found = second.length();
            second.write(b"something else", None).unwrap();
            found
        }
    });
    // Whether the waiter already waits or not, it must never write into the blob.
    let (digest, _) = first.commit().unwrap();
    assert_eq!(waiter.join().unwrap(), 0);
    assert!(store.verify(&digest).unwrap());
}

#[test]
fn a_key_cannot_leave_the_folder() {
    let (_dir, store) = store();
    for key in ["", "../x", "a/b", ".hidden", "a b"] {
        assert!(store.partial(key).is_err(), "{key:?}");
    }
}

#[test]
fn facts_are_kept_and_replaced() {
    let (_dir, store) = store();
    assert_eq!(store.recorded("k").unwrap(), None);
    store.note("k", "one").unwrap();
    store.note("k", "two").unwrap();
    assert_eq!(store.recorded("k").unwrap().as_deref(), Some("two"));
    assert_eq!(store.recorded("other").unwrap(), None);
}

#[test]
fn opening_sweeps_old_copies_of_killed_programs_and_nothing_young() {
    let (_dir, store) = store();
    let dir = store.root().join("partial");
    for name in ["insert-old", "insert-young", "aa.part"] {
        std::fs::write(dir.join(name), "x").unwrap();
    }
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 24 * 3600);
    for name in ["insert-old", "aa.part"] {
        std::fs::File::options().write(true).open(dir.join(name)).unwrap().set_modified(old).unwrap();
    }
    kubexm_transport::Store::open(store.root()).unwrap();
    assert_eq!(files(&store, "partial"), ["aa.part", "insert-young"]);
}
