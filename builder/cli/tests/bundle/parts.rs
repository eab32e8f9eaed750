//! Bundles in parts: volumes, deltas, standard input.

use kubexm_spec::ExitCode;
use kubexm_spec::inventory::Inventory;

use crate::site::{Site, noise, says};

/// Two files of noise and one that the next build changes.
fn site(text: &str) -> Site {
    let site = Site::new();
    site.write("a.bin", noise(3, 300_000));
    site.write("b.bin.gz", noise(4, 400_000));
    site.write("c.txt", text);
    site.extras("extraFiles: [{path: a.bin}, {path: b.bin.gz}, {path: c.txt}]");
    site
}

fn read(site: &Site, name: &str) -> Vec<u8> {
    std::fs::read(site.path(name)).unwrap()
}

#[test]
fn volumes_are_verified_in_place_and_joined_to_the_bytes_of_a_build_in_one_file() {
    let site = site("one");
    site.built(&[]);
    site.run(&["build", "-f", "cluster.yaml", "--split", "500K", "-o", "parts.tar.zst"]).must(ExitCode::Ok);
    let sums = String::from_utf8(read(&site, "parts.sums")).unwrap();
    assert_eq!(sums.lines().count(), 2, "{sums}");
    let checked =
        std::process::Command::new("sha256sum").args(["-c", "parts.sums"]).current_dir(site.path("")).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");

    let document = site.run(&["verify", "--json", "parts.tar.zst.001"]).must(ExitCode::Ok).document();
    assert_eq!(document["files"].as_array().unwrap().len(), 2);
    site.run(&["verify", "--quick", "parts.tar.zst.002"]).must(ExitCode::Ok);
    site.run(&["join", "parts.tar.zst.001", "-o", "joined.tar.zst"]).must(ExitCode::Ok);
    assert!(
        read(&site, "joined.tar.zst") == read(&site, "out.tar.zst"),
        "other bytes than those of a build in one file"
    );
    assert!(site.path("parts.tar.zst.001").exists() && site.path("parts.tar.zst.002").exists(), "inputs stay");

    let mut bad = read(&site, "parts.tar.zst.002");
    bad[200_000] ^= 1;
    site.write("parts.tar.zst.002", bad);
    let document = site.run(&["verify", "--json", "parts.tar.zst.001"]).must(ExitCode::BundleDamaged).document();
    assert!(document["bytes"]["places"][0]["file"].as_str().unwrap().ends_with(".002"), "{document}");
    let ended = site.run(&["join", "parts.tar.zst.001", "-o", "again.tar.zst"]).must(ExitCode::BundleDamaged);
    says(&ended.err, &["parts.tar.zst.002"]);
    assert!(!site.path("again.tar.zst").exists());
}

#[test]
fn a_join_never_replaces_what_it_reads() {
    let site = site("one");
    site.built(&[]);
    let before = read(&site, "out.tar.zst");
    site.run(&["join", "out.tar.zst", "-o", "./out.tar.zst"]).must(ExitCode::Usage);
    assert!(read(&site, "out.tar.zst") == before);
}

