//! Tools that know nothing of us read a bundle: `tar`, `zstd` and `bsdtar` must be installed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use support::{blob, noise, small, write_with};

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
