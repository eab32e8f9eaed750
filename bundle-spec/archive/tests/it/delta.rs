//! Deltas: what the base has is left out, read from the base, and merged back to the bytes of a build in full.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{blob, inputs, manifest, noise, small, write_with};
use kubexm_archive::{
    ArchiveError, Bundle, Contents, Delta, Input, Options, Signature, StoredMember, check_references, encoding_for,
    merge, verify, verify_stream, write_contents,
};
use kubexm_spec::ExitCode;
use proptest::prelude::*;

fn old() -> Vec<(String, Vec<u8>)> {
    let mut contents = small();
    contents.extend([blob(noise(9 << 20, 21)), blob(noise(30_000, 22)), blob(b"old ".repeat(900))]);
    contents
}

fn new() -> Vec<(String, Vec<u8>)> {
    let mut contents = old();
    contents.pop();
    contents.extend([blob(b"new ".repeat(900)), blob(noise(5_000, 23))]);
    contents
}

/// A delta of `full` that leaves out what `base` has.
fn delta(target: &Path, full: &[(String, Vec<u8>)], base: &[(String, Vec<u8>)], signatures: &[Signature]) -> PathBuf {
    let has = |name: &String| name.starts_with("blobs/") && base.iter().any(|(other, _)| other == name);
    let left_out = full
        .iter()
        .filter(|(name, _)| has(name))
        .map(|(name, content)| StoredMember { name: name.clone(), encoding: encoding_for(content) })
        .collect();
    let inputs: Vec<Input<'_>> = inputs(full).into_iter().filter(|input| !has(&input.name)).collect();
    let base = Some(kubexm_spec::Digest::of(manifest(base).canonical_json().unwrap()));
    let contents = Contents {
        manifest: &manifest(full),
        inputs,
        delta: Delta { base, left_out },
        signatures,
        groups: Vec::new(),
        sources: None,
    };
    let options = Options { level: 1, threads: 2, split: None };
    write_contents(target, contents, &options, &|_, _| {}).unwrap().files.remove(0)
}

#[test]
fn a_delta_on_its_base_reads_as_the_full_bundle_and_merges_to_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let [base, full, part, merged] = ["base", "full", "part", "merged"].map(|name| dir.path().join(name));
    write_with(&base, &old(), 1).unwrap();
    write_with(&full, &new(), 2).unwrap();
    delta(&part, &new(), &old(), &[]);
    assert!(part.metadata().unwrap().len() < full.metadata().unwrap().len() / 100);
    let on_base = Bundle::open(&part).unwrap().on_bases(vec![Bundle::open(&base).unwrap()]).unwrap();
    assert_eq!(on_base.manifest_digest(), Bundle::open(&full).unwrap().manifest_digest());
    for (name, content) in &new() {
        assert!(on_base.read(name, 1 << 30).unwrap() == *content, "{name}");
    }
    verify(&on_base, 2, &|_, _| {}).unwrap();
    check_references(&on_base).unwrap();
    merge(&on_base, &merged, 2, &|_, _| {}).unwrap();
    assert!(fs::read(&merged).unwrap() == fs::read(&full).unwrap());
}

#[test]
fn a_delta_without_its_base_is_refused_with_the_names_of_missing_members() {
    let dir = tempfile::tempdir().unwrap();
    let [base, part] = ["base", "part"].map(|name| dir.path().join(name));
    delta(&part, &new(), &old(), &[]);
    write_with(&base, &small(), 1).unwrap();
    let lacking: Vec<String> = old()[6..8].iter().map(|(name, _)| name.clone()).collect();
    for bases in [vec![], vec![Bundle::open(&base).unwrap()]] {
        let reported = bases.len();
        let error = Bundle::open(&part).unwrap().on_bases(bases).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::BundleIncomplete);
        let text = error.to_string();
        assert!(lacking.iter().all(|name| text.contains(name)), "{reported}: {text}");
    }
    let alone = Bundle::open(&part).unwrap();
    assert!(matches!(alone.read(&lacking[0], 1 << 30), Err(ArchiveError::NoSuchMember { .. })));
    let target = dir.path().join("merged");
    assert!(merge(&alone, &target, 1, &|_, _| {}).is_err() && !target.exists());
}

