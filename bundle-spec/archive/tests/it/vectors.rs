//! The bundles under `bundle-spec/vectors` (`make` there writes them): this program writes and reads them, and so does a
//! reader in Python that knows the specification only.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

#[path = "../support/vectors.rs"]
mod samples;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{blob, noise, python, small, write_with};
use kubexm_archive::{Bundle, Documents, Signature, check_references, join, merge, verify};
use kubexm_spec::Digest;
use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors")
}

fn open(name: &str) -> Bundle {
    Bundle::open(&folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn run(program: &str, arguments: &[&str], within: &Path) -> Output {
    let output = Command::new(program).args(arguments).current_dir(within).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    output
}

/// What the reader in Python says of a bundle.
fn read_by_python(path: &Path, more: &[&str]) -> Value {
    let script = folder().join("read_bundle.py");
    let output = Command::new(python()).arg(script).arg(path).args(more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The same, as this program sees it.
fn read_by_us(bundle: &Bundle, volumes: usize) -> Value {
    let manifest = bundle.manifest();
    let contents = manifest.members.iter().filter(|member| bundle.find(&member.name).is_some());
    let members: Vec<Value> = contents
        .map(|member| {
            let content = bundle.read(&member.name, 1 << 30).unwrap();
            json!({ "name": member.name, "size": content.len(), "sha256": Digest::of(content).hex() })
        })
        .collect();
    let signature = |s: &Signature| {
        let date = s.stated().map(|statement| statement.date);
        json!({ "alg": s.alg, "keyId": s.key_id, "date": date })
    };
    let signatures = bundle.signatures().iter().map(signature).collect::<Vec<_>>();
    json!({
        "base": bundle.layout().base,
        "bundleId": bundle.bundle_id(),
        "encoder": bundle.layout().encoder,
        "leftOut": bundle.left_out().map(|member| member.name.as_str()).collect::<Vec<_>>(),
        "level": bundle.layout().level,
        "manifest": bundle.manifest_digest(),
        "members": members,
        "name": manifest.name,
        "signatures": signatures,
        "sources": bundle.sources().unwrap(),
        "volumes": volumes,
    })
}

#[test]
fn the_vectors_are_what_this_program_writes() {
    let dir = tempfile::tempdir().unwrap();
    let made = samples::make(dir.path(), open("signed.tar.zst").signatures());
    assert_eq!(made.len(), 9, "{made:?}");
    for file in made {
        let name = file.file_name().unwrap();
        let (ours, kept) = (fs::read(&file).unwrap(), fs::read(folder().join(name)).unwrap());
        assert!(
            ours == kept,
            "{} differs: if the format or zstd changed, run bundle-spec/vectors/make",
            name.display()
        );
    }
}

#[test]
fn every_vector_verifies_and_shows_its_part_of_the_format() {
    for name in ["base.tar.zst", "full.tar.zst", "split.tar.zst.002", "signed.tar.zst", "grouped.tar.zst"] {
        let bundle = open(name);
        verify(&bundle, 2, &|_, _| {}).unwrap();
        check_references(&bundle).unwrap();
    }
    let (full, split, signed) = (open("full.tar.zst"), open("split.tar.zst.001"), open("signed.tar.zst"));
    assert!(full.members().any(|member| member.frames > 1) && full.members().any(|member| member.size == 0));
    assert_eq!((split.files().len(), split.bundle_id()), (3, full.bundle_id()));
    assert_eq!((signed.signatures().len(), signed.bundle_id()), (2, full.bundle_id()));
    let delta = open("delta.tar.zst");
    assert_eq!(delta.manifest_digest(), full.manifest_digest());
    assert_ne!(delta.bundle_id(), full.bundle_id());
    let whole = delta.on_bases(vec![open("base.tar.zst")]).unwrap();
    check_references(&whole).unwrap();
    assert_eq!(whole.left_out().count(), 7, "all but what tells of the notes, and the notes");
}

#[test]
fn a_reader_in_python_reads_in_every_vector_what_this_program_reads() {
    let all = [
        ("base.tar.zst", 1),
        ("full.tar.zst", 1),
        ("split.tar.zst.001", 3),
        ("signed.tar.zst", 1),
        ("grouped.tar.zst", 1),
        ("grouped-delta.tar.zst", 1),
    ];
    for (name, volumes) in all {
        assert_eq!(read_by_python(&folder().join(name), &[]), read_by_us(&open(name), volumes), "{name}");
    }
    let base = folder().join("base.tar.zst");
    let delta = folder().join("delta.tar.zst");
    assert_eq!(read_by_python(&delta, &[]), read_by_us(&open("delta.tar.zst"), 1));
    let whole = open("delta.tar.zst").on_bases(vec![open("base.tar.zst")]).unwrap();
    assert_eq!(read_by_python(&delta, &["--base", base.to_str().unwrap()]), read_by_us(&whole, 1));
    let grouped = open("grouped-delta.tar.zst").on_bases(vec![open("base.tar.zst")]).unwrap();
    let python_says = read_by_python(&folder().join("grouped-delta.tar.zst"), &["--base", base.to_str().unwrap()]);
    assert_eq!(python_says, read_by_us(&grouped, 1));
    let dir = tempfile::tempdir().unwrap();
    let merged = dir.path().join("merged.tar.zst");
    merge(&grouped, &merged, 2, &|_, _| {}).unwrap();
    assert!(fs::read(merged).unwrap() == fs::read(folder().join("grouped.tar.zst")).unwrap());
    let script = folder().join("read_bundle.py");
    let other = Command::new(python()).arg(script).arg(&delta).arg("--base").arg(&delta).output().unwrap();
    assert!(!other.status.success() && String::from_utf8_lossy(&other.stderr).contains("no base has blobs/"));
}

#[test]
fn volumes_one_behind_the_other_are_a_bundle_and_their_sums_hold() {
    let dir = tempfile::tempdir().unwrap();
    let joined: Vec<u8> =
        (1..=3).flat_map(|n| fs::read(folder().join(format!("split.tar.zst.{n:03}"))).unwrap()).collect();
    let path = dir.path().join("joined.tar.zst");
    fs::write(&path, joined).unwrap();
    assert_eq!(read_by_python(&path, &[]), read_by_us(&Bundle::open(&path).unwrap(), 3));
    run("sha256sum", &["-c", "--strict", "--quiet", "split.sums"], &folder());
}

/// Raw frames of several blocks, members of several frames: what is too large for a vector.
#[test]
fn a_reader_in_python_reads_a_bundle_of_many_frames_and_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let mut contents = small();
    let gzip = |len: usize| blob([b"\x1f\x8b".to_vec(), noise(len, len as u64)].concat());
    contents.extend([
        gzip(131_072 - 512 - 2),
        gzip(131_073),
        gzip((8 << 20) - 514),
        gzip(9 << 20),
        blob(noise(17 << 20, 5)),
    ]);
    let path = dir.path().join("x.tar.zst");
    write_with(&path, &contents, 2).unwrap();
    assert_eq!(read_by_python(&path, &[]), read_by_us(&Bundle::open(&path).unwrap(), 1));
}

/// One process flips a byte, reads, and flips it back, all over each vector (every byte of one); then it cuts them.
#[test]
fn the_reader_in_python_refuses_changed_and_cut_vectors() {
    let script = r"
import read_bundle as reader
for name, step in [('split.tar.zst.001', 1), ('full.tar.zst', 97), ('signed.tar.zst', 97), ('delta.tar.zst', 97), ('grouped.tar.zst', 97), ('grouped-delta.tar.zst', 97)]:
    data, ends = reader.load(name)
    whole, tried = bytearray(data), 0
    for at in [*range(0, len(data), step), *range(len(data) - 9, len(data))]:
        whole[at] ^= 4
        try:
            reader.read(bytes(whole), ends)
            print(name, 'byte', at)
        except reader.Wrong:
            tried += 1
        whole[at] ^= 4
    reader.read(bytes(whole), ends)
    for length in [0, 10, len(data) // 2, len(data) - 1]:
        try:
            reader.read(data[:length], None)
            print(name, 'cut at', length)
        except reader.Wrong:
            tried += 1
    assert tried > 270, tried
";
    let python = python();
    let output = run(python.to_str().unwrap(), &["-B", "-c", script], &folder());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "what was not found");
}

#[test]
fn openssl_takes_the_signatures_of_the_signed_vector() {
    let (dir, bundle) = (tempfile::tempdir().unwrap(), open("signed.tar.zst"));
    for signature in bundle.signatures() {
        fs::write(dir.path().join("statement.json"), signature.statement.as_deref().unwrap()).unwrap();
        let name = if signature.alg == "ed25519" { "ed25519.pub" } else { "ecdsa-p256.pub" };
        fs::copy(folder().join(name), dir.path().join("key")).unwrap();
        fs::write(dir.path().join("base64"), &signature.sig).unwrap();
        run("openssl", &["base64", "-A", "-d", "-in", "base64", "-out", "sig"], dir.path());
        let checked = match signature.alg.as_str() {
            "ed25519" => "pkeyutl -verify -pubin -inkey key -rawin -in statement.json -sigfile sig",
            _ => "dgst -sha256 -verify key -signature sig statement.json",
        };
        run("openssl", &checked.split(' ').collect::<Vec<_>>(), dir.path());
        run("openssl", &["pkey", "-pubin", "-in", "key", "-outform", "DER", "-out", "spki"], dir.path());
        let spki = fs::read(dir.path().join("spki")).unwrap();
        assert_eq!(signature.key_id, Digest::of(spki).hex()[..32]);
    }
}

/// What today's readers must still read, and merge to the same bytes: bundles that the last program of format 1 wrote.
#[test]
fn bundles_of_format_1_are_read_verified_and_merged_to_the_bytes_they_had() {
    let old = |name: &str| open(&format!("format-1/{name}"));
    for (name, volumes) in [("base.tar.zst", 1), ("full.tar.zst", 1), ("split.tar.zst.002", 3), ("signed.tar.zst", 1)] {
        let bundle = old(name);
        verify(&bundle, 2, &|_, _| {}).unwrap();
        check_references(&bundle).unwrap();
        assert_eq!((bundle.manifest().format, bundle.manifest().zone.as_deref()), (1, Some("global")));
        assert!(bundle.sources().unwrap().is_none());
        assert_eq!(read_by_python(&folder().join("format-1").join(name), &[]), read_by_us(&bundle, volumes), "{name}");
    }
    let dir = tempfile::tempdir().unwrap();
    let [merged, joined] = ["merged.tar.zst", "joined.tar.zst"].map(|name| dir.path().join(name));
    let whole = old("delta.tar.zst").on_bases(vec![old("base.tar.zst")]).unwrap();
    merge(&whole, &merged, 2, &|_, _| {}).unwrap();
    join(&old("split.tar.zst.001"), &joined, None, &|_, _| {}).unwrap();
    let full = fs::read(folder().join("format-1/full.tar.zst")).unwrap();
    assert!(fs::read(merged).unwrap() == full && fs::read(joined).unwrap() == full);
}

/// A newer bundle has what an older one had: a base of format 1 serves a delta of format 2.
#[test]
fn a_base_of_format_1_serves_a_delta_of_format_2() {
    let whole = open("delta.tar.zst").on_bases(vec![open("format-1/base.tar.zst")]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let merged = dir.path().join("merged.tar.zst");
    merge(&whole, &merged, 2, &|_, _| {}).unwrap();
    assert!(fs::read(merged).unwrap() == fs::read(folder().join("full.tar.zst")).unwrap());
}
