//! Signing in place: nothing but the room for signatures changes, and nothing but signatures can be lost.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support;
use kubexm_archive::{ArchiveError, Bundle, Options, Signature, Signing, signature_slot, sums, verify};
use kubexm_spec::{Digest, ExitCode};
use tempfile::TempDir;

fn signature(number: usize) -> Signature {
    Signature { key_id: format!("{number:032x}"), alg: "ed25519".into(), sig: "A".repeat(88), statement: None }
}

/// A folder with a bundle in it.
fn unsigned() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    support::write_with(&path, &support::small(), 2).unwrap();
    (dir, path)
}

fn sign(path: &Path, signatures: &[Signature]) -> Result<(), ArchiveError> {
    Signing::open(path)?.replace(signatures, &|_, _| {}).map(drop)
}

fn is_whole(path: &Path) -> Result<Vec<Signature>, String> {
    let bundle = Bundle::open(path).map_err(|e| e.to_string())?;
    verify(&bundle, 2, &|_, _| {}).map_err(|e| e.to_string())?;
    Ok(bundle.signatures().to_vec())
}

/// Where the frame of the room begins: 12 bytes of frame and block header stand before its tar header.
fn room_frame(bytes: &[u8]) -> std::ops::Range<usize> {
    let name = b"manifest.json.sig\0";
    let start = bytes.windows(name.len()).position(|window| window == name).unwrap() - 12;
    start..start + 9 + 3 + 512 + 16384 + 4
}

#[test]
fn signing_changes_only_the_signature_slot() {
    let (_dir, path) = unsigned();
    let before = fs::read(&path).unwrap();
    let (id, manifest) = {
        let bundle = Bundle::open(&path).unwrap();
        (bundle.bundle_id(), bundle.manifest_digest())
    };
    let all = [signature(1), signature(2)];
    sign(&path, &all).unwrap();
    let after = fs::read(&path).unwrap();
    let room = room_frame(&before);
    assert_eq!(before.len(), after.len());
    assert_eq!((&before[..room.start], &before[room.end..]), (&after[..room.start], &after[room.end..]));
    assert_eq!(is_whole(&path).unwrap(), all);
    let bundle = Bundle::open(&path).unwrap();
    assert_eq!((bundle.bundle_id(), bundle.manifest_digest()), (id, manifest));
    for check in [vec!["zstd", "-q", "-t"], vec!["tar", "--zstd", "-tf"]] {
        assert!(Command::new(check[0]).args(&check[1..]).arg(&path).output().unwrap().status.success(), "{check:?}");
    }
    sign(&path, &[]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), before, "taking all signatures out gives the bytes of the build");
}

#[test]
fn a_torn_signature_slot_loses_only_signatures_and_can_be_signed_again() {
    let (dir, path) = unsigned();
    let unsigned = fs::read(&path).unwrap();
    sign(&path, &[signature(1)]).unwrap();
    let signed = fs::read(&path).unwrap();
    let room = room_frame(&signed);
    let torn_path = dir.path().join("torn.tar.zst");
    let mut lost = 0;
    for cut in (room.start..room.start + 800).chain(room.end - 8..=room.end) {
        let mut torn = unsigned.clone();
        torn[room.start..cut].copy_from_slice(&signed[room.start..cut]);
        fs::write(&torn_path, &torn).unwrap();
        let open = Signing::open(&torn_path).unwrap();
        assert_eq!(open.bundle().manifest_digest(), Bundle::open(&path).unwrap().manifest_digest());
        if open.torn().is_some() {
            lost += 1;
            let error = Bundle::open(&torn_path).unwrap_err();
            assert_eq!(error.exit_code(), ExitCode::BundleDamaged);
            assert!(error.to_string().contains("manifest.json.sig") && error.to_string().contains("sign"), "{error}");
        }
        open.replace(&[signature(1)], &|_, _| {}).unwrap();
        assert_eq!(fs::read(&torn_path).unwrap(), signed, "torn at {cut}");
    }
    assert!(lost > 100, "{lost}");
}

#[test]
fn garbage_in_the_signature_slot_is_damage_for_readers_and_replaced_by_signers() {
    let (_dir, path) = unsigned();
    let before = fs::read(&path).unwrap();
    let room = room_frame(&before);
    for fill in [0, 0xff, b' ', b'['] {
        let mut bytes = before.clone();
        bytes[room.clone()].fill(fill);
        fs::write(&path, &bytes).unwrap();
        assert_eq!(Bundle::open(&path).unwrap_err().exit_code(), ExitCode::BundleDamaged, "{fill}");
        sign(&path, &[signature(3)]).unwrap();
        assert_eq!(is_whole(&path).unwrap(), [signature(3)]);
    }
}

