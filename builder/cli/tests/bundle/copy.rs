//! `copy`: what is told to lie on the medium was read back from there; what is right is not written again.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use kubexm_spec::ExitCode;
use serde_json::Value;

use crate::disk::Tmpfs;
use crate::site::{Ended, Site, assert_contains, digest, end, names, noise};

/// A site with a bundle in volumes of some megabytes, with sums, in `volumes/`.
fn split() -> Site {
    let site = Site::new();
    site.write("a.bin", noise(3, 9 << 20));
    site.write("b.bin", noise(4, 9 << 20));
    site.write("c.bin", noise(5, 9 << 20));
    site.extras("extraFiles: [{path: a.bin}, {path: b.bin}, {path: c.bin}]");
    std::fs::create_dir(site.path("volumes")).unwrap();
    let target = site.path("volumes/site.tar.zst");
    let args = ["build", "-f", "cluster.yaml", "-o", target.to_str().unwrap(), "--split", "11M"];
    end(site.program().args(args)).must(ExitCode::Ok);
    site
}

fn stick(site: &Site) -> std::path::PathBuf {
    let stick = site.path("stick");
    std::fs::create_dir_all(&stick).unwrap();
    stick
}

fn copy(site: &Site, target: &Path) -> Ended {
    site.run(&["copy", "--json", "volumes", target.to_str().unwrap()])
}

fn done(document: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let files = document["files"].as_array().unwrap();
    let name = |file: &Value| text(&file["path"]).rsplit('/').next().unwrap().to_owned();
    files.iter().map(|file| (name(file), text(&file["done"]))).collect()
}

#[test]
fn volumes_and_sums_arrive_whole_and_a_second_copy_writes_nothing() {
    let site = split();
    let stick = stick(&site);
    let document = copy(&site, &stick).must(ExitCode::Ok).document();
    assert_eq!(document["schema"], "kubexm.io/copy/v1");
    assert!(["direct", "cache-dropped"].contains(&document["readBack"].as_str().unwrap()));
    assert_eq!(names(&stick), names(&site.path("volumes")));
    assert!(names(&stick).len() >= 4, "{:?}", names(&stick));
    for file in document["files"].as_array().unwrap() {
        let path = Path::new(file["path"].as_str().unwrap());
        assert_eq!(file["sha256"], digest(path).hex());
        assert_eq!(digest(path), digest(&site.path("volumes").join(path.file_name().unwrap())));
        assert_eq!(file["done"], "copied");
    }
    site.run(&["verify", stick.to_str().unwrap()]).must(ExitCode::Ok);

    let inode = |name: &str| std::fs::metadata(stick.join(name)).unwrap().ino();
    let before: Vec<_> = names(&stick).iter().map(|name| inode(name)).collect();
    let again = copy(&site, &stick).must(ExitCode::Ok).document();
    assert!(done(&again).iter().all(|(_, done)| done == "skipped"), "{again}");
    assert_eq!((&again["written"], before), (&0.into(), names(&stick).iter().map(|name| inode(name)).collect()));
    let text = site.run(&["copy", "volumes", stick.to_str().unwrap()]).must(ExitCode::Ok);
    assert_contains(&text.err, &["iB free", "0 bytes to be written"]);
    assert_contains(&text.out, &["was there already", "read back", "found right"]);
}

#[test]
fn of_a_damaged_copy_only_the_damaged_volume_is_written_again() {
    let site = split();
    let stick = stick(&site);
    copy(&site, &stick).must(ExitCode::Ok);
    let victim = stick.join("site.tar.zst.002");
    let mut bytes = std::fs::read(&victim).unwrap();
    let place = bytes.len() - 7;
    bytes[place] ^= 1;
    std::fs::write(&victim, bytes).unwrap();
    let document = copy(&site, &stick).must(ExitCode::Ok).document();
    for (name, done) in done(&document) {
        assert_eq!(done, if name == "site.tar.zst.002" { "replaced" } else { "skipped" }, "{name}");
    }
    assert_eq!(digest(&victim), digest(&site.path("volumes/site.tar.zst.002")));
}

#[test]
fn an_interrupted_copy_resumes_inside_the_file_and_verifies_what_is_there() {
    let site = split();
    let stick = stick(&site);
    let whole = std::fs::read(site.path("volumes/site.tar.zst.001")).unwrap();
    let begun = stick.join(".site.tar.zst.001.partial");
    for (len, flip) in [(5 << 20, None), (9 << 20, Some(100)), (9 << 20, Some(6 << 20)), (whole.len() + 9, None)] {
        let mut bytes = whole.clone();
        bytes.resize(len, 7);
        if let Some(at) = flip {
            bytes[at] ^= 1;
        }
        std::fs::write(&begun, bytes).unwrap();
        let inode = std::fs::metadata(&begun).unwrap().ino();
        copy(&site, &stick).must(ExitCode::Ok);
        let arrived = stick.join("site.tar.zst.001");
        assert_eq!(std::fs::metadata(&arrived).unwrap().ino(), inode, "what was begun was not used");
        assert_eq!(std::fs::read(&arrived).unwrap(), whole, "{len} {flip:?}");
        assert!(!begun.exists());
        std::fs::remove_file(arrived).unwrap();
    }
}