#[test]
fn a_split_that_is_too_small_names_one_that_is_not_and_leaves_nothing() {
    let site = site("one");
    let ended =
        site.run(&["build", "-f", "cluster.yaml", "--split", "100K", "-o", "out.tar.zst"]).must(ExitCode::Usage);
    says(&ended.err, &["--split"]);
    let left: Vec<_> = std::fs::read_dir(site.path("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("out.tar.zst")), "{left:?}");
}

#[test]
fn a_delta_carries_what_changed_and_merges_to_the_full_bundle() {
    let site = site("one");
    site.built(&[]);
    std::fs::rename(site.path("out.tar.zst"), site.path("old.tar.zst")).unwrap();
    site.write("c.txt", "two");
    site.built(&[]);
    let manifest = site.run(&["cat", "old.tar.zst", "manifest.json"]).must(ExitCode::Ok).out;
    site.write("old.manifest.json", manifest.trim_end());
    let blobs: Inventory = {
        let text = read(&site, "old.manifest.json");
        let manifest: kubexm_spec::Manifest = serde_json::from_slice(&text).unwrap();
        let blobs = manifest.members.iter().filter(|m| m.name.starts_with("blobs/")).map(|m| m.sha256);
        Inventory::of_blobs(blobs)
    };
    site.write("inventory.json", blobs.to_json());
    for base in ["old.tar.zst", "old.manifest.json", "inventory.json"] {
        site.run(&["build", "-f", "cluster.yaml", "--base", base, "-o", "delta.tar.zst"]).must(ExitCode::Ok);
        assert!(read(&site, "delta.tar.zst").len() < read(&site, "out.tar.zst").len() / 5, "{base}");
        let alone = site.run(&["verify", "--json", "delta.tar.zst"]).must(ExitCode::BundleIncomplete).document();
        assert_eq!((&alone["bytes"]["ok"], &alone["complete"]["checked"]), (&true.into(), &false.into()));
        site.run(&["verify", "--base", "old.tar.zst", "delta.tar.zst"]).must(ExitCode::Ok);
        site.run(&["merge", "old.tar.zst", "delta.tar.zst", "-o", "merged.tar.zst"]).must(ExitCode::Ok);
        assert!(
            read(&site, "merged.tar.zst") == read(&site, "out.tar.zst"),
            "{base}: other bytes than a build in full"
        );
    }
    site.write("empty.txt", "x");
    site.extras("extraFiles: [{path: empty.txt}]");
    site.run(&["build", "-f", "cluster.yaml", "-o", "other.tar.zst"]).must(ExitCode::Ok);
    let ended =
        site.run(&["merge", "other.tar.zst", "delta.tar.zst", "-o", "wrong.tar.zst"]).must(ExitCode::BundleIncomplete);
    says(&ended.err, &["blobs/sha256/", "other.tar.zst"]);
    assert!(!site.path("wrong.tar.zst").exists());
    for text in ["{}", "{\"schema\":\"kubexm.io/inventory/v9\"}", "["] {
        site.write("no-base.json", text);
        let ended = site.run(&["build", "-f", "cluster.yaml", "--base", "no-base.json", "-o", "x.tar.zst"]);
        assert!([20, 35].contains(&ended.code), "{text}: {}", ended.code);
    }
}

#[test]
fn standard_input_is_verified_in_one_pass_with_the_answers_of_a_file() {
    let site = site("one");
    site.built(&[]);
    let bytes = read(&site, "out.tar.zst");
    let pass = |bytes: &[u8], args: &[&str]| {
        let output = site.program().args(args).write_stdin(bytes).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, out) = pass(&bytes, &["verify", "--json", "-"]);
    assert_eq!(code, 0, "{out}");
    let streamed: serde_json::Value = serde_json::from_str(&out).unwrap();
    let file = site.run(&["verify", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    for key in ["manifest", "bundleId", "complete", "signature"] {
        assert_eq!(streamed[key], file[key], "{key}");
    }
    assert_eq!(pass(&bytes[..bytes.len() - 7], &["verify", "-"]).0, 30);
    let mut bad = bytes.clone();
    bad[bytes.len() / 2] ^= 1;
    assert_eq!(pass(&bad, &["verify", "--json", "-"]).0, 30);
    assert_eq!(pass(b"", &["verify", "-"]).0, 35);
    assert_eq!(pass(&bytes, &["verify", "--quick", "-"]).0, 2);
}

#[test]
fn a_build_may_end_in_a_folder_to_be_carried_by_hand() {
    let site = site("one");
    site.run(&["keygen", "-o", "release"]).must(ExitCode::Ok);
    let ended = site.run(&[
        "build",
        "--json",
        "-f",
        "cluster.yaml",
        "-o",
        "out.tar.zst",
        "--split",
        "500K",
        "--hand-over",
        "carry",
        "--key",
        "release.key",
    ]);
    let events = ended.must(ExitCode::Ok).out;
    let last: serde_json::Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    let sums = last["data"]["handOver"]["sums"].as_str().unwrap().to_owned();
    let folder = site.path("carry");
    let sums = std::path::Path::new(&sums).file_name().unwrap();
    let checked = std::process::Command::new("sha256sum").arg("-c").arg(sums).current_dir(&folder).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    assert!(folder.join("README.txt").exists());
    site.run(&["verify", "--key", "release.pub", "carry"]).must(ExitCode::Ok);
    // A key that would sign nothing is not taken in silence.
    site.run(&["build", "-f", "cluster.yaml", "-o", "x.tar.zst", "--key", "release.key"]).must(ExitCode::Usage);
}
