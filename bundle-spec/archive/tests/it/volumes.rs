//! Split bundles: the same bundle in several files, wherever they lie.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::support::{blob, inputs, is_whole, manifest, noise, small, write_with};
use kubexm_archive::{ArchiveError, Bundle, Options, join, verify, verify_quick, write};
use kubexm_spec::{Digest, ExitCode};
use proptest::prelude::*;

const SPLIT: u64 = 20_000;

fn sample() -> Vec<(String, Vec<u8>)> {
    let mut contents = small();
    contents.extend((1..9).map(|seed| blob(noise(9_000 + seed as usize, seed))));
    contents
}

fn split(target: &Path, contents: &[(String, Vec<u8>)], size: u64) -> Vec<PathBuf> {
    let options = Options { level: 1, threads: 2, split: Some(size) };
    write(target, &manifest(contents), inputs(contents), &options, &|_, _| {}).unwrap().files
}

fn reads_as(bundle: &Bundle, contents: &[(String, Vec<u8>)]) {
    for (name, content) in contents {
        assert!(bundle.read(name, 1 << 30).unwrap() == *content, "{name}");
    }
    verify(bundle, 2, &|_, _| {}).unwrap();
    verify_quick(bundle, 2, &|_, _| {}).unwrap();
}

fn exit_of(result: Result<Bundle, ArchiveError>) -> (ExitCode, String) {
    let error = result.unwrap_err();
    (error.exit_code(), error.to_string())
}

#[test]
fn volumes_are_read_where_they_lie_in_any_order_and_from_several_folders() {
    let dir = tempfile::tempdir().unwrap();
    let files = split(&dir.path().join("x.tar.zst"), &sample(), SPLIT);
    assert!(files.len() >= 4, "{files:?}");
    assert!(files.iter().all(|file| file.metadata().unwrap().len() <= SPLIT));
    reads_as(&Bundle::open(dir.path()).unwrap(), &sample());
    for file in &files {
        reads_as(&Bundle::open(file).unwrap(), &sample());
    }
    let other = tempfile::tempdir().unwrap();
    let moved = other.path().join("renamed");
    fs::rename(&files[1], &moved).unwrap();
    let given = [files[3].clone(), moved.clone(), files[0].clone(), dir.path().to_owned()];
    reads_as(&Bundle::open_all(&given).unwrap(), &sample());
}

#[test]
fn volumes_behind_one_another_and_volumes_joined_are_one_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole.tar.zst");
    write_with(&whole, &sample(), 1).unwrap();
    let parts = dir.path().join("parts");
    fs::create_dir(&parts).unwrap();
    let files = split(&parts.join("x.tar.zst"), &sample(), SPLIT);
    let cat = dir.path().join("cat.tar.zst");
    fs::write(&cat, files.iter().flat_map(|file| fs::read(file).unwrap()).collect::<Vec<_>>()).unwrap();
    reads_as(&Bundle::open(&cat).unwrap(), &sample());

    let joined = dir.path().join("joined.tar.zst");
    let written = join(&Bundle::open(&parts).unwrap(), &joined, None, &|_, _| {}).unwrap();
    assert_eq!(written.files, [joined.as_path()]);
    assert!(fs::read(&joined).unwrap() == fs::read(&whole).unwrap(), "join gives a build's own bytes");
    let again = dir.path().join("again.tar.zst");
    let written = join(&Bundle::open(&whole).unwrap(), &again, Some(SPLIT), &|_, _| {}).unwrap();
    for (one, other) in written.files.iter().zip(&files) {
        assert!(fs::read(one).unwrap() == fs::read(other).unwrap(), "{}", one.display());
    }
    assert_eq!(fs::read_dir(&parts).unwrap().count(), files.len() + 1, "nothing that was read is gone");
}

#[test]
fn the_sums_are_those_of_the_volumes_and_a_shorter_bundle_leaves_none_of_the_longer_one() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x.tar.zst");
    let before = split(&target, &sample(), SPLIT).len();
    let files = split(&target, &small(), SPLIT);
    assert!(files.len() < before);
    let sums = kubexm_archive::sums::read(&dir.path().join("x.sums")).unwrap();
    let wanted: Vec<_> = files
        .iter()
        .map(|file| (Digest::of(fs::read(file).unwrap()), file.file_name().unwrap().to_str().unwrap().to_owned()))
        .collect();
    assert_eq!(sums, wanted);
    reads_as(&Bundle::open(dir.path()).unwrap(), &small());
}

