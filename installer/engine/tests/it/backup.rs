//! A backup's folder: only those it is sealed for open it, and nothing of it can be cut off or changed without a word.

use std::path::Path;

use kubexm_engine::OperatorIdentity;
use kubexm_engine::backup::{
    ARCHIVE, BackupAbout, BackupError, BackupHeader, BackupKey, HEADER, verify_archive, verify_contents,
};
use kubexm_plan::backup::{Archive, SNAPSHOT_MEMBER, SnapshotFacts};
use kubexm_plan::{ClusterId, Recipient};
use kubexm_spec::{Digest, ExitCode, ExitError as _};

const ID: ClusterId = ClusterId::from_random([1; 16]);

fn identity(folder: &Path, name: &str) -> OperatorIdentity {
    OperatorIdentity::read_or_make(&folder.join(name), &|_| Err(String::new())).unwrap()
}

/// Pages with their checksum, as etcd sends them.
fn snapshot() -> Vec<u8> {
    let data = vec![7; 4096];
    let hex = Digest::of(&data).hex();
    let sum = (0..32).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap());
    data.iter().copied().chain(sum).collect()
}

/// A backup with this snapshot.
fn backup(folder: &Path, recipients: &[&OperatorIdentity], snapshot: &[u8]) -> BackupHeader {
    let files = [(SNAPSHOT_MEMBER, snapshot), ("files/etc/kubernetes/pki/ca.key", b"the CA's key")];
    backup_of(
        folder,
        recipients,
        snapshot.len() as u64,
        &files.map(|(name, bytes)| (name, tar::EntryType::Regular, bytes)),
    )
}

/// A backup with these files, which says that its snapshot is so long.
fn backup_of(
    folder: &Path,
    recipients: &[&OperatorIdentity],
    size: u64,
    files: &[(&str, tar::EntryType, &[u8])],
) -> BackupHeader {
    let key = BackupKey::generate();
    let mut tar = tar::Builder::new(Vec::new());
    for (name, kind, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        if *kind == tar::EntryType::GNUSparse {
            // As a snapshot without end.
            header.as_gnu_mut().unwrap().set_real_size(1 << 62);
        }
        tar.append_data(&mut header, name, *bytes).unwrap();
    }
    let recipient: age::x25519::Recipient = key.recipient().parse().unwrap();
    let archive = age::encrypt(&recipient, &tar.into_inner().unwrap()).unwrap();
    let about = BackupAbout {
        cluster: "red".to_owned(),
        cluster_id: ID,
        created: 1_800_000_000,
        kubernetes: Some("v1.34.4".to_owned()),
        host: "cp1".to_owned(),
        program: "test".to_owned(),
        recipients: recipients.iter().map(|one| Recipient { key: one.recipient(), name: None }).collect(),
        archive: Archive { sha256: Digest::of(&archive), size: archive.len() as u64 },
        etcd: SnapshotFacts { revision: 9, keys: 3, size },
        had: None,
    };
    let header = BackupHeader::seal(about, &key, recipients[0]).unwrap();
    std::fs::write(folder.join(HEADER), header.to_json().unwrap()).unwrap();
    std::fs::write(folder.join(ARCHIVE), archive).unwrap();
    header
}

/// Everything that a restore verifies.
fn verified(folder: &Path, identity: &OperatorIdentity) -> Result<Vec<String>, BackupError> {
    let header = BackupHeader::read(folder)?;
    verify_archive(folder, &header.about)?;
    let key = header.open(folder, identity)?;
    verify_contents(folder, &header.about, &key)
}

#[test]
fn every_operator_opens_it_and_nobody_else() {
    let (folder, homes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [alice, bob, eve] = ["alice", "bob", "eve"].map(|name| identity(homes.path(), name));
    let header = backup(folder.path(), &[&alice, &bob], &snapshot());
    for one in [&alice, &bob] {
        assert_eq!(verified(folder.path(), one).unwrap(), ["files/etc/kubernetes/pki/ca.key"]);
    }
    let error = verified(folder.path(), &eve).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::BackupUnusable);
    assert!(matches!(error, BackupError::ForOthers { .. }) && error.to_string().contains(&eve.recipient()), "{error}");
    for file in [HEADER, ARCHIVE] {
        let bytes = std::fs::read(folder.path().join(file)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("the CA's key") && !text.contains("AGE-SECRET"), "{file} shows a secret");
    }
    assert!(header.check_cluster(folder.path(), "red", ID).is_ok());
    for (name, id) in [("red", ClusterId::from_random([2; 16])), ("blue", ID)] {
        let other = header.check_cluster(folder.path(), name, id).unwrap_err();
        assert!(matches!(other, BackupError::ClusterMismatch { .. }), "{other}");
    }
}

