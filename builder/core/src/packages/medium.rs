//! Repositories on media of this machine: where on one a vendor has pressed them, and which of them it has at all.

use std::path::PathBuf;

use kubexm_manifests::Zone;
use kubexm_manifests::os::{Profile, Profiles, Repository};
use kubexm_spec::{Arch, Family, Platform};
use kubexm_transport::FileCandidate;

use super::address::repository;
use crate::places::files;

/// Where something below a repository is asked for in a zone, in order; `rest` is empty, or begins with a slash. A folder may
/// be laid out as the vendor's media are, or as its mirrors.
pub(super) fn places(
    profile: &Profile,
    arch: Arch,
    repository: &Repository,
    rest: &str,
    zone: &Zone,
) -> Vec<FileCandidate> {
    let mut all = Vec::new();
    for place in files(zone, &format!("{}{rest}", repository.base(profile.family, arch))) {
        let as_pressed = pressed(repository, profile.family, arch, &place, rest);
        let sorted = sorted_otherwise(rest).filter(|_| profile.family == Family::Rpm);
        let otherwise = sorted.and_then(|rest| pressed(repository, profile.family, arch, &place, &rest));
        for place in as_pressed.into_iter().chain(otherwise).chain([place]) {
            if !all.contains(&place) {
                all.push(place);
            }
        }
    }
    all
}

/// `/Packages/s/socat-1.rpm` of `/Packages/socat-1.rpm`, and the other way round: some vendors sort their packages into folders by
/// their first letter on the web and not on their media.
fn sorted_otherwise(rest: &str) -> Option<String> {
    let (folder, name) = rest.rsplit_once('/').filter(|(_, name)| name.ends_with(".rpm"))?;
    let letter = name.chars().next()?.to_ascii_lowercase();
    match folder.rsplit_once('/').filter(|(_, last)| last.chars().eq([letter])) {
        Some((above, _)) => Some(format!("{above}/{name}")),
        None => Some(format!("{folder}/{letter}/{name}")),
    }
}

/// The same of a package by its own address, as a lock has it.
pub(crate) fn places_of(os: &str, platform: Platform, address: &str, zone: &Zone) -> Vec<FileCandidate> {
    let found = Profiles::embedded().all.get(os).and_then(|profile| {
        let repository = repository(profile, platform, address)?;
        let rest = address.strip_prefix(&repository.base(profile.family, platform.arch))?;
        Some(places(profile, platform.arch, repository, rest, zone))
    });
    found.unwrap_or_else(|| files(zone, address))
}

/// Where the vendor's media have it, if the place is on one and they have it.
pub(super) fn pressed(
    repository: &Repository,
    family: Family,
    arch: Arch,
    place: &FileCandidate,
    rest: &str,
) -> Option<FileCandidate> {
    let (root, folder) = (place.folder.as_ref()?, repository.on_media(family, arch)?);
    let slash = if folder.is_empty() { "" } else { "/" };
    Some(FileCandidate { url: format!("{root}{slash}{folder}{rest}"), ..place.clone() })
}

/// Whether a suite is at one of these places: a medium has a release, and none of what came after it.
pub(super) fn has_suite(bases: &[FileCandidate], suite: &str) -> bool {
    let has = |base: &FileCandidate| {
        let folder = base.below(&format!("dists/{suite}"));
        !base.is_local() || folder.below("InRelease").is_there() || folder.below("Release").is_there()
    };
    suite.ends_with('/') || bases.iter().any(has)
}

/// The folders, each once.
pub(super) fn folders(places: &[FileCandidate]) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = places.iter().filter_map(FileCandidate::local_folder).collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(os: &str, address: &str, to: &str) -> Vec<String> {
        let host = address.split_once("://").unwrap().1.split('/').next().unwrap();
        let zone = format!("name: x\nrules:\n- {{match: {host}, to: [\"{to}\"], only: true}}\n");
        let found = places_of(os, Platform::LINUX_AMD64, address, &Zone::parse(&zone).unwrap());
        found.into_iter().map(|place| place.url).collect()
    }

    #[test]
    fn a_package_is_looked_for_where_the_vendor_has_pressed_it_and_where_a_mirror_has_it() {
        let rocky = "https://dl.rockylinux.org/pub/rocky/9/AppStream/x86_64/os/Packages/s/socat-1.rpm";
        assert_eq!(
            places("rocky-9", rocky, "file:///mnt"),
            [
                "file:///mnt/AppStream/Packages/s/socat-1.rpm",
                "file:///mnt/AppStream/Packages/socat-1.rpm",
                "file:///mnt/pub/rocky/9/AppStream/x86_64/os/Packages/s/socat-1.rpm"
            ]
        );
        let rhel = "https://cdn.redhat.com/content/dist/rhel9/9/x86_64/baseos/os/Packages/Xaw3d-1.rpm";
        assert_eq!(places("rhel-9", rhel, "file:///mnt")[1], "file:///mnt/BaseOS/Packages/x/Xaw3d-1.rpm");
        let debian = "https://deb.debian.org/debian/pool/main/s/socat/socat_1_amd64.deb";
        assert_eq!(
            places("debian-12", debian, "file:///mnt"),
            [
                "file:///mnt/pool/main/s/socat/socat_1_amd64.deb",
                "file:///mnt/debian/pool/main/s/socat/socat_1_amd64.deb"
            ]
        );
        assert_eq!(
            places("debian-12", debian, "https://lan"),
            ["https://lan/debian/pool/main/s/socat/socat_1_amd64.deb"]
        );
    }

    #[test]
    fn every_distribution_that_presses_media_has_one_place_for_each_of_its_folders() {
        for profile in Profiles::embedded().all.values() {
            let on = |one: &Repository| one.on_media(profile.family, Arch::Amd64);
            let mut folders: Vec<String> = profile.repositories.iter().filter_map(on).collect();
            let count = folders.len();
            folders.sort();
            folders.dedup();
            assert!(count > 0 && folders.len() == count, "{}: {folders:?}", profile.name);
        }
    }
}
