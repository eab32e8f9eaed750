//! Every changed byte and every cut is found, with the part and place it is in.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::support::forge::Forged;
use crate::support::{blob, is_whole, noise, small, write_with};
use kubexm_archive::{ArchiveError, Bundle, Damage, MemberReader, verify, verify_stream};
use kubexm_spec::{Digest, ExitCode};

#[test]
fn every_changed_byte_of_a_bundle_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    write_with(&path, &small(), 1).unwrap();
    assert_eq!(is_whole(&path), Ok(()));
    let bytes = fs::read(&path).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    for (at, byte) in bytes.iter().enumerate() {
        file.write_all_at(&[byte ^ (1 << (at % 8))], at as u64).unwrap();
        assert!(is_whole(&path).is_err(), "byte {at} of {}", bytes.len());
        file.write_all_at(&[*byte], at as u64).unwrap();
    }
    assert_eq!(is_whole(&path), Ok(()));
}

#[test]
fn every_cut_is_found_and_called_truncated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    write_with(&path, &small(), 1).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    for len in (0..file.metadata().unwrap().len()).rev() {
        file.set_len(len).unwrap();
        let error = Bundle::open(&path).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::BundleTruncated, "cut at {len}: {error}");
    }
}

#[test]
fn bytes_behind_the_end_are_damage_and_not_a_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    write_with(&path, &small(), 1).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len() as u64;
    bytes.extend(b"more");
    fs::write(&path, bytes).unwrap();
    match Bundle::open(&path) {
        Err(ArchiveError::Damaged { offset, .. }) => assert_eq!(offset, end),
        other => panic!("{other:?}"),
    }
}

#[test]
fn damage_is_reported_with_member_and_place_and_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let (large, text) = (blob([b"\x1f\x8b".to_vec(), noise(20 << 20, 1)].concat()), blob(b"text ".repeat(300)));
    write_with(&path, &[large.clone(), text.clone()], 2).unwrap();
    let bundle = Bundle::open(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    let hits = [12_u64 << 20, whole.len() as u64 - 1500];
    let at_text = whole.windows(4).rposition(|w| w == [0x28, 0xb5, 0x2f, 0xfd]).unwrap() as u64 - 20;
    for hit in [hits[0], at_text] {
        file.write_all_at(&[whole[hit as usize] ^ 1], hit).unwrap();
    }
    let report = verify(&bundle, 2, &|_, _| {}).unwrap_err();
    let parts: Vec<&str> = report.damages.iter().map(|d| d.part.as_str()).collect();
    assert_eq!(parts, [large.0.as_str(), text.0.as_str()], "{report:?}");
    for (Damage { offset, length, .. }, hit) in report.damages.iter().zip([hits[0], at_text]) {
        assert!((*offset..offset + length).contains(&hit), "{offset} {length} {hit}");
    }
    assert_eq!((report.count, report.exit_code()), (2, ExitCode::BundleDamaged));
    let error = bundle.read(&large.0, u64::MAX).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::BundleDamaged, "a reader must not give damaged bytes as whole ones");
    let digest = Digest::of(&large.1);
    let read = std::io::copy(&mut bundle.part(&large.0, 9 << 20).unwrap().without_verification(), &mut std::io::sink());
    assert!(read.is_err(), "a reader from the middle must not give damaged bytes either");
    assert!(bundle.blob_from(&digest, 9 << 20).and_then(read_all).is_err());
}

#[test]
fn a_content_that_agrees_with_the_trailer_but_not_with_the_manifest_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let contents = [("index.json".to_owned(), b"{\"manifests\":[]}".to_vec()), blob(noise(3000, 3))];
    let mut forged = Forged::honest(&contents);
    forged.members[1].2[77] ^= 1;
    fs::write(&path, forged.bytes()).unwrap();
    let bundle = Bundle::open(&path).unwrap();
    let report = verify(&bundle, 2, &|_, _| {}).unwrap_err();
    assert_eq!(report.damages[0].part, contents[1].0);
}

/// Where the content was changed together with the trailer, only the manifest's digest of the whole shows it.
#[test]
fn a_blob_from_the_middle_does_not_end_well_if_any_byte_of_it_is_forged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let contents = [("index.json".to_owned(), b"{\"manifests\":[]}".to_vec()), blob(noise(9 << 20, 3))];
    let digest = Digest::of(&contents[1].1);
    let size = contents[1].1.len() as u64;
    // Before the first byte that is read, in the middle, and the last one.
    for forged_at in [77_usize, 4 << 20, (9 << 20) - 1] {
        let mut forged = Forged::honest(&contents);
        forged.members[1].2[forged_at] ^= 1;
        fs::write(&path, forged.bytes()).unwrap();
        let bundle = Bundle::open(&path).unwrap();
        for offset in [0, 1 << 20, 4 << 20, size - 1, size] {
            let read = bundle.blob_from(&digest, offset).and_then(read_all);
            assert_eq!(
                read.map_err(|error| error.exit_code()),
                Err(ExitCode::BundleDamaged),
                "byte {forged_at}, read from {offset}"
            );
        }
        // What nobody verified is read all the same, by whoever says so.
        let mut part = bundle.part(&contents[1].0, 4 << 20).unwrap().without_verification();
        assert_eq!(std::io::copy(&mut part, &mut std::io::sink()).unwrap(), size - (4 << 20));
    }
}

/// All bytes that a reader has, and whether it found them right.
fn read_all(mut reader: MemberReader) -> Result<Vec<u8>, ArchiveError> {
    let mut bytes = Vec::new();
    match std::io::Read::read_to_end(&mut reader, &mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(error.downcast().unwrap()),
    }
}

#[test]
fn padding_and_tar_headers_are_checked_even_if_they_match_the_trailer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let contents = [("index.json".to_owned(), b"{}".to_vec()), blob(noise(30, 3))];
    let mut padding = Forged::honest(&contents);
    padding.members[0].2.resize(500, b'x');
    let mut header = Forged::honest(&contents);
    header.members[1].0 = "../../etc/passwd".into();
    for forged in [padding, header] {
        fs::write(&path, forged.bytes()).unwrap();
        assert!(is_whole(&path).is_err());
    }
}

#[test]
fn a_damaged_first_frame_is_not_blamed_on_later_members() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let large = blob([b"\x1f\x8b".to_vec(), noise(30 << 20, 1)].concat());
    write_with(&path, &[large.clone(), blob(b"text ".repeat(300))], 2).unwrap();
    let bundle = Bundle::open(&path).unwrap();
    let hit = bundle.stored_offset(bundle.find(&large.0).unwrap()) + 100_000;
    let mut bytes = fs::read(&path).unwrap();
    bytes[hit as usize] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let streamed = verify_stream(Path::new("-"), &bytes[..], 2, &|_, _| {}).unwrap();
    for report in [verify(&bundle, 2, &|_, _| {}).unwrap_err(), streamed.bytes.unwrap_err()] {
        let in_member: Vec<_> = report.damages.iter().filter(|damage| damage.part == large.0).collect();
        assert_eq!(in_member.len(), 1, "{report:?}");
        assert!((in_member[0].offset..in_member[0].offset + in_member[0].length).contains(&hit), "{report:?}");
    }
}