#[test]
fn a_backup_that_somebody_else_made_for_these_operators_is_refused() {
    let (folder, homes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [alice, bob, eve] = ["alice", "bob", "eve"].map(|name| identity(homes.path(), name));
    let header = backup(folder.path(), &[&alice, &bob], &snapshot());
    let (path, operators) = (folder.path().join(HEADER), [alice.recipient(), bob.recipient()]);
    let checked = |one: &OperatorIdentity, operators: &[String]| {
        BackupHeader::read(folder.path())?.authenticate(folder.path(), one, operators)
    };
    checked(&alice, &[]).unwrap();
    checked(&bob, &operators).unwrap();
    let refused = |one: &OperatorIdentity, operators: &[String], why: &str| {
        let error = checked(one, operators).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::BackupUnusable);
        assert!(error.to_string().contains("NOT AUTHENTICATED") && error.to_string().contains(why), "{error}");
    };
    refused(&bob, &[], "neither this home nor one of the operators");

    // Eve knows every public key, and seals for them what is hers.
    let about = BackupAbout { created: 1_900_000_000, ..header.about.clone() };
    let forged = BackupHeader::seal(about, &BackupKey::generate(), &eve).unwrap();
    let write = |text: String| std::fs::write(&path, text).unwrap();
    write(forged.to_json().unwrap());
    verified(folder.path(), &alice).unwrap_err();
    refused(&alice, &operators, "neither this home nor one of the operators");
    // In the name of Alice, with codes of her own, with those of Alice's backup, and with none.
    let named = |header: &BackupHeader, edit: &dyn Fn(&mut serde_json::Value)| {
        let mut document: serde_json::Value = serde_json::from_str(&header.to_json().unwrap()).unwrap();
        edit(&mut document);
        write(document.to_string());
    };
    named(&forged, &|document| document["sender"]["key"] = alice.recipient().into());
    refused(&alice, &operators, "that is not true");
    refused(&bob, &operators, "that is not true");
    let genuine: serde_json::Value = serde_json::from_str(&header.to_json().unwrap()).unwrap();
    named(&forged, &|document| document["sender"] = genuine["sender"].clone());
    refused(&alice, &operators, "that is not true");
    named(&forged, &|document| drop(document.as_object_mut().unwrap().remove("sender")));
    refused(&alice, &operators, "does not say who made it");
    // Bob's code is for Bob alone.
    named(&header, &|document| {
        let codes = document["sender"]["codes"].as_array_mut().unwrap();
        let bobs = codes.iter().find(|code| code["recipient"] == bob.recipient()).unwrap()["hmac"].clone();
        for code in codes {
            code["hmac"] = bobs.clone();
        }
    });
    refused(&alice, &operators, "that is not true");
    checked(&bob, &operators).unwrap();
}

#[test]
fn whatever_is_cut_off_or_altered_is_named() {
    let (folder, homes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let alice = identity(homes.path(), "alice");
    backup(folder.path(), &[&alice], &snapshot());
    let path = folder.path().join(ARCHIVE);
    let whole = std::fs::read(&path).unwrap();
    for length in [0, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let error = verified(folder.path(), &alice).unwrap_err();
        assert!(matches!(error, BackupError::Cut { .. }), "{length}: {error}");
    }
    let longer = [whole.as_slice(), b"x"].concat();
    for (at, bytes) in [0, 200, whole.len() / 2, whole.len() - 1].map(|at| (at, whole.clone())) {
        let mut altered = bytes;
        altered[at] ^= 1;
        std::fs::write(&path, altered).unwrap();
        assert!(matches!(verified(folder.path(), &alice), Err(BackupError::Damaged { .. })), "altered at {at}");
    }
    std::fs::write(&path, longer).unwrap();
    assert!(matches!(verified(folder.path(), &alice), Err(BackupError::Damaged { .. })));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(verified(folder.path(), &alice), Err(BackupError::NotThere { .. })));
}

