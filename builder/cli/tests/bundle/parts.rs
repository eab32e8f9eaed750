//! Bundles in parts: volumes, deltas, standard input.

use kubexm_spec::ExitCode;
use kubexm_spec::inventory::Inventory;

use crate::site::{Site, assert_contains, noise};

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
    assert_contains(&ended.err, &["parts.tar.zst.002"]);
    assert!(!site.path("again.tar.zst").exists());
}

#[test]
fn volumes_are_found_by_the_name_that_was_given_to_split() {
    let site = site("one");
    for (split, count) in [("500K", 2), ("1G", 1)] {
        site.run(&["build", "-f", "cluster.yaml", "--split", split, "-o", "parts.tar.zst"]).must(ExitCode::Ok);
        let document = site.run(&["verify", "--json", "parts.tar.zst"]).must(ExitCode::Ok).document();
        assert_eq!(document["files"].as_array().unwrap().len(), count);
        site.run(&["list", "parts.tar.zst"]).must(ExitCode::Ok);
        site.run(&["join", "parts.tar.zst", "-o", "joined.tar.zst"]).must(ExitCode::Ok);
        site.run(&["build", "-f", "cluster.yaml", "--base", "parts.tar.zst", "-o", "delta.tar.zst"]).must(ExitCode::Ok);
        // A file of that very name is what is meant, where there is one.
        site.run(&["diff", "--exit-code", "parts.tar.zst", "joined.tar.zst"]).must(ExitCode::Ok);
    }
    let ended = site.run(&["verify", "parts"]).must(ExitCode::NoSuchBundle);
    assert_contains(&ended.err, &["parts does not exist; did you mean parts.tar.zst?"]);
    for verb in ["list", "inspect", "verify", "join", "copy"] {
        let ended = site.run(
            &[
                &[verb, "nowhere/none.tar.zst"][..],
                match verb {
                    "join" => &["-o", "x.tar.zst"],
                    "copy" => &["."],
                    _ => &[],
                },
            ]
            .concat(),
        );
        assert_contains(&ended.must(ExitCode::NoSuchBundle).err, &["nowhere/none.tar.zst does not exist"]);
    }
}

#[test]
fn a_join_never_replaces_what_it_reads() {
    let site = site("one");
    site.built(&[]);
    let before = read(&site, "out.tar.zst");
    site.run(&["join", "out.tar.zst", "-o", "./out.tar.zst"]).must(ExitCode::Usage);
    assert!(read(&site, "out.tar.zst") == before);
}

/// All files in the site with what is in them.
fn files(site: &Site) -> Vec<(String, kubexm_spec::Digest)> {
    let names = crate::site::names(&site.path("")).into_iter().filter(|name| site.path(name).is_file());
    names.map(|name| (name.clone(), crate::site::digest(&site.path(&name)))).collect()
}

#[test]
fn a_build_never_replaces_its_own_base() {
    let site = site("one");
    site.built(&[]);
    site.run(&["build", "-f", "cluster.yaml", "--split", "500K", "-o", "parts.tar.zst"]).must(ExitCode::Ok);
    let manifest = site.run(&["cat", "out.tar.zst", "manifest.json"]).must(ExitCode::Ok).out;
    site.write("text.tar.zst", manifest.trim_end());
    site.write("volume.tar.zst.002", manifest.trim_end());
    std::os::unix::fs::symlink("out.tar.zst", site.path("link")).unwrap();
    let before = files(&site);
    for (base, target) in [
        ("out.tar.zst", "out.tar.zst"),
        ("link", "./out.tar.zst"),
        ("text.tar.zst", "text.tar.zst"),
        ("volume.tar.zst.002", "volume.tar.zst"),
        ("parts.tar.zst.001", "parts.tar.zst"),
        ("parts.tar.zst.001", "parts.tar.zst.002"),
    ] {
        for more in [&[][..], &["--split", "500K"]] {
            let args = [&["build", "-f", "cluster.yaml", "--base", base, "-o", target], more].concat();
            assert_contains(&site.run(&args).must(ExitCode::Usage).err, &["one of the files that are read", "-o"]);
            assert_eq!(files(&site), before, "{base} {target}");
        }
    }
}

