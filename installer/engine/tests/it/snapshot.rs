//! A snapshot of etcd in a file: nothing but a whole one is taken, whatever it is called, and what is packed of it is what a member gets.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use kubexm_engine::OperatorIdentity;
use kubexm_engine::backup::{
    BackupAbout, BackupError, BackupKey, SnapshotFile, SnapshotName, verify_archive, verify_contents,
};
use kubexm_plan::ClusterId;
use kubexm_plan::backup::SnapshotFacts;
use kubexm_spec::{Digest, ExitCode, ExitError as _};

const ID: ClusterId = ClusterId::from_random([1; 16]);

fn identity(folder: &Path, name: &str) -> OperatorIdentity {
    OperatorIdentity::read_or_make(&folder.join(name), &|_| Err(String::new())).unwrap()
}

/// Pages that begin as those of a database, with their checksum.
fn snapshot(pages: usize) -> Vec<u8> {
    let mut data: Vec<u8> = (0..pages * 512).map(|at| u8::try_from(at % 251).unwrap()).collect();
    data[16..20].copy_from_slice(&0xED0C_DAED_u32.to_le_bytes());
    let hex = Digest::of(&data).hex();
    let sum = (0..32).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap());
    data.iter().copied().chain(sum).collect()
}

fn encrypted(plain: &[u8], recipient: &str) -> Vec<u8> {
    let key = age::x25519::Recipient::from_str(recipient).unwrap();
    let encryptor = age::Encryptor::with_recipients(std::iter::once(&key as &dyn age::Recipient)).unwrap();
    let mut sealed = Vec::new();
    let mut writer = encryptor.wrap_output(&mut sealed).unwrap();
    writer.write_all(plain).unwrap();
    writer.finish().unwrap();
    sealed
}

fn file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// What is said of a file, by a home with this identity.
fn verify(path: &Path, folder: &Path) -> Result<SnapshotFile, BackupError> {
    SnapshotFile::verify(path, || Ok(identity(folder, "own"))).map(|(found, _)| found)
}

#[test]
fn the_name_of_a_timers_snapshot_says_of_which_cluster_host_and_time_it_is_and_another_says_nothing() {
    let of = |name: &str| SnapshotName::of(Path::new(name));
    for end in [".db", ".db.age"] {
        for (cluster, host) in [("lab", "node1"), ("a-b-c", "h-1"), ("etcd", "etcd-1")] {
            let found = of(&format!("/x/etcd-{cluster}-{ID}-{host}-20260921T141321Z{end}"));
            assert_eq!(found.of, Some((cluster.to_owned(), ID, host.to_owned())));
            assert_eq!(found.taken, Some(1_790_000_001), "{found:?}");
        }
    }
    for name in [
        "before-v1.34.4-1.db".to_owned(),
        format!("etcd-lab-{ID}-node1-20260921T141321Z"),
        format!("etcd-lab-{ID}-node1-20261321T141321Z.db"),
        format!("etcd-lab-{ID}-node1-2026092é141321Z.db"),
        "etcd-.db".to_owned(),
        ".db".to_owned(),
    ] {
        assert_eq!(of(&name), SnapshotName::default(), "{name}");
    }
    // A cluster without an id: its time is known, and nothing else.
    assert_eq!(of("etcd-lab-node1-20260921T141321Z.db").of, None);
    assert!(of("etcd-lab-node1-20260921T141321Z.db").taken.is_some());
    for (name, is_one) in
        [("a.db", true), ("a.db.age", true), ("a", false), (".db", false), ("lab-20260921T141321Z", false)]
    {
        assert_eq!(SnapshotName::is_one(Path::new(name)), is_one, "{name}");
    }
}