#[test]
fn a_source_that_is_not_what_its_sums_say_is_not_copied() {
    let site = split();
    let stick = stick(&site);
    let source = site.path("volumes/site.tar.zst.002");
    let mut bytes = std::fs::read(&source).unwrap();
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    std::fs::write(&source, &bytes).unwrap();
    let text = copy(&site, &stick).must(ExitCode::BundleDamaged).out;
    assert_contains(&text, &["site.tar.zst.002", "site.sums"]);
    assert!(!stick.join("site.tar.zst.002").exists() && !stick.join(".site.tar.zst.002.partial").exists());
    // The same damage on both sides is no reason to call it right.
    std::fs::write(stick.join("site.tar.zst.002"), bytes).unwrap();
    copy(&site, &stick).must(ExitCode::BundleDamaged);
}

#[test]
fn no_room_is_reported_before_anything_is_written() {
    let site = split();
    let disk = Tmpfs::mount("16m");
    let text = copy(&site, disk.path()).must(ExitCode::Disk).out;
    assert_contains(&text, &["iB free", "are needed", disk.path().to_str().unwrap()]);
    assert_eq!(names(disk.path()), Vec::<String>::new());
}

#[test]
fn a_damaged_volume_on_a_full_stick_makes_room_for_the_right_one() {
    let site = split();
    let disk = Tmpfs::mount("32m");
    copy(&site, disk.path()).must(ExitCode::Ok);
    let victim = disk.path().join("site.tar.zst.002");
    let mut bytes = std::fs::read(&victim).unwrap();
    bytes[99] ^= 1;
    std::fs::write(&victim, bytes).unwrap();
    copy(&site, disk.path()).must(ExitCode::Ok);
    assert_eq!(digest(&victim), digest(&site.path("volumes/site.tar.zst.002")));
}

#[test]
fn damaged_volumes_stay_where_the_right_ones_would_not_fit_even_without_them() {
    let site = split();
    let disk = Tmpfs::mount("22m");
    // One damaged volume, and of the others none: all of them together do not fit, whatever is removed.
    let victim = disk.path().join("site.tar.zst.001");
    let mut bytes = std::fs::read(site.path("volumes/site.tar.zst.001")).unwrap();
    bytes[99] ^= 1;
    std::fs::write(&victim, &bytes).unwrap();
    let text = copy(&site, disk.path()).must(ExitCode::Disk).out;
    assert_contains(&text, &["iB free", "are needed", "site.tar.zst.001"]);
    assert_eq!(names(disk.path()), ["site.tar.zst.001"], "it was removed, and nothing came of it");
    assert_eq!(std::fs::read(&victim).unwrap(), bytes);
}

#[test]
fn a_read_only_medium_is_reported_as_read_only() {
    let site = split();
    let disk = Tmpfs::mount("64m");
    disk.make_read_only();
    assert_contains(
        &copy(&site, disk.path()).must(ExitCode::Disk).out,
        &["Read-only file system", "mount it for writing"],
    );
}

#[test]
fn volumes_of_another_bundle_under_the_same_name_are_not_mixed_with_these() {
    let site = split();
    let stick = stick(&site);
    let last = names(&site.path("volumes")).into_iter().rfind(|name| name.contains(".tar.zst.")).unwrap();
    let longer = "site.tar.zst.009";
    std::fs::copy(site.path("volumes").join(last), stick.join(longer)).unwrap();
    std::fs::write(stick.join("site.tar.zst.txt"), "notes").unwrap();
    let text = copy(&site, &stick).must(ExitCode::Usage).out;
    assert_contains(&text, &[longer, "remove them first"]);
    assert!(!text.contains("site.tar.zst.txt"), "{text}");
    assert_eq!(names(&stick).len(), 2);
}