#[test]
fn a_bundle_is_never_made_over_a_file_that_goes_into_it() {
    let site = site("one");
    site.run(&["build", "-f", "cluster.yaml", "-o", "inner.tar.zst"]).must(ExitCode::Ok);
    let inner = std::fs::read(site.path("inner.tar.zst")).unwrap();
    site.extras("extraFiles:\n- {path: inner.tar.zst}");
    for more in [&[][..], &["--force"]] {
        let args = [&["build", "-f", "cluster.yaml", "-o", "inner.tar.zst"], more].concat();
        assert_contains(
            &site.run(&args).must(ExitCode::Usage).err,
            &["inner.tar.zst is one of the files that are read"],
        );
        assert_eq!(std::fs::read(site.path("inner.tar.zst")).unwrap(), inner, "{more:?}");
    }
}

#[test]
fn volumes_are_never_made_over_those_that_are_read() {
    let site = site("one");
    site.run(&["build", "-f", "cluster.yaml", "--split", "500K", "-o", "parts.tar.zst"]).must(ExitCode::Ok);
    let before = files(&site);
    for more in [&["--split", "2M"][..], &["--split", "500K"], &[]] {
        let args = [&["join", "parts.tar.zst.002", "-o", "parts.tar.zst"], more].concat();
        assert_contains(
            &site.run(&args).must(ExitCode::Usage).err,
            &["parts.tar.zst.001 is one of the files that are read"],
        );
        assert_eq!(files(&site), before);
    }
    site.run(&["merge", "parts.tar.zst.001", "parts.tar.zst.001", "-o", "parts.tar.zst"]);
    assert_eq!(files(&site), before);
}

#[test]
fn a_sums_file_of_somebody_else_is_neither_removed_nor_replaced() {
    let site = site("one");
    site.write("out.sums", "my own sums\n");
    site.built(&[]);
    assert_eq!(read(&site, "out.sums"), b"my own sums\n");
    let before = files(&site);
    assert_contains(&site.build(&["--split", "500K"]).must(ExitCode::Usage).err, &["out.sums", "-o"]);
    assert_eq!(files(&site), before);
}

#[test]
fn a_bundle_in_one_file_after_one_in_volumes_or_before_it_leaves_a_folder_that_can_be_used() {
    let site = site("one");
    std::fs::create_dir(site.path("made")).unwrap();
    let build = |more: &[&str]| {
        site.run(&[&["build", "-f", "cluster.yaml", "-o", "made/out.tar.zst"], more].concat()).must(ExitCode::Ok)
    };
    build(&["--split", "500K"]);
    build(&[]);
    assert_eq!(crate::site::names(&site.path("made")), ["out.tar.zst"]);
    site.run(&["verify", "made"]).must(ExitCode::Ok);
    build(&["--split", "500K"]);
    let left = crate::site::names(&site.path("made"));
    assert!(!left.contains(&"out.tar.zst".to_owned()) && left.contains(&"out.tar.zst.001".to_owned()), "{left:?}");
    site.run(&["verify", "made/out.tar.zst"]).must(ExitCode::Ok);
    // A file of somebody else is not removed, and would be read in place of the volumes.
    site.write("made/mine.tar.zst", "my own\n");
    let args = ["build", "-f", "cluster.yaml", "-o", "made/mine.tar.zst", "--split", "500K"];
    site.run(&args).must(ExitCode::Usage);
    assert_eq!(read(&site, "made/mine.tar.zst"), b"my own\n");
}