#[test]
fn a_whole_snapshot_is_read_plain_and_encrypted_for_this_home_and_is_packed_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let own = identity(folder.path(), "own");
    let plain = snapshot(700);
    let sealed = encrypted(&plain, &own.recipient());
    // What it is counts, not how it is called.
    for (name, bytes) in [("a.db", &plain), ("a.db.age", &sealed), ("b.db", &sealed), ("b.db.age", &plain)] {
        let path = file(folder.path(), name, bytes);
        let found = verify(&path, folder.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((found.size, found.sha256), (plain.len() as u64, Digest::of(&plain)), "{name}");
        let (to, key) = (tempfile::tempdir().unwrap(), BackupKey::generate());
        let mut written = 0;
        let archive = found
            .pack(Some(&own), &key, to.path(), &mut |count| {
                written += count;
                Ok(())
            })
            .unwrap();
        assert_eq!(written, archive.size);
        let about = BackupAbout {
            cluster: "lab".to_owned(),
            cluster_id: ID,
            created: 0,
            kubernetes: None,
            host: String::new(),
            program: String::new(),
            recipients: Vec::new(),
            archive,
            etcd: SnapshotFacts { revision: 0, keys: 0, size: found.size },
            had: None,
        };
        verify_archive(to.path(), &about).unwrap();
        assert_eq!(
            verify_contents(to.path(), &about, &key).unwrap(),
            Vec::<String>::new(),
            "the snapshot and nothing else"
        );
    }
}

#[test]
fn an_identity_is_asked_for_only_by_what_is_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let asked = || Err(BackupError::CannotMake("the passphrase is wrong".to_owned()));
    let path = file(folder.path(), "a.db", &snapshot(3));
    SnapshotFile::verify(&path, asked).unwrap();
    let path = file(folder.path(), "a.db.age", &encrypted(&snapshot(3), &identity(folder.path(), "own").recipient()));
    let error = SnapshotFile::verify(&path, asked).err().unwrap();
    assert!(error.to_string().contains("the passphrase is wrong"), "{error}");
}

#[test]
fn what_is_cut_altered_sealed_for_others_or_something_else_is_named_as_that() {
    let folder = tempfile::tempdir().unwrap();
    let own = identity(folder.path(), "own");
    let plain = snapshot(700);
    let sealed = encrypted(&plain, &own.recipient());
    let refused = |bytes: &[u8], words: &str| {
        let path = file(folder.path(), "x.db", bytes);
        let error = verify(&path, folder.path()).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::BackupUnusable, "{error}");
        let text = error.to_string();
        assert!(text.starts_with(&path.display().to_string()) && text.contains(words), "{words}: {text}");
    };
    for cut in [512, 544, plain.len() - 1, plain.len() - 32, plain.len() - 512] {
        refused(&plain[..cut], "it was cut off or altered");
    }
    for at in [20, 200_000, plain.len() - 33, plain.len() - 1] {
        let mut altered = plain.clone();
        altered[at] ^= 1;
        refused(&altered, "it was cut off or altered");
    }
    for cut in [sealed.len() - 1, sealed.len() / 2, 300] {
        refused(&sealed[..cut], "decrypt");
    }
    let mut altered = sealed.clone();
    let last = altered.len() - 1;
    altered[last] ^= 1;
    refused(&altered, "it cannot be decrypted to its end");
    refused(&encrypted(&plain, &identity(folder.path(), "other").recipient()), "not for the identity of this home");
    refused(&encrypted(&plain[..600], &own.recipient()), "it was cut off or altered");
    refused(b"", "it is empty");
    refused(&[7; 4096], "does not begin as a database of etcd");
    // Whoever puts a checksum behind something else makes no snapshot of it.
    let hex = Digest::of([7; 512]).hex();
    let sum = (0..32).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap());
    refused(&[7; 512].into_iter().chain(sum).collect::<Vec<u8>>(), "does not begin as a database of etcd");
    let error = verify(folder.path(), folder.path()).unwrap_err().to_string();
    assert!(error.contains("is no snapshot of etcd"), "{error}");
}

#[test]
fn a_snapshot_that_is_changed_after_it_was_verified_is_not_packed() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "x.db", &snapshot(700));
    let found = verify(&path, folder.path()).unwrap();
    for other in [snapshot(600), snapshot(800)] {
        fs::write(&path, other).unwrap();
        let to = tempfile::tempdir().unwrap();
        let error = found.pack(None, &BackupKey::generate(), to.path(), &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::BackupUnusable, "{error}");
    }
}
