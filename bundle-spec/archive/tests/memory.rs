//! Documents that are small for what they make of a reader's memory.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test tells what it measured")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use kubexm_archive::{Bundle, verify_stream};
use kubexm_spec::Digest;
use support::forge::Forged;
use support::small;

const CHILD: &str = "KUBEXM_ARCHIVE_TEST_DOCUMENT";
/// What reading may hold, in KiB.
const MOST: u64 = 400 << 10;

/// Runs only in the process that the next tests start: opens the file as a file and as a stream.
#[test]
fn child_that_opens_a_file() {
    let Some(path) = std::env::var_os(CHILD).map(std::path::PathBuf::from) else { return };
    let opened = Bundle::open(&path).map(drop).map_err(|e| e.to_string());
    let streamed = verify_stream(Path::new("-"), fs::File::open(&path).unwrap(), 1, &|_, _| {});
    assert_eq!(opened.is_ok(), streamed.is_ok());
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("\npeak {} {opened:?}", peak.trim().trim_end_matches(" kB"));
}

/// Opens a bundle whose manifest has this for its artifacts, in a process of its own; KiB held, and how it ended.
fn peak_of(artifacts: &str) -> (u64, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let forged = Forged::honest(&small()).edit_manifest("\"artifacts\":[]", &format!("\"artifacts\":[{artifacts}]"));
    fs::write(&path, forged.bytes()).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_opens_a_file", "--nocapture"])
        .env(CHILD, &path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("peak ")).unwrap_or_else(|| panic!("{text}"));
    let (peak, ended) = line.split_once(' ').unwrap();
    (peak.parse().unwrap(), ended.to_owned())
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
