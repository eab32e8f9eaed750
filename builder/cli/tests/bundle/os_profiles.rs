//! The profiles of operating systems against what distributions really sign and have: the snapshots that `scripts/lab packages` keeps.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use kubexm_manifests::os::{Profile, Profiles, RootRole};
use kubexm_packages::trust::{Keyring, Policy, clearsigned};
use kubexm_spec::{Arch, ExitCode, Family};

use crate::materials::lab;

fn snapshots() -> PathBuf {
    let folder = lab().join("packages");
    assert!(folder.join("now").exists(), "there are no snapshots of indexes; make them with scripts/lab packages");
    folder
}

/// The folders of a profile's suites in the snapshot.
fn suites(profile: &Profile) -> Vec<(&kubexm_manifests::os::Repository, PathBuf)> {
    let packages = snapshots();
    let of = |repository: &kubexm_manifests::os::Repository, suite: &String| {
        let host_folder = repository.url.rsplit('/').next().unwrap();
        packages.join(host_folder).join("dists").join(suite)
    };
    (profile.repositories.iter())
        .flat_map(|repository| repository.suites.iter().map(move |suite| (repository, of(repository, suite))))
        .filter(|(_, folder)| folder.exists())
        .collect()
}

fn keyring(fingerprints: &[String]) -> Keyring {
    let keys = Profiles::embedded().certificates(fingerprints);
    let armored: String = keys.iter().map(|key| format!("{}\n", key.armored.trim())).collect();
    Keyring::read(armored.as_bytes()).and_then(|keys| keys.pinned(fingerprints)).unwrap()
}

#[test]
fn every_key_is_what_its_fingerprint_says_and_somebody_signs_with_it() {
    let profiles = Profiles::read().unwrap();
    let mut used = BTreeSet::new();
    for profile in profiles.all.values() {
        for trust in profile.repositories.iter().map(|repository| &repository.trust) {
            let fingerprints: Vec<String> = trust.metadata.iter().chain(&trust.packages).cloned().collect();
            if !trust.pinned_only() {
                keyring(&fingerprints);
            }
            used.extend(fingerprints);
        }
    }
    for key in &profiles.keys {
        let keys = Keyring::read(key.armored.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", key.file));
        assert_eq!(keys.fingerprints(), std::slice::from_ref(&key.fingerprint), "{}", key.file);
        assert_eq!(keys.certificates()[0].owner(), key.owner, "{}", key.file);
    }
    assert_eq!(used, profiles.keys.iter().map(|key| key.fingerprint.clone()).collect());
}

#[test]
fn profiles_refer_only_to_existing_roots_keys_and_repositories() {
    let profiles = Profiles::embedded();
    let roots: BTreeSet<&str> = profiles.roots.iter().map(|root| root.name.as_str()).collect();
    for (name, profile) in &profiles.all {
        for root in profile.names.keys() {
            assert!(roots.contains(root.as_str()), "{name} calls {root} otherwise, and nobody needs it");
        }
        let names: BTreeSet<&str> = profile.repositories.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names.len(), profile.repositories.len(), "{name}: two repositories of one name");
        for repository in &profile.repositories {
            assert_eq!(repository.suites.is_empty(), profile.family == Family::Rpm, "{name} {}", repository.name);
            for arch in &profile.archs {
                let base = repository.base(profile.family, *arch);
                assert!(base.starts_with("http") && !base.contains(['{', '}']), "{name}: {base}");
            }
        }
        let needed = profile.root_names(&profiles.roots, &RootRole::ALL);
        assert!(needed.len() >= 14 && !needed.iter().any(String::is_empty), "{name}: {needed:?}");
    }
    let error = profiles.get("debain-12").unwrap_err();
    assert_eq!((error.near[0].as_str(), error.exit_code()), ("debian-12", ExitCode::UnknownVersion));
}

