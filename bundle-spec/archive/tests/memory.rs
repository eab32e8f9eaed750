//! Documents that are small for what they make of a reader's memory.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test tells what it measured")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use kubexm_archive::{Bundle, Contents, Delta, Group, Options, verify_stream, write_contents};
use kubexm_spec::Digest;
use support::forge::Forged;
use support::small;

const CHILD: &str = "KUBEXM_ARCHIVE_TEST_DOCUMENT";
const READERS: &str = "KUBEXM_ARCHIVE_TEST_READERS";
/// What reading may hold, in KiB.
const MOST: u64 = 400 << 10;

/// Runs only in the process that the next tests start: opens the file as a file and as a stream.
#[test]
fn child_that_opens_a_file() {
    let Some(path) = std::env::var_os(CHILD).map(std::path::PathBuf::from) else { return };
    let opened = Bundle::open(&path).map(drop).map_err(|e| e.to_string());
    let streamed = verify_stream(Path::new("-"), fs::File::open(&path).unwrap(), 1, &|_, _| {});
    assert_eq!(opened.is_ok(), streamed.is_ok());
    println!("\npeak {} {opened:?}", peak());
}

/// KiB that this process held at most.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Runs a test of this program in a process of its own; KiB held, and how it ended.
fn in_child(test: &str, variable: &str, path: &Path) -> (u64, String) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(variable, path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("peak ")).unwrap_or_else(|| panic!("{text}"));
    let (peak, ended) = line.split_once(' ').unwrap();
    (peak.parse().unwrap(), ended.to_owned())
}

/// Opens a bundle whose manifest has this for its artifacts, in a process of its own; KiB held, and how it ended.
fn peak_of(artifacts: &str) -> (u64, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let forged = Forged::honest(&small()).edit_manifest("\"artifacts\":[]", &format!("\"artifacts\":[{artifacts}]"));
    fs::write(&path, forged.bytes()).unwrap();
    in_child("child_that_opens_a_file", CHILD, &path)
}

fn artifact(blobs: &str, more: &str) -> String {
    let digest = Digest::of(b"x");
    format!(r#"{{"blobs":[{blobs}],"digest":"{digest}","key":"file/x","name":"x"{more},"trust":"user","version":"1"}}"#)
}

#[test]
fn a_manifest_of_millions_of_empty_texts_is_refused_before_they_are_read() {
    let (peak, ended) = peak_of(&artifact("", &format!(",\"sources\":[{}]", vec!["\"\""; 10_000_000].join(","))));
    assert!(ended.contains("million values"), "{ended}");
    assert!(peak < MOST, "{peak} KiB were held for a manifest of 30 MB");
}

#[test]
fn a_manifest_as_full_as_it_may_be_is_read_in_bounded_memory() {
    let blob = format!(r#"{{"digest":"{}","size":0}}"#, Digest::of(b"x"));
    let (peak, ended) = peak_of(&artifact(&vec![blob.as_str(); 330_000].join(","), ""));
    assert!(ended.contains("Ok"), "{ended}");
    assert!(peak < MOST, "{peak} KiB were held");
}

/// Two members of 48 MiB, all of whose bytes are random, though few.
fn large() -> Vec<(String, Vec<u8>)> {
    let word = |seed: u64| support::noise(4 << 10, seed);
    (1..3).map(|seed| support::blob(word(seed).repeat(12 << 10))).collect()
}

/// Runs only in the process that the next test starts: twelve threads read one member of a group at the same time.
#[test]
fn child_that_reads_a_group_many_times() {
    let Some(path) = std::env::var_os(READERS).map(std::path::PathBuf::from) else { return };
    let bundle = Bundle::open(&path).unwrap();
    let name = &bundle.manifest().members.last().unwrap().name;
    let started = std::sync::Barrier::new(12);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                started.wait();
                std::io::copy(&mut bundle.member(name).unwrap(), &mut std::io::sink()).unwrap();
            });
        }
    });
    println!("\npeak {} ok", peak());
}

#[test]
fn many_readers_of_a_group_hold_few_windows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let mut contents = small();
    let before = contents.len();
    contents.extend(large());
    let manifest = support::manifest(&contents);
    let groups = Group::of(manifest.members.iter().enumerate().map(|(at, member)| (member, at >= before)), 1);
    assert_eq!(groups.len(), 1);
    let inputs = support::inputs(&contents);
    let contents =
        Contents { manifest: &manifest, inputs, delta: Delta::default(), signatures: &[], groups, sources: None };
    write_contents(&path, contents, &Options { threads: 2, ..Options::default() }, &|_, _| {}).unwrap();
    let (peak, _) = in_child("child_that_reads_a_group_many_times", READERS, &path);
    // Twelve would have 1152 MiB.
    assert!(peak < 4 * (96 << 10) + (150 << 10), "{peak} KiB were held");
}