#[test]
fn one_file_in_place_of_volumes_leaves_none_of_them_and_nothing_of_others_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let (target, sums) = (dir.path().join("x.tar.zst"), dir.path().join("x.sums"));
    let names = || -> Vec<String> {
        let mut all: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        all.sort();
        all
    };
    split(&target, &sample(), SPLIT);
    write_with(&target, &sample(), 1).unwrap();
    assert_eq!(names(), ["x.tar.zst"]);
    reads_as(&Bundle::open(dir.path()).unwrap(), &sample());

    // A volume that the sums do not list, and one that is none, stay, and then the sums do.
    let files = split(&target, &sample(), SPLIT);
    fs::copy(&files[0], dir.path().join("x.tar.zst.900")).unwrap();
    write_with(&target, &sample(), 1).unwrap();
    assert_eq!(names(), ["x.sums", "x.tar.zst", "x.tar.zst.900"]);
    fs::remove_file(dir.path().join("x.tar.zst.900")).unwrap();
    let files = split(&target, &sample(), SPLIT);
    fs::write(&files[1], "mine").unwrap();
    write_with(&target, &sample(), 1).unwrap();
    assert_eq!(names().len(), files.len() + 2);
    files.iter().for_each(|file| fs::remove_file(file).unwrap());

    // Sums of something else.
    let digest = Digest::of(b"x").hex();
    for foreign in ["mine", "", &format!("{digest}  x.tar.zst.001\n{digest}  photo.jpg\n")] {
        fs::write(&sums, foreign).unwrap();
        write_with(&target, &sample(), 1).unwrap();
        assert_eq!(fs::read_to_string(&sums).unwrap(), foreign);
        let options = Options { level: 1, threads: 2, split: Some(SPLIT) };
        let contents = sample();
        let refused = write(&target, &manifest(&contents), inputs(&contents), &options, &|_, _| {}).unwrap_err();
        assert!(refused.to_string().contains("x.sums"), "{refused}");
        assert_eq!(names(), ["x.sums", "x.tar.zst"]);
        assert_eq!(fs::read_to_string(&sums).unwrap(), foreign);
    }
}

#[test]
fn leftovers_of_a_killed_split_are_removed_by_the_next_one_unless_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x.tar.zst");
    let begun = |name: &str| dir.path().join(name);
    for name in [".x.tar.zst.700.partial", ".x.tar.zst.701.partial", ".y.tar.zst.700.partial", ".x.tar.zst.7.partial"] {
        fs::write(begun(name), "begun").unwrap();
    }
    let other = fs::File::open(begun(".x.tar.zst.701.partial")).unwrap();
    other.lock().unwrap();
    split(&target, &sample(), SPLIT);
    assert!(!begun(".x.tar.zst.700.partial").exists());
    for name in [".x.tar.zst.701.partial", ".y.tar.zst.700.partial", ".x.tar.zst.7.partial"] {
        assert!(begun(name).exists(), "{name}");
    }
    drop(other);
    write_with(&target, &sample(), 1).unwrap();
    assert!(!begun(".x.tar.zst.701.partial").exists());
}

#[test]
fn a_file_that_would_be_replaced_is_known_under_every_name_that_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x.tar.zst");
    for name in ["x.tar.zst.007", "x.sums", "y.tar.zst.007"] {
        fs::write(dir.path().join(name), name).unwrap();
    }
    std::os::unix::fs::symlink(dir.path().join("x.tar.zst.007"), dir.path().join("link")).unwrap();
    for (name, taken) in
        [("x.tar.zst.007", true), ("x.sums", true), ("link", true), ("y.tar.zst.007", false), ("none", false)]
    {
        assert_eq!(kubexm_archive::taken_by(&target, &[dir.path().join(name)]).is_some(), taken, "{name}");
    }
}