#[test]
fn a_chain_of_deltas_reads_through_to_the_first_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let [first, second, third] = ["1", "2", "3"].map(|name| dir.path().join(name));
    write_with(&first, &small(), 1).unwrap();
    delta(&second, &old(), &small(), &[]);
    delta(&third, &new(), &old(), &[]);
    let open = |path| Bundle::open(path).unwrap();
    let second = open(&second).on_bases(vec![open(&first)]).unwrap();
    let third = open(&third).on_bases(vec![second]).unwrap();
    for (name, content) in &new() {
        assert!(third.read(name, 1 << 30).unwrap() == *content, "{name}");
    }
}

#[test]
fn a_merge_keeps_the_signatures() {
    let dir = tempfile::tempdir().unwrap();
    let [base, part, merged] = ["base", "part", "merged"].map(|name| dir.path().join(name));
    let signature = Signature { key_id: "ab".repeat(16), alg: "ed25519".into(), sig: "AA==".into(), statement: None };
    write_with(&base, &old(), 1).unwrap();
    delta(&part, &new(), &old(), std::slice::from_ref(&signature));
    let on_base = Bundle::open(&part).unwrap().on_bases(vec![Bundle::open(&base).unwrap()]).unwrap();
    merge(&on_base, &merged, 2, &|_, _| {}).unwrap();
    assert_eq!(Bundle::open(&merged).unwrap().signatures(), [signature]);
}

#[test]
fn damage_in_the_base_stops_a_merge_and_names_the_base() {
    let dir = tempfile::tempdir().unwrap();
    let [base, part, merged] = ["base", "part", "merged"].map(|name| dir.path().join(name));
    write_with(&base, &old(), 1).unwrap();
    delta(&part, &new(), &old(), &[]);
    let mut bytes = fs::read(&base).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&base, bytes).unwrap();
    let on_base = Bundle::open(&part).unwrap().on_bases(vec![Bundle::open(&base).unwrap()]).unwrap();
    let error = merge(&on_base, &merged, 2, &|_, _| {}).unwrap_err();
    assert!(!merged.exists());
    assert_eq!(error.exit_code(), ExitCode::BundleDamaged, "the disk is not at fault");
    let report = verify(&on_base.bases()[0], 2, &|_, _| {}).unwrap_err();
    let base_name = base.display().to_string();
    assert!(report.damages[0].describe_for(&part).contains(&base_name), "damage of the base is put on the delta");
    assert!(!report.damages[0].describe_for(&base).contains(&base_name));
    let text = format!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string));
    assert!(text.contains(base.to_str().unwrap()), "{text}");
}

#[test]
fn a_delta_passes_as_a_stream() {
    let dir = tempfile::tempdir().unwrap();
    let part = dir.path().join("part");
    delta(&part, &new(), &old(), &[]);
    let streamed = verify_stream(Path::new("-"), fs::File::open(&part).unwrap(), 2, &|_, _| {}).unwrap();
    streamed.bytes.as_ref().unwrap();
    assert!(streamed.layout().is_delta());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn any_delta_merges_to_the_bytes_of_the_full_bundle(
        sizes in prop::collection::vec((0_usize..40_000, any::<bool>(), any::<bool>()), 0..10),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (mut before, mut after) = (small(), small());
        for (number, (len, in_old, in_new)) in sizes.into_iter().enumerate() {
            let (name, content) = blob(noise(len + 1, number as u64 + 31));
            if in_old {
                before.push((name.clone(), content.clone()));
            }
            if in_new {
                after.push((name, content));
            }
        }
        let [base, full, part, merged] = ["base", "full", "part", "merged"].map(|name| dir.path().join(name));
        write_with(&base, &before, 1).unwrap();
        write_with(&full, &after, 1).unwrap();
        delta(&part, &after, &before, &[]);
        let on_base = Bundle::open(&part).unwrap().on_bases(vec![Bundle::open(&base).unwrap()]).unwrap();
        merge(&on_base, &merged, 3, &|_, _| {}).unwrap();
        prop_assert!(fs::read(&merged).unwrap() == fs::read(&full).unwrap());
    }
}