#[test]
fn a_file_of_somebody_else_is_not_replaced_without_force_and_one_of_an_earlier_copy_is() {
    let site = split();
    let stick = stick(&site);
    let listed = |text: &str| {
        site.write("volumes/README.txt", text);
        let sums = site.path("volumes/site.sums");
        let old = std::fs::read_to_string(&sums).unwrap();
        let mut lines: Vec<&str> = old.lines().filter(|line| !line.ends_with("README.txt")).collect();
        let own = format!("{}  README.txt", kubexm_spec::Digest::of(text).hex());
        lines.push(&own);
        std::fs::write(sums, lines.join("\n") + "\n").unwrap();
    };
    listed("ours");
    for (name, foreign) in [("README.txt", "mine"), ("site.sums", "my sums"), ("site.tar.zst.001", "my volume")] {
        std::fs::write(stick.join(name), foreign).unwrap();
        assert_contains(&copy(&site, &stick).must(ExitCode::Usage).out, &[name, "--force"]);
        assert_eq!(names(&stick), [name]);
        assert_eq!(std::fs::read_to_string(stick.join(name)).unwrap(), foreign);
        std::fs::remove_file(stick.join(name)).unwrap();
    }
    // The very bytes are in nobody's way.
    std::fs::write(stick.join("README.txt"), "ours").unwrap();
    copy(&site, &stick).must(ExitCode::Ok);
    listed("ours, newer");
    copy(&site, &stick).must(ExitCode::Ok);
    assert_eq!(std::fs::read_to_string(stick.join("README.txt")).unwrap(), "ours, newer");
    std::fs::remove_file(stick.join("site.sums")).unwrap();
    std::fs::write(stick.join("README.txt"), "mine").unwrap();
    copy(&site, &stick).must(ExitCode::Usage);
    site.run(&["copy", "--force", "volumes", stick.to_str().unwrap()]).must(ExitCode::Ok);
    assert_eq!(std::fs::read_to_string(stick.join("README.txt")).unwrap(), "ours, newer");
}

#[test]
fn two_copies_to_one_stick_exclude_each_other() {
    let site = split();
    let stick = stick(&site);
    let begun = std::fs::File::create(stick.join(".site.tar.zst.001.partial")).unwrap();
    begun.lock().unwrap();
    assert_contains(
        &copy(&site, &stick).must(ExitCode::HostLocked).out,
        &["another program writes", "site.tar.zst.001"],
    );
    drop(begun);
    copy(&site, &stick).must(ExitCode::Ok);
}

#[test]
fn sources_and_targets_that_cannot_be_used_are_reported_with_a_remedy() {
    let site = split();
    assert_contains(&copy(&site, &site.path("none")).must(ExitCode::Usage).out, &["none", "not a folder"]);
    assert_contains(&copy(&site, &site.path("volumes")).must(ExitCode::Usage).out, &["is inside the target"]);
    let stick = stick(&site);
    std::fs::remove_file(site.path("volumes/site.tar.zst.002")).unwrap();
    copy(&site, &stick).must(ExitCode::BundleTruncated);
    assert_eq!(names(&stick), Vec::<String>::new());
}

#[test]
fn sums_that_name_files_outside_of_their_folder_are_refused() {
    let site = split();
    let stick = stick(&site);
    site.write("secret", "s");
    let sums = site.path("volumes/site.sums");
    let good = std::fs::read_to_string(&sums).unwrap();
    for name in ["../secret", "/etc/passwd", "..", "x/../../secret"] {
        std::fs::write(&sums, format!("{good}{}  {name}\n", "0".repeat(64))).unwrap();
        assert_contains(&copy(&site, &stick).must(ExitCode::BundleDamaged).out, &["not the name of a file beside it"]);
        assert_eq!(names(&stick), Vec::<String>::new());
    }
}

/// Whoever wrote the medium chose what lies on it: links to files of whoever reads it, hidden files, programs that become root's.
#[test]
fn of_a_medium_only_files_with_plain_names_and_modes_go_on() {
    let site = split();
    let stick = stick(&site);
    site.write("secret", "a key of the operator's");
    for name in ["site.sig", "site.sums.sig"] {
        let link = site.path("volumes").join(name);
        std::os::unix::fs::symlink(site.path("secret"), &link).unwrap();
        assert_contains(&copy(&site, &stick).must(ExitCode::Usage).out, &[name, "link"]);
        assert!(names(&stick).is_empty(), "{:?}", names(&stick));
        std::fs::remove_file(&link).unwrap();
    }
    let sums = site.path("volumes/site.sums");
    let honest = std::fs::read_to_string(&sums).unwrap();
    let list = |name: &str| {
        let line = format!("{}  {name}\n", digest(&site.path("volumes").join(name)).hex());
        std::fs::write(&sums, format!("{honest}{line}")).unwrap();
    };
    std::os::unix::fs::symlink(site.path("secret"), site.path("volumes/listed")).unwrap();
    list("listed");
    assert_contains(&copy(&site, &stick).must(ExitCode::Usage).out, &["listed", "link"]);
    site.write("volumes/.bash_profile", "run me");
    list(".bash_profile");
    assert_contains(&copy(&site, &stick).must(ExitCode::BundleDamaged).out, &[".bash_profile"]);
    assert!(names(&stick).is_empty(), "{:?}", names(&stick));
    site.write("volumes/tool", "a program");
    let mode = |bits| std::os::unix::fs::PermissionsExt::from_mode(bits);
    std::fs::set_permissions(site.path("volumes/tool"), mode(0o6777)).unwrap();
    list("tool");
    copy(&site, &stick).must(ExitCode::Ok);
    assert_eq!(std::fs::metadata(stick.join("tool")).unwrap().mode() & 0o7777, 0o755);
    std::fs::File::create(&sums).unwrap().set_len(8 << 20).unwrap();
    assert_contains(&copy(&site, &stick).must(ExitCode::BundleDamaged).out, &["site.sums", "at most"]);
}