#[test]
fn a_split_that_is_too_small_names_one_that_is_not_and_leaves_nothing() {
    let site = site("one");
    let ended =
        site.run(&["build", "-f", "cluster.yaml", "--split", "100K", "-o", "out.tar.zst"]).must(ExitCode::Usage);
    assert_contains(&ended.err, &["--split"]);
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
    // In any order, since a delta says that it is one.
    site.run(&["merge", "delta.tar.zst", "old.tar.zst", "-o", "turned.tar.zst"]).must(ExitCode::Ok);
    assert!(read(&site, "turned.tar.zst") == read(&site, "out.tar.zst"), "the old bundle was written");
    let refused = site.run(&["merge", "out.tar.zst", "old.tar.zst", "-o", "none.tar.zst"]).must(ExitCode::Usage).err;
    assert_contains(&refused, &["none of these bundles is a delta", "out.tar.zst, old.tar.zst"]);
    assert!(!site.path("none.tar.zst").exists());
    let mut bad = read(&site, "old.tar.zst");
    bad[400_000] ^= 1;
    site.write("bad.tar.zst", bad);
    let args = ["verify", "--json", "--base", "bad.tar.zst", "delta.tar.zst"];
    let document = site.run(&args).must(ExitCode::BundleDamaged).document();
    assert_contains(document["bytes"]["damage"][0].as_str().unwrap(), &["bad.tar.zst"]);
    let ended = site.run(&[args[0], args[2], args[3], args[4]]).must(ExitCode::BundleDamaged);
    assert_contains(&ended.err, &["bad.tar.zst, a base of delta.tar.zst, is corrupt", "- bad.tar.zst, blobs/"]);
    site.run(&["merge", "bad.tar.zst", "delta.tar.zst", "-o", "wrong.tar.zst"]).must(ExitCode::BundleDamaged);

    site.write("empty.txt", "x");
    site.extras("extraFiles: [{path: empty.txt}]");
    site.run(&["build", "-f", "cluster.yaml", "-o", "other.tar.zst"]).must(ExitCode::Ok);
    let ended =
        site.run(&["merge", "other.tar.zst", "delta.tar.zst", "-o", "wrong.tar.zst"]).must(ExitCode::BundleIncomplete);
    assert_contains(&ended.err, &["blobs/sha256/", "other.tar.zst", "name the bundle it was built on too"]);
    assert!(!ended.err.contains("--base"), "merge has no such option: {}", ended.err);
    assert!(!site.path("wrong.tar.zst").exists());
    for text in ["{}", "{\"schema\":\"kubexm.io/inventory/v9\"}", "["] {
        site.write("no-base.json", text);
        let ended = site.run(&["build", "-f", "cluster.yaml", "--base", "no-base.json", "-o", "x.tar.zst"]);
        assert!([20, 35].contains(&ended.code), "{text}: {}", ended.code);
    }
    let other = ["verify", "--json", "--base", "other.tar.zst", "delta.tar.zst"];
    let document = site.run(&other).must(ExitCode::BundleIncomplete).document();
    assert_eq!(document["bytes"]["ok"], serde_json::Value::Null, "another base says nothing of the bytes");
    // What would take far more memory than any base does.
    let base = |name: &str| site.run(&["build", "-f", "cluster.yaml", "--base", name, "-o", "x.tar.zst"]);
    site.write("many.json", format!("[{}]", vec!["\"\""; 1_000_001].join(",")).replacen('[', "{\"x\":[", 1) + "}");
    assert_contains(&base("many.json").must(ExitCode::Config).err, &["many.json", "million values"]);
    assert_contains(&site.run(&["diff", "many.json", "many.json"]).must(ExitCode::NotABundle).err, &["million values"]);
    let large = site.write("large.json", "{");
    std::fs::File::options().write(true).open(large).unwrap().set_len((64 << 20) + 1).unwrap();
    assert_contains(&base("large.json").must(ExitCode::Config).err, &["large.json", "has more than"]);
    assert_contains(
        &site.run(&["diff", "large.json", "large.json"]).must(ExitCode::NotABundle).err,
        &["has more than"],
    );
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
    assert_eq!(pass(&bytes[..bytes.len() - 7], &["verify", "-"]).0, 31);
    assert_eq!(pass(&bytes[..bytes.len() / 2], &["verify", "-"]).0, 31);
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

#[test]
fn a_document_about_a_bundle_never_replaces_the_bundle() {
    let site = site("one");
    site.built(&[]);
    let before = read(&site, "out.tar.zst");
    for verb in [
        &["sbom", "out.tar.zst", "--format", "spdx", "-o", "out.tar.zst"][..],
        &["provenance", "out.tar.zst", "-o", "./out.tar.zst"],
    ] {
        site.run(verb).must(ExitCode::Usage);
        assert!(read(&site, "out.tar.zst") == before, "{verb:?}");
    }
}

#[test]
fn deltas_are_merged_in_the_order_in_which_they_were_built_however_they_are_named() {
    let site = site("one");
    let build = |name: &str, more: &[&str]| {
        site.run(&[&["build", "-f", "cluster.yaml", "-o", name], more].concat()).must(ExitCode::Ok);
    };
    build("january.tar.zst", &[]);
    site.write("c.txt", "two");
    build("february.tar.zst", &[]);
    build("february-delta.tar.zst", &["--base", "january.tar.zst"]);
    build("other-delta.tar.zst", &["--base", "january.tar.zst", "--level", "2"]);
    site.write("c.txt", "three");
    build("march.tar.zst", &[]);
    build("march-delta.tar.zst", &["--base", "february.tar.zst"]);
    let bundles = ["january.tar.zst", "february-delta.tar.zst", "march-delta.tar.zst"];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let named = order.map(|at| bundles[at]);
        site.run(&[&["merge", "-o", "merged.tar.zst"], &named[..]].concat()).must(ExitCode::Ok);
        assert!(read(&site, "merged.tar.zst") == read(&site, "march.tar.zst"), "{named:?}");
    }
    let branches = ["merge", "january.tar.zst", "february-delta.tar.zst", "other-delta.tar.zst", "-o", "x.tar.zst"];
    assert_contains(
        &site.run(&branches).must(ExitCode::Usage).err,
        &["february-delta.tar.zst and other-delta.tar.zst", "newest"],
    );
}