#[test]
fn hosts_are_distinguished_by_service_pack() {
    let profiles = Profiles::embedded();
    for (id, version_id, version, name) in [
        ("debian", "12", "12 (bookworm)", Some("debian-12")),
        ("rocky", "9.4", "9.4 (Blue Onyx)", Some("rocky-9")),
        ("openEuler", "22.03", "22.03 LTS", Some("openeuler-22.03")),
        ("openEuler", "22.03", "22.03 (LTS-SP3)", Some("openeuler-22.03-sp3")),
        ("openEuler", "24.03", "24.03 (LTS)", Some("openeuler-24.03")),
        ("openEuler", "24.03", "24.03 (LTS-SP2)", Some("openeuler-24.03-sp2")),
        ("kylin", "V10", "release V10 (SP2) /(Sword)-x86_64-Build09/20210524", Some("kylin-v10-sp2")),
        ("kylin", "V10", "V10", None),
        ("debian", "14", "14", None),
    ] {
        let found = profiles.of_host(id, version_id, version).map(|profile| profile.name.as_str());
        assert_eq!(found, name, "{id} {version}");
    }
}

#[test]
fn what_distributions_sign_is_trusted_by_the_pinned_keys_and_by_no_others() {
    let now: i64 = std::fs::read_to_string(snapshots().join("now")).unwrap().trim().parse().unwrap();
    let mut seen = 0;
    for profile in Profiles::embedded().all.values() {
        for (repository, folder) in suites(profile) {
            let document = std::fs::read(folder.join("InRelease")).unwrap();
            let keys = keyring(&repository.trust.metadata);
            let (text, signer) = clearsigned(&document, &keys, &Policy::at(now))
                .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            assert!(text.contains("\nSHA256:\n"), "{}", folder.display());
            assert!(repository.trust.metadata.contains(&signer.fingerprint));
            // Rocky's key has signed nothing of Debian's.
            let others = keyring(&["21CB256AE16FC54C6E652949702D426D350D275D".to_owned()]);
            assert!(clearsigned(&document, &others, &Policy::at(now)).is_err(), "{}", folder.display());
            seen += 1;
        }
    }
    assert_eq!(seen, 12, "suites of debian-12, debian-13, ubuntu-22.04 and ubuntu-24.04");
}

#[test]
fn every_root_package_is_in_the_index_of_its_distribution() {
    let profiles = Profiles::embedded();
    // Compared with their indexes by hand, on 2026-11-22: the lab keeps none.
    let by_hand = ["debian-11", "ubuntu-20.04"];
    let mut checked = Vec::new();
    for (name, profile) in &profiles.all {
        // The suite itself has all names; what it updates has some of them again.
        let suites = suites(profile);
        let Some((repository, folder)) = suites.first() else {
            assert!(!profile.verified || by_hand.contains(&name.as_str()), "{name} says that it was verified");
            continue;
        };
        for arch in profile.archs.iter().filter(|arch| folder.join(index("main", **arch)).exists()) {
            let mut missing: BTreeSet<String> =
                profile.root_names(&profiles.roots, &RootRole::ALL).into_iter().collect();
            for component in &repository.components {
                for package in names(&folder.join(index(component, *arch))) {
                    missing.remove(&package);
                }
            }
            assert!(missing.is_empty(), "{name} {arch} has no {missing:?}");
            checked.push(format!("{name} {arch}"));
        }
        assert!(profile.verified, "{name} was verified just now");
    }
    let wanted = ["debian-12 amd64", "debian-12 arm64", "debian-13 amd64", "debian-13 arm64"];
    assert_eq!(checked, [&wanted[..], &["ubuntu-22.04 amd64", "ubuntu-24.04 amd64"]].concat());
}

fn index(component: &str, arch: Arch) -> String {
    format!("{component}/binary-{}/Packages.xz", Family::Deb.arch(arch))
}

/// Names of the packages of an index.
fn names(index: &Path) -> Vec<String> {
    let output =
        Command::new("sh").args(["-c", "xz -dc \"$1\" | grep '^Package: '", "sh"]).arg(index).output().unwrap();
    assert!(output.status.success(), "{}", index.display());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("Package: ")).map(str::to_owned).collect()
}