#[test]
fn what_the_header_says_cannot_be_changed() {
    let (folder, homes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let alice = identity(homes.path(), "alice");
    let header = backup(folder.path(), &[&alice], &snapshot());
    let path = folder.path().join(HEADER);
    let text = std::fs::read_to_string(&path).unwrap();
    let other = ClusterId::from_random([2; 16]).to_string();
    for (from, to) in [
        (ID.to_string(), other),
        ("\"red\"".to_owned(), "\"blue\"".to_owned()),
        ("1800000000".to_owned(), "1800000001".to_owned()),
    ] {
        std::fs::write(&path, text.replace(&from, &to)).unwrap();
        let error = verified(folder.path(), &alice).unwrap_err();
        assert!(matches!(error, BackupError::Changed { .. }), "{to}: {error}");
    }
    for length in [0, 10, text.len() / 2] {
        std::fs::write(&path, &text[..length]).unwrap();
        assert!(matches!(BackupHeader::read(folder.path()), Err(BackupError::Damaged { .. })), "{length}");
    }
    std::fs::write(&path, text.replace("backup/v1", "backup/v9")).unwrap();
    assert!(matches!(BackupHeader::read(folder.path()), Err(BackupError::Newer { .. })));
    std::fs::write(&path, text).unwrap();
    assert_eq!(BackupHeader::read(folder.path()).unwrap(), header);
    let nothing = BackupHeader::read(&folder.path().join("nothing")).unwrap_err();
    assert!(matches!(nothing, BackupError::NotThere { .. }), "{nothing}");
}

#[test]
fn what_is_sealed_in_a_header_is_measured_before_it_is_read() {
    let (folder, homes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let alice = identity(homes.path(), "alice");
    let header = backup(folder.path(), &[&alice], &snapshot());
    // Some 7 MiB sealed, within the limit of a header; a gigabyte as a document.
    let many = format!("{{\"about\": [{}]}}", vec!["{\"\":0}"; 1_000_000].join(","));
    let recipient: age::x25519::Recipient = alice.recipient().parse().unwrap();
    let sealed = age::encrypt_and_armor(&recipient, many.as_bytes()).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&header.to_json().unwrap()).unwrap();
    document["sealed"] = sealed.into();
    let forged = BackupHeader::parse(document.to_string().as_bytes(), folder.path()).unwrap();
    let error = forged.open(folder.path(), &alice).unwrap_err();
    assert!(matches!(error, BackupError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("what is inside is longer than a header"), "{error}");
}

#[test]
fn an_archive_that_was_changed_after_it_was_compared_is_refused() {
    let (folder, other, homes) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let alice = identity(homes.path(), "alice");
    let header = backup(folder.path(), &[&alice], &snapshot());
    verify_archive(folder.path(), &header.about).unwrap();
    let key = header.open(folder.path(), &alice).unwrap();
    // Whoever knows the archive's public key writes one that is decrypted, too.
    let theirs = backup(other.path(), &[&alice], &snapshot());
    let bytes = std::fs::read(other.path().join(ARCHIVE)).unwrap();
    let secret = theirs.open(other.path(), &alice).unwrap().secret();
    let theirs: age::x25519::Identity = std::str::from_utf8(&secret).unwrap().parse().unwrap();
    let plain = age::decrypt(&theirs, &bytes).unwrap();
    let recipient: age::x25519::Recipient = key.recipient().parse().unwrap();
    std::fs::write(folder.path().join(ARCHIVE), age::encrypt(&recipient, &plain).unwrap()).unwrap();
    let error = verify_contents(folder.path(), &header.about, &key).unwrap_err();
    assert!(error.to_string().contains("changed while it was read"), "{error}");
}

#[test]
fn a_snapshot_that_was_damaged_before_it_was_encrypted_is_found() {
    let homes = tempfile::tempdir().unwrap();
    let alice = identity(homes.path(), "alice");
    let mut altered = snapshot();
    altered[100] ^= 1;
    for wrong in [altered, snapshot()[..4096].to_vec(), Vec::new()] {
        let folder = tempfile::tempdir().unwrap();
        backup(folder.path(), &[&alice], &wrong);
        let error = verified(folder.path(), &alice).unwrap_err();
        assert!(error.to_string().contains("does not match its own checksum"), "{error}");
    }
}

#[test]
fn a_snapshot_that_is_twice_there_longer_than_it_says_or_no_plain_file_is_refused_without_reading_it() {
    let homes = tempfile::tempdir().unwrap();
    let (alice, whole) = (identity(homes.path(), "alice"), snapshot());
    let (file, size) = (tar::EntryType::Regular, whole.len() as u64);
    let once = (SNAPSHOT_MEMBER, file, whole.as_slice());
    let refused = |size, files: &[(&str, tar::EntryType, &[u8])], why: &str| {
        let folder = tempfile::tempdir().unwrap();
        backup_of(folder.path(), &[&alice], size, files);
        let error = verified(folder.path(), &alice).unwrap_err();
        assert!(matches!(&error, BackupError::Damaged { .. }) && error.to_string().contains(why), "{error}");
    };
    refused(size, &[once, once], "exactly one");
    refused(size + 1, &[once], "bytes of");
    for kind in [tar::EntryType::GNUSparse, tar::EntryType::Symlink, tar::EntryType::Link] {
        refused(1 << 62, &[(SNAPSHOT_MEMBER, kind, &[0; 512])], "exactly one");
    }
    let many = vec![("files/x", file, b"".as_slice()); 10_001];
    refused(size, &[&[once], many.as_slice()].concat(), "more than 10000");
}
