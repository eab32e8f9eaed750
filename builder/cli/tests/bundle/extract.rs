//! `extract`: what comes out is what is inside, nothing that was there is lost, and nothing lands outside the folder.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use kubexm_archive::Bundle;
use kubexm_spec::{Digest, ExitCode};
use serde_json::Value;

use crate::contents::{rebuild, sample};
use crate::site::{Site, assert_contains, names, noise};
use crate::verify::rewrite;

fn extract(site: &Site, more: &[&str], code: ExitCode) -> (String, String) {
    let ended = site.run(&[&["extract", "out.tar.zst"], more].concat()).must(code);
    (ended.out, ended.err)
}

#[test]
fn items_are_found_by_key_reference_digest_and_member_name() {
    let site = sample();
    let text = "text ".repeat(2000);
    let digest = Digest::of(&text);
    let layer = Digest::of(noise(11, 60_000));
    let items = ["file/a.txt", "local.test/team/one:2", &layer.to_string(), "lock.yaml"];
    let document =
        site.run(&[&["extract", "--json", "out.tar.zst", "-C", "here"], &items[..]].concat()).must(ExitCode::Ok);
    assert_eq!(names(&site.path("here")), [layer.hex().as_str(), "a.txt", "local.test_team_one_2", "lock.yaml"]);
    assert_eq!(std::fs::read_to_string(site.path("here/a.txt")).unwrap(), text);
    assert_eq!(Digest::of(std::fs::read(site.path("here").join(layer.hex())).unwrap()), layer);
    let document = document.document();
    assert_eq!(document["schema"], "kubexm.io/extract/v1");
    let files = document["files"].as_array().unwrap();
    for file in files {
        let bytes = std::fs::read(site.path("").join(file["path"].as_str().unwrap())).unwrap();
        assert_eq!(
            (file["size"].as_u64(), &file["digest"]),
            (Some(bytes.len() as u64), &Digest::of(&bytes).to_string().into())
        );
    }
    // Three files, and a layout of eight blobs with its two texts.
    assert_eq!(files.len(), 13);
    // A digest of an artifact is the artifact, under its own name.
    extract(&site, &[&digest.to_string(), "-C", "there"], ExitCode::Ok);
    assert_eq!(names(&site.path("there")), ["a.txt"]);
    let mode = std::fs::metadata(site.path("there/a.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0, "a text is no program");
    let (said, _) = extract(&site, &["file/a.txt", "local.test/team/one:2", "-C", "said"], ExitCode::Ok);
    assert_contains(&said, &["said/a.txt (9.77 KiB)", "said/local.test_team_one_2 (OCI layout, 10 files"]);
}

#[test]
fn in_a_folder_that_was_there_an_interrupted_extract_goes_on_with_what_is_complete() {
    let site = sample();
    std::fs::create_dir(site.path("here")).unwrap();
    // As after an interruption: one of two files is there.
    extract(&site, &["file/a.txt", "-C", "here"], ExitCode::Ok);
    extract(&site, &["file/a.txt", "file/big.bin", "-C", "here"], ExitCode::Ok);
    assert_eq!(names(&site.path("here")), ["a.txt", "big.bin"]);
    site.write("here/a.txt", "cut off");
    assert_contains(&extract(&site, &["file/a.txt", "-C", "here"], ExitCode::Usage).1, &["here/a.txt already exists"]);
}

#[test]
fn existing_files_are_replaced_with_force_only_and_links_never() {
    let site = sample();
    site.write("here/a.txt", "mine");
    let both = ["file/a.txt", "file/big.bin", "-C", "here"];
    assert_contains(&extract(&site, &both, ExitCode::Usage).1, &["here/a.txt already exists", "--force"]);
    assert_eq!(names(&site.path("here")), ["a.txt"]);
    assert_eq!(std::fs::read_to_string(site.path("here/a.txt")).unwrap(), "mine");
    extract(&site, &[&both[..], &["--force"]].concat(), ExitCode::Ok);
    assert_eq!(std::fs::read_to_string(site.path("here/a.txt")).unwrap(), "text ".repeat(2000));
    assert_eq!(names(&site.path("here")), ["a.txt", "big.bin"]);
    // A link is neither replaced nor followed.
    site.write("other/mine", "mine");
    std::fs::create_dir(site.path("links")).unwrap();
    std::os::unix::fs::symlink(site.path("other/mine"), site.path("links/a.txt")).unwrap();
    for more in [&[][..], &["--force"]] {
        let (_, text) = extract(&site, &[&["file/a.txt", "-C", "links"], more].concat(), ExitCode::Usage);
        assert_contains(&text, &["links/a.txt is a symbolic link to "]);
    }
    assert!(std::fs::symlink_metadata(site.path("links/a.txt")).unwrap().is_symlink());
    assert_eq!(std::fs::read_to_string(site.path("other/mine")).unwrap(), "mine");
    site.write("pause.tar", "mine");
    let archive = ["local.test/team/one:2", "--oci-archive", "pause.tar"];
    assert_contains(&extract(&site, &archive, ExitCode::Usage).1, &["pause.tar already exists", "--force"]);
    assert_eq!(std::fs::read_to_string(site.path("pause.tar")).unwrap(), "mine");
}

#[test]
fn extract_never_replaces_the_bundle_that_it_reads_even_with_force() {
    let site = sample();
    let before = Digest::of(std::fs::read(site.path("out.tar.zst")).unwrap());
    std::os::unix::fs::symlink(site.path("out.tar.zst"), site.path("link.tar")).unwrap();
    for target in ["out.tar.zst", "link.tar"] {
        let archive = ["file/a.txt", "--oci-archive", target, "--force"];
        assert_contains(&extract(&site, &archive, ExitCode::Usage).1, &["out.tar.zst", "is read"]);
    }
    // A file of the bundle that has the bundle's own name.
    std::fs::rename(site.path("out.tar.zst"), site.path("a.txt")).unwrap();
    assert_contains(
        &site.run(&["extract", "a.txt", "file/a.txt", "--force"]).must(ExitCode::Usage).err,
        &["a.txt", "is read"],
    );
    assert_eq!(Digest::of(std::fs::read(site.path("a.txt")).unwrap()), before);
    // And a base.
    std::fs::rename(site.path("a.txt"), site.path("base.tar.zst")).unwrap();
    site.write("a.txt", "text ".repeat(2000));
    site.built(&["--base", "base.tar.zst"]);
    let on_base = ["extract", "out.tar.zst", "--base", "base.tar.zst", "file/a.txt", "--force", "--oci-archive"];
    let ended = site.run(&[&on_base[..], &["base.tar.zst"]].concat()).must(ExitCode::Usage);
    assert_contains(&ended.err, &["base.tar.zst", "is read"]);
    assert_eq!(Digest::of(std::fs::read(site.path("base.tar.zst")).unwrap()), before);
}

#[test]
fn damage_leaves_no_file_under_the_items_name() {
    let site = sample();
    let mut bytes = std::fs::read(site.path("out.tar.zst")).unwrap();
    let listed = site.run(&["list", "--members", "--json", "out.tar.zst"]).document();
    let is_big = |row: &&Value| row["size"] == 9 << 20;
    let row = listed["members"].as_array().unwrap().iter().find(is_big).unwrap().clone();
    let good = bytes.clone();
    // In the second of its frames, so that the first was written already.
    bytes[(row["offset"].as_u64().unwrap() + row["stored"].as_u64().unwrap()) as usize - 1000] ^= 1;
    site.write("out.tar.zst", bytes);
    std::fs::create_dir(site.path("there")).unwrap();
    let (_, text) = extract(&site, &["file/a.txt", "file/big.bin", "-C", "there"], ExitCode::BundleDamaged);
    assert_contains(&text, &["damaged", "blobs/sha256/"]);
    assert_eq!(names(&site.path("there")), ["a.txt"], "what is whole stays, no partial file does");

    // A new folder has no name before everything is in it, and is resumed.
    let both = ["file/a.txt", "file/big.bin", "-C", "new/here"];
    let (_, text) = extract(&site, &both, ExitCode::BundleDamaged);
    assert_contains(&text, &["new/.here.partial", "run it again"]);
    assert_eq!(names(&site.path("new")), [".here.partial"]);
    assert_eq!(names(&site.path("new/.here.partial")), [".kubexm-extract", "a.txt"]);
    let inode = |path: &str| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(site.path(path)).unwrap());
    let first = inode("new/.here.partial/a.txt");
    // What a killed run leaves, and what another selection had.
    site.write("new/.here.partial/.big.bin.x.partial", "half");
    site.write("new/.here.partial/other/b.txt", "old");
    site.write("out.tar.zst", &good);
    extract(&site, &both, ExitCode::Ok);
    assert_eq!(
        (names(&site.path("new")), names(&site.path("new/here"))),
        (vec!["here".to_owned()], vec!["a.txt".to_owned(), "big.bin".to_owned()])
    );
    assert_eq!(inode("new/here/a.txt"), first, "it was written again");
    // Of the right length and with other bytes.
    site.write("new/.again.partial/.kubexm-extract", "");
    site.write("new/.again.partial/a.txt", "TEXT ".repeat(2000));
    extract(&site, &["file/a.txt", "-C", "new/again"], ExitCode::Ok);
    assert_eq!(std::fs::read_to_string(site.path("new/again/a.txt")).unwrap(), "text ".repeat(2000));
    // Nobody's but the operator's own.
    site.write("new/.mine.partial/a.txt", "mine");
    let (_, text) = extract(&site, &["file/a.txt", "-C", "new/mine"], ExitCode::Usage);
    assert_contains(&text, &["new/.mine.partial was not created by an extract"]);
    assert_eq!(std::fs::read_to_string(site.path("new/.mine.partial/a.txt")).unwrap(), "mine");

    let mut bytes = good;
    bytes[(row["offset"].as_u64().unwrap() + row["stored"].as_u64().unwrap()) as usize - 1000] ^= 1;
    site.write("out.tar.zst", bytes);
    extract(&site, &["file/big.bin", "--oci-archive", "big.tar"], ExitCode::BundleDamaged);
    assert!(names(&site.path("")).iter().all(|name| !name.contains("big.tar")), "{:?}", names(&site.path("")));
}

#[test]
fn a_bundle_with_file_names_outside_of_the_folder_is_refused() {
    let site = sample();
    for bad in ["../evil", "/tmp/evil", "..", "sub/evil", "a\nb"] {
        rewrite(&site, &site.path("bad.tar.zst"), None, |manifest| manifest.artifacts[0].name = bad.to_owned());
        let ended = site.run(&["extract", "bad.tar.zst", "file/a.txt", "-C", "here"]).must(ExitCode::BundleDamaged);
        assert_contains(&ended.err, &["not the name of a file"]);
        assert!(names(&site.path("here")).is_empty() && !site.path("evil").exists());
    }
    // An image's name becomes the name of a folder.
    rewrite(&site, &site.path("bad.tar.zst"), None, |manifest| {
        manifest.artifacts.iter_mut().filter(|a| a.manifest.is_some()).for_each(|image| image.name = "..".to_owned());
    });
    site.run(&["extract", "bad.tar.zst", "..", "-C", "here"]).must(ExitCode::BundleDamaged);
}

/// Whoever takes `kubeadm` out in his home folder gets no `.bash_profile`.
#[test]
fn a_name_is_hidden_or_a_path_only_where_the_key_that_was_asked_for_is() {
    let site = sample();
    let named = |key: &str, name: &str| {
        rewrite(&site, &site.path("bad.tar.zst"), None, |manifest| {
            manifest.artifacts[0].key = key.parse().unwrap();
            manifest.artifacts[0].name = name.to_owned();
        });
        site.run(&["extract", "bad.tar.zst", key, "-C", "here"])
    };
    for (key, name) in [
        ("binary/kubeadm", ".bash_profile"),
        ("package/debian-12/socat", ".bash_profile"),
        ("file/a.txt", ".a.txt"),
        ("material/release.pub", ".ssh/rc"),
        ("material/release.pub", "kubeadm"),
    ] {
        let ended = named(key, name).must(ExitCode::BundleDamaged);
        assert_contains(&ended.err, &[&format!("{name:?}"), "not its own"]);
        assert!(names(&site.path("here")).is_empty(), "{key} {name}");
    }
    for (key, name) in [("file/.env", ".env"), ("material/.keys/a.pub", ".keys/a.pub")] {
        named(key, name).must(ExitCode::Ok);
        assert!(site.path("here").join(name).exists(), "{key}");
        // A digest is copied from what the bundle itself lists.
        let digest = Bundle::open(&site.path("bad.tar.zst")).unwrap().manifest().artifacts[0].digest.to_string();
        let ended = site.run(&["extract", "bad.tar.zst", &digest, "-C", "there"]).must(ExitCode::Usage);
        assert_contains(&ended.err, &[key, &format!("{name:?}"), "ask for it by its key"]);
        assert!(!site.path("there").exists());
    }
}

/// Without a signature, index.json may name another file than the manifest.
#[test]
fn a_file_in_a_layout_is_the_one_that_the_manifest_lists() {
    let site = sample();
    rewrite(&site, &site.path("bad.tar.zst"), None, |manifest| {
        manifest.artifacts[0].digest = manifest.artifacts[1].digest;
    });
    for to in [["--layout", "-C", "there"], ["--oci-archive", "there.tar", "--force"]] {
        let ended = site.run(&[&["extract", "bad.tar.zst", "file/a.txt"], &to[..]].concat());
        assert_contains(&ended.must(ExitCode::BundleDamaged).err, &["index.json", "kubexm/file/a.txt is another file"]);
    }
    assert!(!site.path("there").exists() && !site.path("there.tar").exists());
}

#[test]
fn extract_does_not_follow_links_out_of_the_folder() {
    let site = sample();
    for folder in ["here", "elsewhere"] {
        std::fs::create_dir(site.path(folder)).unwrap();
    }
    std::os::unix::fs::symlink(site.path("elsewhere"), site.path("here/blobs")).unwrap();
    for more in [&["--all"][..], &["local.test/team/one:2", "--layout"]] {
        let (_, text) = extract(&site, &[more, &["-C", "here", "--force"]].concat(), ExitCode::Usage);
        assert_contains(&text, &["here/blobs", "link"]);
        assert!(names(&site.path("elsewhere")).is_empty());
    }
}

#[test]
fn extract_all_writes_what_tar_unpacks() {
    let site = sample();
    extract(&site, &["--all", "-C", "ours"], ExitCode::Ok);
    let theirs = site.unpack(&site.path("out.tar.zst"));
    let diff = Command::new("diff").arg("-r").arg(site.path("ours")).arg(theirs).output().unwrap();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
}

/// A program of the same name for two platforms, as `kubexm-install` is.
#[test]
fn of_several_platforms_one_must_be_chosen_and_programs_can_be_run() {
    let site = sample();
    rewrite(&site, &site.path("two.tar.zst"), None, |manifest| {
        let [a, big] = [0, 1].map(|at| manifest.artifacts[at].clone());
        let of = |artifact: &kubexm_spec::manifest::Artifact, platform| kubexm_spec::manifest::Artifact {
            key: kubexm_spec::ArtifactKey::Installer,
            name: "kubexm-install".into(),
            platform: Some(platform),
            ..artifact.clone()
        };
        manifest.artifacts.push(of(&a, kubexm_spec::Platform::LINUX_AMD64));
        manifest.artifacts.push(of(&big, kubexm_spec::Platform::LINUX_ARM64));
    });
    let run = |more: &[&str], code| {
        site.run(&[&["extract", "two.tar.zst", "installer/kubexm-install", "-C", "here"], more].concat()).must(code).err
    };
    assert_contains(&run(&[], ExitCode::Usage), &["linux/amd64 and linux/arm64", "--platform"]);
    run(&["--platform", "linux/arm64"], ExitCode::Ok);
    assert_eq!(Digest::of(std::fs::read(site.path("here/kubexm-install")).unwrap()), Digest::of(noise(5, 9 << 20)));
    site.run(&["cat", "two.tar.zst", "installer/kubexm-install"]).must(ExitCode::Usage);
}

#[test]
fn a_program_comes_out_executable() {
    let site = sample();
    site.write("prog", [b"\x7fELF".as_slice(), &noise(3, 100)].concat());
    rebuild(&site, "extraFiles: [{path: prog}]");
    rewrite(&site, &site.path("prog.tar.zst"), None, |manifest| {
        manifest.artifacts[0].key = kubexm_spec::ArtifactKey::Installer;
    });
    site.run(&["extract", "prog.tar.zst", "installer/kubexm-install", "-C", "here"]).must(ExitCode::Ok);
    let mode = std::fs::metadata(site.path("here/prog")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777 & !0o022, 0o755, "{mode:o}");
}

#[test]
fn a_missing_item_is_reported_with_similar_names() {
    let site = sample();
    let (_, text) = extract(&site, &["file/a.text"], ExitCode::BundleIncomplete);
    assert_contains(&text, &["there is no file/a.text", "file/a.txt"]);
    rebuild(&site, "extraFiles: []");
    site.extras("platforms: [linux/amd64]\nextraImages: [{name: \"local.test/team/one:2\", from: \"oci:layout\"}]");
    site.built(&[]);
    let other = ["local.test/team/one:2", "--platform", "linux/arm64"];
    assert_contains(&extract(&site, &other, ExitCode::BundleIncomplete).1, &["linux/arm64", "it is for: linux/amd64"]);
    assert_contains(
        &extract(&site, &["lock.yaml", "--layout", "-C", "x"], ExitCode::Usage).1,
        &["lock.yaml", "as a file only"],
    );
    extract(&site, &[], ExitCode::Usage);
    extract(&site, &["--all", "lock.yaml"], ExitCode::Usage);
}

#[test]
fn items_that_a_delta_leaves_out_are_read_from_its_base_and_named_without_it() {
    let site = sample();
    std::fs::rename(site.path("out.tar.zst"), site.path("base.tar.zst")).unwrap();
    site.write("a.txt", "another text");
    site.built(&[]);
    std::fs::rename(site.path("out.tar.zst"), site.path("full.tar.zst")).unwrap();
    site.built(&["--base", "base.tar.zst"]);
    extract(&site, &["file/a.txt", "-C", "here"], ExitCode::Ok);
    assert_eq!(std::fs::read_to_string(site.path("here/a.txt")).unwrap(), "another text");
    for verb in [&["extract", "out.tar.zst", "file/big.bin", "-C", "here"][..], &["cat", "out.tar.zst", "file/big.bin"]]
    {
        let text = site.run(verb).must(ExitCode::BundleIncomplete).err;
        assert_contains(&text, &["out.tar.zst is a delta and leaves out blobs/sha256/", "--base"]);
    }
    extract(&site, &["file/big.bin", "-C", "here", "--base", "base.tar.zst"], ExitCode::Ok);
    assert_eq!(std::fs::read(site.path("here/big.bin")).unwrap(), noise(5, 9 << 20));
    // The whole delta on its base is the full bundle but for what says how the file stores it.
    extract(&site, &["--all", "-C", "delta", "--base", "base.tar.zst"], ExitCode::Ok);
    site.run(&["extract", "full.tar.zst", "--all", "-C", "full"]).must(ExitCode::Ok);
    let diff = Command::new("diff").arg("-rq").args([site.path("delta"), site.path("full")]).output().unwrap();
    let reported = String::from_utf8(diff.stdout).unwrap();
    assert!(reported.lines().count() == 1 && reported.contains("layout.json"), "{reported}");
    // Its own members only are what diff says that it carries.
    let members = |bundle: &str| -> Vec<Value> {
        let listed = site.run(&["list", "--members", "--json", bundle]).must(ExitCode::Ok).document();
        listed["members"].as_array().unwrap().clone()
    };
    let carried: Vec<Value> = members("out.tar.zst").into_iter().filter(|row| row.get("leftOut").is_none()).collect();
    let reported = site.run(&["diff", "--json", "base.tar.zst", "full.tar.zst"]).must(ExitCode::Ok).document();
    // Three stand before the manifest's members, and sources.json behind them.
    let listed = &carried[3..carried.len() - 1];
    assert_eq!(reported["delta"]["members"], listed.len());
    let stored: u64 = listed.iter().map(|row| row["stored"].as_u64().unwrap()).sum();
    assert_eq!(reported["delta"]["stored"], stored);
    assert_eq!(members("out.tar.zst").len(), members("full.tar.zst").len());
}

#[test]
fn a_split_bundle_is_extracted_like_one_in_a_file() {
    let site = sample();
    extract(&site, &["--all", "-C", "one"], ExitCode::Ok);
    std::fs::remove_file(site.path("out.tar.zst")).unwrap();
    site.build(&["--split", "9M"]).must(ExitCode::Ok);
    let first = names(&site.path("")).into_iter().find(|name| name.ends_with(".tar.zst.001")).unwrap();
    site.run(&["extract", &first, "--all", "-C", "volumes"]).must(ExitCode::Ok);
    let diff = Command::new("diff").arg("-r").args([site.path("one"), site.path("volumes")]).output().unwrap();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
    site.run(&["cat", &first, "file/a.txt"]).must(ExitCode::Ok);
    let files = site.run(&["provenance", &first, "--files"]).must(ExitCode::Ok).document()["subject"].clone();
    assert_eq!(files.as_array().unwrap().len(), 3, "manifest.json and two volumes: {files}");
}

/// A medium that came back may have such a folder, with links in it.
#[test]
fn links_in_an_unfinished_folder_lead_nowhere() {
    let site = sample();
    site.write("precious/keep", "keep");
    std::fs::create_dir(site.path(".new.partial")).unwrap();
    let mark = site.path(".new.partial/.kubexm-extract");
    std::os::unix::fs::symlink(site.path("precious/keep"), &mark).unwrap();
    let all = ["--all", "-C", "new"];
    assert_contains(&extract(&site, &all, ExitCode::Usage).1, &[".new.partial"]);
    assert_eq!(std::fs::read_to_string(site.path("precious/keep")).unwrap(), "keep");
    std::fs::remove_file(&mark).unwrap();
    site.write(".new.partial/.kubexm-extract", "");
    std::os::unix::fs::symlink(site.path("precious"), site.path(".new.partial/blobs")).unwrap();
    extract(&site, &all, ExitCode::Ok);
    assert_eq!(names(&site.path("precious")), ["keep"]);
    assert!(!std::fs::symlink_metadata(site.path("new/blobs")).is_ok_and(|there| there.is_symlink()));
}
