//! What is written is what is read; the bytes depend on the content alone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

use std::fs;
use std::io::Read;

use crate::support::forge::Forged;
use crate::support::{blob, inputs, manifest, noise, small, write_with};
use kubexm_archive::{ArchiveError, Bundle, Encoding, Input, Options, members, verify, write};
use kubexm_spec::{Digest, ExitCode};
use proptest::prelude::*;

/// Any subset of the fixed members, then blobs, each of any content and stored either way.
fn any_members() -> impl Strategy<Value = Vec<(String, Vec<u8>, Encoding)>> {
    let content = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..3000),
        (0_usize..400_000, any::<u64>()).prop_map(|(len, seed)| noise(len, seed | 1)),
        (0_usize..400_000).prop_map(|len| vec![b'a'; len]),
        (0_usize..8).prop_map(|over| vec![0; (8 << 20) - 515 + over]),
    ];
    let encoding = prop_oneof![Just(Encoding::Raw), Just(Encoding::Zstd)];
    let fixed = prop::collection::vec(prop::option::of((content.clone(), encoding.clone())), members::FIXED.len());
    let blobs = prop::collection::vec((content, encoding), 0..6);
    (fixed, blobs).prop_map(|(fixed, blobs)| {
        let mut all: Vec<_> = members::FIXED
            .into_iter()
            .zip(fixed)
            .filter_map(|(name, given)| given.map(|(content, encoding)| (name.to_owned(), content, encoding)))
            .collect();
        for (content, encoding) in blobs {
            let (name, content) = blob(content);
            if all.iter().all(|(other, ..)| *other != name) {
                all.push((name, content, encoding));
            }
        }
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_member_of_any_bundle_reads_back(all in any_members(), threads in 1_usize..4, level in 1_i32..4) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.tar.zst");
        let contents: Vec<_> = all.iter().map(|(name, content, _)| (name.clone(), content.clone())).collect();
        let inputs = all
            .iter()
            .map(|(name, content, encoding)| Input { encoding: *encoding, ..Input::bytes(name.clone(), content.clone()) })
            .collect();
        let manifest = manifest(&contents);
        let written = write(&path, &manifest, inputs, &Options { level, threads, ..Options::default() }, &|_, _| {}).unwrap();
        let bundle = Bundle::open(&path).unwrap();
        prop_assert_eq!(bundle.manifest(), &manifest);
        prop_assert_eq!(bundle.size(), written.size);
        prop_assert_eq!(bundle.manifest_digest(), written.manifest);
        prop_assert_eq!(bundle.bundle_id(), written.bundle_id);
        for (name, content, _) in &all {
            prop_assert_eq!(&bundle.read(name, u64::MAX).unwrap(), content);
        }
        let verified = verify(&bundle, threads, &|_, _| {}).unwrap();
        prop_assert_eq!((verified.bytes, verified.members), (written.size, all.len() + 2));
    }
}

#[test]
fn the_bytes_do_not_depend_on_the_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let mut contents = small();
    let lines: Vec<u8> = (0..3_000_000_u32).flat_map(|i| format!("line {}\n", i % 70_001).into_bytes()).collect();
    contents.extend([blob(lines), blob(noise(9 << 20, 5)), blob(vec![7; 20 << 20])]);
    let files: Vec<Vec<u8>> = [1, 2, 7]
        .into_iter()
        .map(|threads| {
            let path = dir.path().join(format!("{threads}.tar.zst"));
            write_with(&path, &contents, threads).unwrap();
            fs::read(path).unwrap()
        })
        .collect();
    assert!(files[0] == files[1] && files[0] == files[2]);
}

#[test]
fn a_second_writer_that_follows_the_description_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let mut contents = small();
    contents.push(blob(noise((8 << 20) + 1, 9)));
    let raw = inputs(&contents).into_iter().map(|input| Input { encoding: Encoding::Raw, ..input }).collect();
    write(&path, &manifest(&contents), raw, &Options { level: 1, threads: 2, ..Options::default() }, &|_, _| {})
        .unwrap();
    assert!(fs::read(path).unwrap() == Forged::honest(&contents).bytes());
}

#[test]
fn a_blob_is_read_from_any_byte_on_in_both_encodings() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let size = (16 << 20) + 1000;
    let (raw, text) = (blob([b"\x1f\x8b".to_vec(), noise(size - 2, 5)].concat()), blob(b"abcdefg".repeat(size / 7)));
    write_with(&path, &[raw.clone(), text.clone()], 2).unwrap();
    let bundle = Bundle::open(&path).unwrap();
    assert_eq!(bundle.find(&raw.0).unwrap().encoding, Encoding::Raw);
    assert_eq!(bundle.find(&text.0).unwrap().encoding, Encoding::Zstd);
    for (_, content) in [raw, text] {
        let digest = Digest::of(&content);
        for offset in [0, 1, 131_071, (8 << 20) - 512, (8 << 20) - 511, 8 << 20, content.len() - 1, content.len()] {
            let mut found = Vec::new();
            bundle.blob_from(&digest, offset as u64).unwrap().read_to_end(&mut found).unwrap();
            assert!(found == content[offset..], "offset {offset}");
            found.clear();
            let part = bundle.part(&members::blob_name(&digest), offset as u64).unwrap();
            part.without_verification().read_to_end(&mut found).unwrap();
            assert!(found == content[offset..], "unverified, offset {offset}");
        }
        assert!(matches!(bundle.blob_from(&digest, u64::MAX), Err(ArchiveError::BeyondEnd { .. })));
    }
}

#[test]
fn what_is_asked_for_and_not_there_or_too_large_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    write_with(&path, &small(), 1).unwrap();
    let bundle = Bundle::open(&path).unwrap();
    let missing = bundle.read("catalogue.json", 100).unwrap_err();
    assert_eq!(missing.exit_code(), ExitCode::BundleIncomplete);
    assert!(missing.to_string().contains("catalogue.json"), "{missing}");
    assert!(matches!(bundle.read("lock.yaml", 7), Err(ArchiveError::TooLarge { size: 8, limit: 7, .. })));
    assert_eq!(bundle.signatures(), []);
}

#[test]
fn inputs_that_are_not_the_manifests_members_are_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let contents = small();
    let mut swapped = inputs(&contents);
    swapped.swap(0, 1);
    let fewer = inputs(&contents[1..]);
    for wrong in [swapped, fewer] {
        let result = write(&path, &manifest(&contents), wrong, &Options::default(), &|_, _| {});
        assert!(matches!(result, Err(ArchiveError::Unwritable { .. })), "{result:?}");
    }
    let mut twice = manifest(&contents);
    twice.members.push(twice.members[5].clone());
    let mut again = inputs(&contents);
    again.extend(inputs(&contents[5..]));
    assert!(matches!(
        write(&path, &twice, again, &Options::default(), &|_, _| {}),
        Err(ArchiveError::Unwritable { .. })
    ));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn progress_ends_at_the_total() {
    let dir = tempfile::tempdir().unwrap();
    let last = std::sync::Mutex::new((0, 0));
    let path = dir.path().join("x.tar.zst");
    let keep = |done, total| {
        let mut last = last.lock().unwrap();
        assert!(done > last.0 && done <= total);
        *last = (done, total);
    };
    write(&path, &manifest(&small()), inputs(&small()), &Options { level: 1, threads: 2, ..Options::default() }, &keep)
        .unwrap();
    let (done, total) = *last.lock().unwrap();
    assert!(done == total && total > 0);
}