#[test]
fn a_missing_or_cut_volume_is_named_for_people_and_machines() {
    let site = site("one");
    site.run(&["build", "-f", "cluster.yaml", "--split", "500K", "-o", "parts.tar.zst"]).must(ExitCode::Ok);
    let second = read(&site, "parts.tar.zst.002");
    let missing = || {
        let document = site.run(&["verify", "--json", "parts.tar.zst.001"]).must(ExitCode::BundleTruncated).document();
        assert_eq!(document["complete"]["ok"], false);
        let missing = document["complete"]["missing"].as_array().unwrap().clone();
        assert_eq!(missing.len(), 1, "{document}");
        missing[0].as_str().unwrap().to_owned()
    };
    site.write("parts.tar.zst.002", &second[..second.len() - 1]);
    assert!(missing().ends_with("parts.tar.zst.002"));
    std::fs::remove_file(site.path("parts.tar.zst.002")).unwrap();
    assert!(missing().ends_with("parts.tar.zst.002"));
    let said = site.run(&["verify", "parts.tar.zst.001"]).must(ExitCode::BundleTruncated).err;
    assert_contains(&said, &["it is not the last volume", "parts.tar.zst.002 is missing"]);
}

#[test]
fn a_split_into_one_volume_names_the_file_that_is_there() {
    let site = site("one");
    let ended = site.build(&["--split", "4095M"]).must(ExitCode::Ok);
    assert_contains(&ended.err, &["out.tar.zst.001 ("]);
    assert!(site.path("out.tar.zst.001").is_file() && !site.path("out.tar.zst").exists());
    // The name without a number is the bundle, too.
    site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok);
}
