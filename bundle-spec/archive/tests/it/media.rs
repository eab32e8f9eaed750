//! Disks that are full, that may not be written to, and that somebody else writes to: for every way to write a bundle.
//! Needs root, to mount a tmpfs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{blob, inputs, is_whole, manifest, noise, small, write_with};
use kubexm_archive::{
    ArchiveError, Bundle, Contents, Delta, Input, Options, Signature, Signing, StoredMember, encoding_for, join, merge,
    write_contents, write_detached,
};
use kubexm_spec::ExitCode;

/// A tmpfs, gone with the value.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount(size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]).arg(dir.path());
        assert!(mount.status().unwrap().success(), "this test mounts a tmpfs and must run as root");
        Self(dir)
    }

    fn make_read_only(&self) {
        assert!(Command::new("mount").args(["-o", "remount,ro"]).arg(self.0.path()).status().unwrap().success());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Some 12 MiB that do not compress.
fn large() -> Vec<(String, Vec<u8>)> {
    let mut contents = small();
    contents.extend((1..5).map(|seed| blob(noise(3 << 20, seed))));
    contents
}

/// A delta on `small()` of the large one, put on its base.
fn delta(dir: &Path) -> Bundle {
    let (base, part) = (dir.join("base.tar.zst"), dir.join("part.tar.zst"));
    write_with(&base, &small(), 1).unwrap();
    let has = |name: &str| name.starts_with("blobs/") && small().iter().any(|(other, _)| other == name);
    let contents = large();
    let left_out = contents
        .iter()
        .filter(|(name, _)| has(name))
        .map(|(name, content)| StoredMember { name: name.clone(), encoding: encoding_for(content) })
        .collect();
    let here: Vec<Input<'_>> = inputs(&contents).into_iter().filter(|input| !has(&input.name)).collect();
    let manifest = manifest(&contents);
    let delta = Delta { base: None, left_out };
    let contents =
        Contents { manifest: &manifest, inputs: here, delta, signatures: &[], groups: Vec::new(), sources: None };
    let options = Options { level: 1, threads: 1, split: None };
    write_contents(&part, contents, &options, &|_, _| {}).unwrap();
    Bundle::open(&part).unwrap().on_bases(vec![Bundle::open(&base).unwrap()]).unwrap()
}

fn build(target: &Path, split: Option<u64>) -> Result<(), ArchiveError> {
    let (contents, options) = (large(), Options { level: 1, threads: 2, split });
    kubexm_archive::write(target, &manifest(&contents), inputs(&contents), &options, &|_, _| {}).map(drop)
}

fn signature() -> Signature {
    Signature { key_id: "ab".repeat(16), alg: "ed25519".into(), sig: "AA==".into(), statement: None }
}

/// Every way to write a bundle to a place.
type Write<'a> = (&'a str, Box<dyn Fn(&Path) -> Result<(), ArchiveError> + 'a>);

fn ways<'a>(whole: &'a Bundle, delta: &'a Bundle) -> Vec<Write<'a>> {
    vec![
        ("build", Box::new(|target: &Path| build(target, None))),
        ("build --split", Box::new(|target: &Path| build(target, Some(5 << 20)))),
        ("join", Box::new(|target: &Path| join(whole, target, None, &|_, _| {}).map(drop))),
        ("join --split", Box::new(|target: &Path| join(whole, target, Some(5 << 20), &|_, _| {}).map(drop))),
        ("merge", Box::new(|target: &Path| merge(delta, target, 2, &|_, _| {}).map(drop))),
    ]
}

#[test]
fn a_full_disk_is_reported_by_every_writer_and_leaves_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole.tar.zst");
    build(&whole, None).unwrap();
    let (whole, delta) = (Bundle::open(&whole).unwrap(), delta(dir.path()));
    for (name, write) in ways(&whole, &delta) {
        let disk = Disk::mount("8m");
        let target = disk.path("x.tar.zst");
        let error = write(&target).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Disk, "{name}: {error}");
        assert!(error.to_string().contains("free space"), "{name}: {error}");
        assert_eq!(disk.names(), Vec::<String>::new(), "{name} leaves something");

        // A bundle of the same name from before stays what it was.
        write_with(&target, &small(), 1).unwrap();
        write(&target).unwrap_err();
        assert_eq!(disk.names(), ["x.tar.zst"], "{name}");
        assert_eq!(is_whole(&target), Ok(()), "{name}");
    }
}

#[test]
fn a_disk_that_may_not_be_written_to_is_reported_by_every_writer() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole.tar.zst");
    build(&whole, None).unwrap();
    let (whole, delta) = (Bundle::open(&whole).unwrap(), delta(dir.path()));
    let disk = Disk::mount("32m");
    let signed = disk.path("signed.tar.zst");
    write_with(&signed, &small(), 1).unwrap();
    disk.make_read_only();
    for (name, write) in ways(&whole, &delta) {
        let error = write(&disk.path("x.tar.zst")).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Disk, "{name}: {error}");
    }
    let error = Signing::open(&signed).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Disk);
    assert!(error.to_string().contains("--detached"), "{error}");
    assert_eq!(write_detached(&disk.path("x.sig"), &[signature()]).unwrap_err().exit_code(), ExitCode::Disk);
    assert_eq!(is_whole(&signed), Ok(()), "what is there is read all the same");
}

#[test]
fn a_bundle_on_a_full_disk_is_signed_in_place_and_a_signature_of_its_own_is_not_half_written() {
    let disk = Disk::mount("1m");
    let target = disk.path("x.tar.zst");
    write_with(&target, &small(), 1).unwrap();
    let filler = fs::File::create(disk.path("filler")).unwrap();
    let fill = std::io::copy(&mut std::io::repeat(1), &mut &filler);
    assert_eq!(fill.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    Signing::open(&target).unwrap().replace(&[signature()], &|_, _| {}).unwrap();
    assert_eq!(Bundle::open(&target).unwrap().signatures(), [signature()]);
    assert_eq!(is_whole(&target), Ok(()));
    let error = write_detached(&disk.path("x.sig"), &[signature()]).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Disk, "{error}");
    assert_eq!(disk.names(), ["filler", "x.tar.zst"]);
}

#[test]
fn two_writers_of_one_target_exclude_each_other_whatever_they_write() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole.tar.zst");
    build(&whole, None).unwrap();
    let (whole, delta) = (Bundle::open(&whole).unwrap(), delta(dir.path()));
    for (name, write) in ways(&whole, &delta) {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("x.tar.zst");
        // The lock of one that is running, in one file or in volumes.
        let first = if name.contains("split") { ".x.tar.zst.001.partial" } else { ".x.tar.zst.partial" };
        let other = fs::File::create(place.path().join(first)).unwrap();
        other.lock().unwrap();
        let error = write(&target).unwrap_err();
        assert!(matches!(error, ArchiveError::Locked { .. }), "{name}: {error}");
        assert_eq!(error.exit_code(), ExitCode::HostLocked);
        assert!(!target.exists() && place.path().join(first).exists(), "{name}");
        drop(other);
        write(&target).unwrap();
        Bundle::open(place.path()).unwrap();
    }
}
