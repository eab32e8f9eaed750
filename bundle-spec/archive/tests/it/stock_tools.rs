//! Tools that know nothing of us read a bundle: `tar`, `zstd`, `bsdtar`, `sha256sum` and Python with `zstandard` must be
//! installed (`scripts/test` does it).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{blob, inputs, manifest, noise, python, small, write_with};
use kubexm_archive::{Options, write};

fn run(dir: &Path, program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).current_dir(dir).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{program} {arguments:?}: {said}");
}

fn sample(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut contents = small();
    contents.extend([blob(noise(17 << 20, 5)), blob([b"\x1f\x8b".to_vec(), noise(9 << 20, 7)].concat())]);
    write_with(&dir.join("x.tar.zst"), &contents, 2).unwrap();
    contents
}

#[test]
fn tar_unpacks_a_bundle_to_an_image_layout() {
    let dir = tempfile::tempdir().unwrap();
    let contents = sample(dir.path());
    for (folder, program, arguments) in
        [("gnu", "tar", &["--zstd", "-xf", "../x.tar.zst"][..]), ("bsd", "bsdtar", &["-xf", "../x.tar.zst"][..])]
    {
        let into = dir.path().join(folder);
        fs::create_dir(&into).unwrap();
        run(&into, program, arguments);
        for (name, content) in &contents {
            assert!(fs::read(into.join(name)).unwrap() == *content, "{program}: {name}");
        }
        assert_eq!(fs::read(into.join("manifest.json.sig")).unwrap().len(), kubexm_archive::SIGNATURE_ROOM);
        assert!(into.join("manifest.json").exists() && into.join("layout.json").exists());
    }
}

/// As a shell does it, which is how people do it.
fn shell(dir: &Path, script: &str) -> String {
    let output = Command::new("bash").args(["-c", &format!("set -eu -o pipefail; {script}")]).current_dir(dir).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn zstd_into_bsdtar_unpacks_a_bundle_of_which_sha256sum_finds_every_blob_right() {
    let dir = tempfile::tempdir().unwrap();
    let contents = sample(dir.path());
    shell(dir.path(), "mkdir out; zstd -q -d -c x.tar.zst | bsdtar -xf - -C out");
    for (name, content) in &contents {
        assert!(fs::read(dir.path().join("out").join(name)).unwrap() == *content, "{name}");
    }
    // A blob's name is its digest: a list of names is a list of checksums.
    let check = "cd out/blobs/sha256; for blob in *; do echo \"$blob  $blob\"; done | sha256sum -c";
    let said = shell(dir.path(), check);
    assert_eq!(said.matches(": OK").count(), contents.iter().filter(|(name, _)| name.starts_with("blobs/")).count());
}

#[test]
fn volumes_after_one_another_are_what_tar_and_zstd_read() {
    let dir = tempfile::tempdir().unwrap();
    let contents: Vec<_> = small().into_iter().chain([blob(noise(17 << 20, 5))]).collect();
    let options = Options { level: 1, threads: 2, split: Some(9 << 20) };
    let target = dir.path().join("x.tar.zst");
    let written = write(&target, &manifest(&contents), inputs(&contents), &options, &|_, _| {}).unwrap();
    assert!(written.files.len() > 1, "{:?}", written.files);
    shell(dir.path(), "mkdir out; cat x.tar.zst.* | tar --zstd -xf - -C out; cat x.tar.zst.* | zstd -q -t");
    for (name, content) in &contents {
        assert!(fs::read(dir.path().join("out").join(name)).unwrap() == *content, "{name}");
    }
}

/// Python's own tarfile over the `zstandard` of PyPI: names, sizes and contents.
#[test]
fn pythons_tarfile_reads_a_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let contents = sample(dir.path());
    let script = "import hashlib, sys, tarfile, zstandard\n\
        with open('x.tar.zst', 'rb') as file:\n\
        \x20   stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)\n\
        \x20   for member in (tar := tarfile.open(fileobj=stream, mode='r|')):\n\
        \x20       assert member.isreg(), member\n\
        \x20       print(hashlib.sha256(tar.extractfile(member).read()).hexdigest(), member.size, member.name)\n\
        \x20   assert not stream.read(1)\n";
    let output = Command::new(python()).args(["-c", script]).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let found: Vec<&str> = lines.lines().skip(3).collect();
    let wanted: Vec<String> = contents
        .iter()
        .map(|(name, content)| format!("{} {} {name}", kubexm_spec::Digest::of(content).hex(), content.len()))
        .collect();
    assert_eq!(found, wanted);
}

#[test]
fn zstd_tests_a_bundle_and_its_output_is_a_tar_archive() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    run(dir.path(), "zstd", &["-q", "-t", "x.tar.zst"]);
    let mut zstd = Command::new("zstd")
        .args(["-q", "-d", "-c", "x.tar.zst"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let listed = Command::new("tar").args(["-t"]).stdin(zstd.stdout.take().unwrap()).output().unwrap();
    assert!(zstd.wait().unwrap().success() && listed.status.success());
    let names = String::from_utf8(listed.stdout).unwrap();
    assert!(names.starts_with("manifest.json\nmanifest.json.sig\nlayout.json\nlock.yaml\n"), "{names}");
}

#[test]
fn zstd_alone_finds_damage_in_raw_and_in_compressed_frames() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let path = dir.path().join("x.tar.zst");
    let whole = fs::read(&path).unwrap();
    for at in [200, whole.len() / 2, whole.len() - 100_000] {
        let mut bad = whole.clone();
        bad[at] ^= 4;
        fs::write(&path, bad).unwrap();
        let status = Command::new("zstd").args(["-q", "-q", "-t"]).arg(&path).stderr(Stdio::null()).status().unwrap();
        assert!(!status.success(), "byte {at}");
    }
}