#[test]
fn volumes_that_are_missing_doubled_cut_or_foreign_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x.tar.zst");
    let files = split(&target, &sample(), SPLIT);
    for gone in &files {
        let aside = dir.path().join("aside");
        fs::rename(gone, &aside).unwrap();
        let (code, text) = exit_of(Bundle::open(dir.path()));
        let number = gone.extension().unwrap().to_str().unwrap();
        assert_eq!(code, ExitCode::BundleTruncated, "{text}");
        assert!(text.contains(number), "{number}: {text}");
        let missing = Bundle::open(dir.path()).unwrap_err().missing_volumes().to_vec();
        assert_eq!(missing, std::slice::from_ref(gone), "{text}");
        fs::rename(&aside, gone).unwrap();
    }
    let other = tempfile::tempdir().unwrap();
    let copy = other.path().join("copy");
    fs::copy(&files[1], &copy).unwrap();
    let (code, text) = exit_of(Bundle::open_all(&[dir.path().to_owned(), copy.clone()]));
    assert_eq!(code, ExitCode::BundleIncomplete);
    assert!(text.contains("twice"), "{text}");
    let foreign = split(&other.path().join("x.tar.zst"), &small(), SPLIT);
    let (code, text) = exit_of(Bundle::open_all(&[files[0].clone(), foreign[0].clone()]));
    assert_eq!(code, ExitCode::BundleIncomplete);
    assert!(text.contains("another bundle"), "{text}");
    let (code, text) = exit_of(Bundle::open_all(&[files[0].clone(), files[0].clone(), files[2].clone()]));
    assert_eq!(code, ExitCode::BundleTruncated);
    assert!(text.contains("002"), "{text}");

    let cut = fs::File::options().write(true).open(&files[1]).unwrap();
    let len = cut.metadata().unwrap().len();
    cut.set_len(len - 1).unwrap();
    let (code, text) = exit_of(Bundle::open(dir.path()));
    assert_eq!(code, ExitCode::BundleTruncated);
    assert!(text.contains(".002") && text.contains("copy this one"), "{text}");
    assert_eq!(Bundle::open(dir.path()).unwrap_err().missing_volumes(), [files[1].clone()]);
}

#[test]
fn every_changed_byte_of_every_volume_is_found_and_the_volume_named() {
    let dir = tempfile::tempdir().unwrap();
    let contents = [small(), vec![blob(noise(300, 9))]].concat();
    let files = split(&dir.path().join("x.tar.zst"), &contents, 18_500);
    assert!(files.len() >= 2, "{files:?}");
    for path in &files {
        let bytes = fs::read(path).unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        for (at, byte) in bytes.iter().enumerate() {
            file.write_all_at(&[byte ^ (1 << (at % 8))], at as u64).unwrap();
            let found = Bundle::open(dir.path())
                .map_err(|e| e.to_string())
                .and_then(|bundle| verify(&bundle, 1, &|_, _| {}).map_err(|report| report.to_string()));
            let text = found.unwrap_err();
            let name = path.to_str().unwrap();
            assert!(text.contains(name), "{name}, byte {at}: {text}");
            file.write_all_at(&[*byte], at as u64).unwrap();
        }
    }
    assert_eq!(is_whole(&files[0]), Ok(()));
}

#[test]
fn a_split_that_cannot_hold_the_bundle_is_refused_with_one_that_can() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x.tar.zst");
    for size in [1, 500, 17_000] {
        let options = Options { level: 1, threads: 2, split: Some(size) };
        let error = write(&target, &manifest(&sample()), inputs(&sample()), &options, &|_, _| {}).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Usage, "{error}");
        let ArchiveError::SplitTooSmall { fits, .. } = error else { panic!("{error}") };
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
        split(&target, &sample(), fits);
        fs::remove_dir_all(dir.path()).unwrap();
        fs::create_dir(dir.path()).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn any_bundle_in_volumes_of_any_size_is_the_bundle(
        sizes in prop::collection::vec(0_usize..60_000, 1..12), size in 18_000_u64..200_000,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut contents = small();
        for (number, len) in sizes.into_iter().enumerate() {
            let (name, content) = blob(noise(len, number as u64 + 11));
            if contents.iter().all(|(other, _)| *other != name) {
                contents.push((name, content));
            }
        }
        let size = size.max(63_000);
        split(&dir.path().join("x.tar.zst"), &contents, size);
        let whole = dir.path().join("whole");
        write_with(&whole, &contents, 3).unwrap();
        let joined = dir.path().join("joined");
        join(&Bundle::open(&dir.path().join("x.tar.zst.001")).unwrap(), &joined, None, &|_, _| {}).unwrap();
        prop_assert!(fs::read(&joined).unwrap() == fs::read(&whole).unwrap());
    }
}