#[test]
fn damage_elsewhere_is_not_signed_over() {
    let (_dir, path) = unsigned();
    let before = fs::read(&path).unwrap();
    let room = room_frame(&before);
    for at in [40, room.start - 1, room.end + 20, before.len() - 3] {
        let mut bytes = before.clone();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(Signing::open(&path).is_err(), "byte {at}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn a_second_signer_is_refused_while_the_first_works() {
    let (_dir, path) = unsigned();
    let first = Signing::open(&path).unwrap();
    let refused = Signing::open(&path).unwrap_err();
    assert!(matches!(refused, ArchiveError::BeingSigned { .. }), "{refused}");
    assert_eq!(refused.exit_code(), ExitCode::HostLocked);
    first.replace(&[signature(1)], &|_, _| {}).unwrap();
    let again = Signing::open(&path).unwrap();
    assert_eq!(again.bundle().signatures(), [signature(1)], "what the first wrote is seen by the second");
}

#[test]
fn more_signatures_than_fit_are_refused_and_nothing_is_written() {
    let (_dir, path) = unsigned();
    sign(&path, &[signature(1)]).unwrap();
    let before = fs::read(&path).unwrap();
    let all: Vec<_> = (0..200).map(signature).collect();
    let error = sign(&path, &all).unwrap_err();
    let ArchiveError::RoomFull(full) = &error else { panic!("{error}") };
    assert_eq!(fs::read(&path).unwrap(), before);
    sign(&path, &all[..full.fit]).unwrap();
    assert_eq!(is_whole(&path).unwrap(), all[..full.fit]);
}

#[test]
fn the_sums_beside_it_get_the_new_sum_of_this_file_alone() {
    let (dir, path) = unsigned();
    let other = (Digest::of(b"other"), "kubexm-install".to_owned());
    let sums_path = sums::path_of(&path);
    sums::write(&sums_path, &[other.clone(), (Digest::of(fs::read(&path).unwrap()), "x.tar.zst".into())]).unwrap();
    let signed = Signing::open(&path).unwrap().replace(&[signature(1)], &|_, _| {}).unwrap();
    assert_eq!(signed.sums.as_deref(), Some(&*sums_path));
    let now = Digest::of(fs::read(&path).unwrap());
    assert_eq!(sums::read(&sums_path).unwrap(), [other, (now, "x.tar.zst".into())]);
    let checked =
        Command::new("sha256sum").args(["-c", "--ignore-missing", "x.sums"]).current_dir(dir.path()).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    fs::remove_file(&sums_path).unwrap();
    assert_eq!(Signing::open(&path).unwrap().replace(&[], &|_, _| {}).unwrap().sums, None);
    assert!(!sums_path.exists(), "sums that were not there are not made");
}

#[test]
fn sums_of_another_form_are_left_and_reported_and_the_bundle_is_signed() {
    let (_dir, path) = unsigned();
    for foreign in [&b"SHA256 (x.tar.zst) = 00\n"[..], b"\xff\xfe"] {
        fs::write(sums::path_of(&path), foreign).unwrap();
        let signed = Signing::open(&path).unwrap().replace(&[signature(1)], &|_, _| {}).unwrap();
        assert_eq!((signed.sums, signed.left.map(|(path, _)| path)), (None, Some(sums::path_of(&path))));
        assert_eq!(fs::read(sums::path_of(&path)).unwrap(), foreign);
        assert_eq!(is_whole(&path).unwrap(), [signature(1)]);
    }
}

#[test]
fn of_a_split_bundle_the_first_volume_is_signed_whichever_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let mut contents = support::small();
    contents.push(support::blob([b"\x1f\x8b\x08\0".to_vec(), support::noise(20 << 20, 9)].concat()));
    let options = Options { level: 1, threads: 2, split: Some(12 << 20) };
    kubexm_archive::write(&path, &support::manifest(&contents), support::inputs(&contents), &options, &|_, _| {})
        .unwrap();
    let volume = |number: u32| dir.path().join(format!("x.tar.zst.{number:03}"));
    let before: Vec<_> = (1..=2).map(|number| fs::read(volume(number)).unwrap()).collect();
    let signed = Signing::open(&volume(2)).unwrap().replace(&[signature(1)], &|_, _| {}).unwrap();
    assert_eq!(signed.file, volume(1));
    let after: Vec<_> = (1..=2).map(|number| fs::read(volume(number)).unwrap()).collect();
    assert_ne!(before[0], after[0]);
    assert_eq!((before[0].len(), &before[1]), (after[0].len(), &after[1]));
    assert_eq!(is_whole(&volume(1)).unwrap(), [signature(1)]);
    assert_eq!(signed.sums.as_deref(), Some(&*sums::path_of(&path)), "a split build writes sums");
    let checked = Command::new("sha256sum").args(["-c", "x.sums"]).current_dir(dir.path()).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn a_file_of_signatures_reads_back_and_is_written_whole() {
    let (dir, path) = unsigned();
    let file = kubexm_archive::detached_path_of(&path);
    assert_eq!(file, dir.path().join("x.sig"));
    kubexm_archive::write_detached(&file, &[signature(1), signature(2)]).unwrap();
    let json = fs::read(&file).unwrap();
    assert_eq!(signature_slot::from_json(json.trim_ascii_end()), Ok(vec![signature(1), signature(2)]));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left there");
}
