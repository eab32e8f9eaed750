//! Packages from a vendor's medium, or any folder that is laid out as one: mounted somewhere, and somewhere else tomorrow.

use std::collections::HashMap;
use std::os::unix::fs::symlink;
use std::path::Path;

use kubexm_spec::lock::LockItem;
use kubexm_spec::{ArtifactKey, ExitCode, Lock, Trust};

use crate::cluster::{Lab, SETUP, SPEC, body};
use crate::materials::lab;
use crate::packages::{Mirrors, deb, rpm, socat};
use crate::packages_locked;
use crate::packages_unsigned::repository;
use crate::site::{Ended, Site, assert_contains};

fn write(folder: &Path, files: &HashMap<String, Vec<u8>>) {
    for (path, content) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

/// A DVD of Rocky 9, as the vendor lays it out; it has no extras.
fn rocky() -> Site {
    let mut mirrors = Mirrors::new();
    mirrors.rocky("BaseOS", 1, &rpm("app", "<rpm:requires><rpm:entry name=\"tool\"/></rpm:requires>"), "");
    mirrors.rocky("AppStream", 1, &rpm("tool", "<rpm:provides><rpm:entry name=\"tool\"/></rpm:provides>"), "");
    write(&mirrors.site.path("iso"), &mirrors.files);
    mirrors.site
}

fn resolve(site: &Site, os: &str, more: &[&str]) -> Ended {
    site.run(&[&["packages", "resolve", "--os", os, "--key", "mirror.asc"], more].concat())
}

#[test]
fn a_red_hat_dvd_is_read_in_its_vendors_layout_and_missing_packages_are_reported() {
    let site = rocky();
    let folder = format!("file://{}", site.path("iso").display());
    for mirror in ["./iso", &site.path("iso").display().to_string(), &folder] {
        let ended = resolve(&site, "rocky-9", &["app", "--mirror", mirror]).must(ExitCode::Ok);
        assert_contains(&ended.out, &["app 1-1.el9 x86_64", "tool 1-1.el9 x86_64", "2 packages"]);
        assert_contains(&ended.err, &["rocky-9: extras is not on", "are left out"]);
    }
    let document = resolve(&site, "rocky-9", &["app", "--mirror", "./iso", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["packages"][0]["url"], format!("{folder}/BaseOS/Packages/app.rpm"));
    // What is named must be there.
    let ended = resolve(&site, "rocky-9", &["app", "--mirror", "./iso", "--mirror", "extras=./iso/extras"]);
    assert_contains(&ended.must(ExitCode::OriginMissing).err, &["repository extras", "iso/extras"]);
    let ended = resolve(&site, "rocky-9", &["app", "--mirror", "./home"]);
    assert_contains(
        &ended.must(ExitCode::OriginMissing).err,
        &["home has no repository of rocky-9", "repodata/", "mount the medium"],
    );
    let ended = resolve(&site, "rocky-9", &["app", "--mirror", "./nowhere"]);
    assert_contains(&ended.must(ExitCode::OriginMissing).err, &["nowhere has no repository of rocky-9"]);
}

#[test]
fn packages_that_rpm_lists_on_a_host_are_not_taken_from_the_dvd() {
    let site = rocky();
    let resolve = |list: &str| {
        site.write("node.txt", list);
        resolve(&site, "rocky-9", &["app", "--mirror", "./iso", "--installed", "node.txt"])
    };
    let ended = resolve("N\ttool\t0\t1\t1.el9\tx86_64\nP\ttool\t8\t0:1-1.el9\n").must(ExitCode::Ok);
    assert_contains(&ended.out, &["app 1-1.el9 x86_64", "1 packages"]);
    let refused = resolve("error: cannot open Packages database\n").must(ExitCode::Config);
    assert_contains(&refused.err, &["node.txt", "line 1", "packages query --os rocky-9"]);
    let query = site.run(&["packages", "query", "--os", "rocky-9"]).must(ExitCode::Ok);
    assert_contains(&query.out, &["rpm -qa --queryformat 'N\\t%{NAME}"]);
}

#[test]
fn of_a_debian_disc_without_a_signed_release_packages_are_used_and_no_indexes() {
    let mut mirrors = Mirrors::new();
    mirrors.suite("", "bookworm", &socat());
    let files: HashMap<String, Vec<u8>> =
        mirrors.files.drain().map(|(path, content)| (path.trim_start_matches('/').to_owned(), content)).collect();
    let site = &mirrors.site;
    write(&site.path("dvd"), &files);
    let signed = resolve(site, "debian-12", &["socat", "--mirror", "./dvd"]).must(ExitCode::Ok);
    assert_contains(&signed.out, &["3 packages"]);
    assert_contains(&signed.err, &["debian-12: security is not on", "debian-12: bookworm-updates is not on"]);

    // As the vendor presses them.
    let release = site.path("dvd/dists/bookworm/InRelease");
    let text = std::fs::read_to_string(&release).unwrap();
    let body = text.split("\n\n").nth(1).unwrap().split("-----BEGIN PGP SIGNATURE").next().unwrap();
    std::fs::write(site.path("dvd/dists/bookworm/Release"), body).unwrap();
    std::fs::remove_file(release).unwrap();
    let refused = resolve(site, "debian-12", &["socat", "--mirror", "./dvd"]).must(ExitCode::OriginMismatch);
    assert_contains(
        &refused.err,
        &["dvd/dists/bookworm/Release is not signed", "most media", "--mirror given twice", "--key"],
    );
    // Another place that has the signature will do.
    write(&site.path("mirror"), &files);
    let more = ["socat", "--mirror", "main=./dvd", "--mirror", "main=./mirror", "--mirror", "security=./none"];
    let ended = resolve(site, "debian-12", &more).must(ExitCode::OriginMissing);
    assert_contains(&ended.err, &["repository bookworm-security", "repository bookworm-updates"]);
    assert!(!ended.err.contains("repository bookworm:"), "the mirror has it signed: {}", ended.err);
}

#[test]
fn a_link_that_leads_out_of_a_disc_is_not_followed() {
    let mut mirrors = Mirrors::new();
    mirrors.suite("dvd", "bookworm", &(socat() + &deb("new", "1", "")));
    write(&mirrors.site.path("."), &mirrors.files);
    let site = &mirrors.site;
    resolve(site, "debian-12", &["new", "--mirror", "./dvd"]).must(ExitCode::Ok);
    let old = site.path("dvd/dists/bookworm");
    std::fs::remove_dir_all(&old).unwrap();
    symlink("/etc", &old).unwrap();
    let ended = resolve(site, "debian-12", &["new", "--mirror", "./dvd"]).must(ExitCode::OriginMissing);
    assert_contains(&ended.err, &["dvd has no repository of debian-12"]);
}

fn packages(lock: &Lock) -> Vec<&LockItem> {
    lock.items.iter().filter(|item| matches!(item.key, ArtifactKey::Package { .. })).collect()
}

/// The zone leads one host into a folder.
fn zone(lab: &Lab, host: &str, folder: &Path) {
    let path = lab.site.path("zone.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let rest: String = text.lines().filter(|line| !line.contains(host)).map(|line| format!("{line}\n")).collect();
    let rule = format!("- {{match: {host}, to: [\"file://{}\"], only: true}}\n", folder.display());
    std::fs::write(path, rest + &rule).unwrap();
}

#[test]
fn a_lock_of_a_medium_has_the_public_addresses_and_is_built_wherever_the_medium_is_mounted() {
    let lab = Lab::of(&SPEC.replace("exclude: [helm]", "os: [kylin-v10-sp3], exclude: [helm]"), body);
    let (made, here, there) = (lab.site.path("made-rpms"), lab.site.path("mnt/one"), lab.site.path("mnt/two"));
    repository(&made, "kylin-v10-sp3");
    std::fs::create_dir_all(lab.site.path("mnt")).unwrap();
    std::fs::rename(made.join("repo"), &here).unwrap();
    zone(&lab, "update.cs2c.com.cn", &here);
    let locked = lab.site.run(&[&["lock", "-f", "cluster.yaml"], &SETUP[..]].concat()).must(ExitCode::Ok);
    assert_contains(&locked.err, &["kylin-v10-sp3: updates is not on"]);
    let text = std::fs::read_to_string(lab.site.path("cluster.lock.json")).unwrap();
    assert!(!text.contains("file:") && !text.contains("mnt/one"), "{text}");
    let lock = Lock::parse(text.as_bytes()).unwrap();
    let found = packages(&lock);
    assert!(found.len() > 5 && found.iter().all(|item| item.trust == Trust::PinnedSha256));
    let base = "https://update.cs2c.com.cn/NS/V10/V10SP3/os/adv/lic/base/x86_64/";
    assert!(found.iter().all(|item| item.sources.len() == 1 && item.sources[0].starts_with(base)), "{found:?}");

    std::fs::rename(&here, &there).unwrap();
    let absent = lab.site.build(&[&SETUP[..], &["--locked", "--cache", "cold"]].concat());
    assert_contains(
        &absent.must(ExitCode::OriginMissing).err,
        &["there is no folder", "mnt/one; mount the medium there"],
    );
    zone(&lab, "update.cs2c.com.cn", &there);
    lab.site.build(&[&SETUP[..], &["--locked", "--cache", "cold"]].concat()).must(ExitCode::Ok);
    lab.site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok);

    // Of other bytes than the lock has nothing is packed.
    let of = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("socat");
    let socat = std::fs::read_dir(&there).unwrap().map(|entry| entry.unwrap()).find(|entry| of(&entry.file_name()));
    let socat = socat.unwrap().path();
    let mut bytes = std::fs::read(&socat).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(socat, bytes).unwrap();
    let refused = lab.site.build(&[&SETUP[..], &["--locked", "--cache", "colder"]].concat());
    assert_contains(&refused.must(ExitCode::OriginMismatch).err, &["package/kylin-v10-sp3/socat", "sent other bytes"]);
}

#[test]
fn debians_own_mirror_in_a_folder_is_locked_and_built_without_asking_anybody_for_packages() {
    let site = packages_locked::Site::new("");
    let root = lab().join("packages");
    site.folder(&root);
    site.lock();
    let lock = site.read();
    let found = packages(&lock);
    assert!(found.len() > 5 && found.iter().all(|item| item.trust == Trust::Gpg), "{found:?}");
    assert!(found.iter().all(|item| item.sources.iter().all(|source| source.starts_with("https://deb.debian.org/"))));
    let mounted = site.lab.site.path("mounted");
    symlink(&root, &mounted).unwrap();
    site.folder(&mounted);
    site.build(&["--locked", "--cache", "cold"]).must(ExitCode::Ok);
    assert!(!site.lab.server.requests().iter().any(|one| one.path.contains("debian")), "somebody was asked");
    let checked = site.run(&["zone", "check", "--all"], &SETUP[4..]).must(ExitCode::Ok);
    assert_contains(
        &checked.out,
        &["ok   repository bookworm of debian-12 linux/amd64", "3 repositories of packages, 0 holes"],
    );
}
