//! What is at `-o`: only a regular file is replaced, and a foreign one with --force only.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::Path;

use kubexm_engine::{Run, RunId};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

use crate::home::plan;
use crate::site::Site;

const RUN: &str = "20260101T000000Z-0001";

/// A site with a cluster of one run, and a bundle.
fn site() -> (Site, String) {
    let site = Site::new();
    Run::create(&site.path("home/clusters/demo").join("runs"), RunId::named(RUN), &plan()).unwrap();
    let bundle = site.bundle(1).to_str().unwrap().to_owned();
    (site, bundle)
}

#[test]
fn no_verb_replaces_what_is_no_regular_file_or_somebody_elses() {
    let (site, bundle) = site();
    let odd = site.path("odd");
    fs::create_dir_all(odd.join("folder")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(odd.join("pipe")).status().unwrap().success());
    fs::write(odd.join("mine.txt"), "mine\n").unwrap();
    symlink("mine.txt", odd.join("link")).unwrap();
    let name = |name: &str| odd.join(name).to_str().unwrap().to_owned();
    let verbs: [&[&str]; 3] = [&["support-bundle"], &["inventory", &bundle], &["plan", "create", "--bundle", &bundle]];
    for verb in verbs {
        for (output, problem) in [
            (name("folder"), "is a folder"),
            (name("pipe"), "is a named pipe"),
            (name("link"), "is a symbolic link to mine.txt"),
            ("/dev/null".to_owned(), "/dev/null is a device"),
        ] {
            for more in [&[][..], &["--force"]] {
                let args = [verb, &["-o", &output], more].concat();
                site.install(&args).assert().code(2).stderr(contains(problem));
            }
        }
        let foreign = name("mine.txt");
        let refused = site.install(&[verb, &["-o", &foreign]].concat()).assert().code(2);
        refused.stderr(contains("mine.txt exists and is not a").and(contains("--force")));
        assert_eq!(fs::read(&foreign).unwrap(), b"mine\n");
    }
    assert!(fs::symlink_metadata(odd.join("pipe")).unwrap().file_type().is_fifo());
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    for verb in &verbs[..2] {
        let output = name("mine.txt");
        site.install(&[verb, &["-o", &output, "--force"][..]].concat()).assert().success();
        let made = fs::read(&output).unwrap();
        assert_eq!(fs::metadata(&output).unwrap().mode() & 0o777, 0o600);
        // An own output is renewed.
        site.install(&[verb, &["-o", &output][..]].concat()).assert().success();
        assert_eq!(fs::read(&output).unwrap(), made);
    }
    let mut left: Vec<_> = fs::read_dir(&odd).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["folder", "link", "mine.txt", "pipe"]);
}

#[test]
fn a_dash_is_standard_output_and_gets_the_bytes_of_the_file() {
    let (site, bundle) = site();
    for verb in [&["support-bundle"][..], &["inventory", &bundle]] {
        let file = site.path("made");
        let _ = fs::remove_file(&file);
        site.install(&[verb, &["-o", file.to_str().unwrap()]].concat()).assert().success();
        let said = site.install(&[verb, &["-o", "-"]].concat()).assert().success().get_output().stdout.clone();
        assert!(said == fs::read(&file).unwrap(), "{verb:?}");
    }
    site.install(&["support-bundle", "--json", "-o", "-"]).assert().code(2).stdout(contains("--json"));
    assert!(!Path::new("-").exists());
}
