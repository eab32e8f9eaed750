//! Packages of a lock: the sources of each, and whether the lock fits what is needed. Needs no network.

use std::collections::BTreeSet;

use kubexm_manifests::os::Profiles;
use kubexm_manifests::requirements::{PackageNeed, Source};
use kubexm_manifests::{PACKAGE_STAGE, Requirement, Requirements};
use kubexm_spec::lock::{Content, LockItem, PackageRoot, PackageSet};
use kubexm_spec::{ArtifactKey, Lock, Platform, Trust};

use super::address::{own_address, repository};
use crate::difference::{Difference, NEEDED, What, changed, of};
use crate::error::trusted;

/// What only the lock knows of: one package. Its own address is among its sources, whatever zone the lock was made in; one that
/// lacks it has none.
pub(crate) fn needed(item: &LockItem, lock: &Lock) -> Option<Requirement> {
    let (ArtifactKey::Package { os, name }, Some(platform)) = (&item.key, item.platform) else { return None };
    let Content::File { file_name, digest, size } = &item.content else { return None };
    let set = set_of(lock, os, platform);
    Some(Requirement {
        key: item.key.clone(),
        platform: item.platform,
        version: item.version.clone(),
        because: set.and_then(|set| set.because.get(name)).cloned().unwrap_or_default(),
        role: None,
        optional: false,
        stage: PACKAGE_STAGE,
        trust: item.trust,
        source: Source::File {
            file_name: file_name.clone(),
            url: own_address(item, os, platform, file_name).unwrap_or_default(),
            sha256: Some(*digest),
            size: Some(*size),
            checksum_url: None,
        },
    })
}

/// Why a package is in a lock, from itself to what was asked for, a reason each: "socat Depends libwrap0 (>= 7.6-4~)",
/// "wanted by socat".
pub(crate) fn chain(item: &LockItem, lock: &Lock) -> Vec<String> {
    let (ArtifactKey::Package { os, name }, Some(platform)) = (&item.key, item.platform) else { return Vec::new() };
    let Some(set) = set_of(lock, os, platform) else { return Vec::new() };
    let (mut all, mut seen, mut name) = (Vec::new(), BTreeSet::new(), name.as_str());
    // A lock that somebody has written may go round.
    while let Some(why) = set.because.get(name).filter(|_| seen.insert(name)) {
        all.push(why.clone());
        match why.split_once(" Depends ").or_else(|| why.split_once(" Requires ")) {
            Some((by, _)) => name = by,
            None => break,
        }
    }
    all
}

/// What is asked for, as keys; packages that these need are not among them.
pub(crate) fn roots(requirements: &Requirements) -> Vec<ArtifactKey> {
    let of = |need: &PackageNeed| -> Vec<ArtifactKey> {
        let key = |name: &str| ArtifactKey::Package { os: need.os.clone(), name: name.to_owned() };
        need.names().into_iter().map(key).collect()
    };
    let mut all: Vec<ArtifactKey> = requirements.packages.iter().flat_map(of).collect();
    all.sort();
    all.dedup();
    all
}

pub(crate) fn set_of<'a>(lock: &'a Lock, os: &str, platform: Platform) -> Option<&'a PackageSet> {
    lock.packages.iter().find(|set| set.os == os && set.platform == platform)
}

/// Names of packages that nothing vouches for but the lock itself, as far as it says so.
pub(crate) fn unsigned(lock: &Lock) -> Vec<String> {
    let is = |item: &&LockItem| matches!(item.key, ArtifactKey::Package { .. }) && item.trust == Trust::PinnedSha256;
    lock.items.iter().filter(is).map(LockItem::name).collect()
}

/// Every difference between the packages of a lock and what is needed now.
pub(crate) fn drift(requirements: &Requirements, lock: &Lock) -> Vec<Difference> {
    let mut all = Vec::new();
    for need in &requirements.packages {
        match set_of(lock, &need.os, need.platform) {
            None => all.push(whole("", &format!("{} {}", need.os, need.platform))),
            Some(set) => all.extend(other_roots(need, set).into_iter().chain(indexes(set))),
        }
    }
    for set in &lock.packages {
        if !requirements.packages.iter().any(|need| need.os == set.os && need.platform == set.platform) {
            all.push(whole(&format!("{} {}", set.os, set.platform), ""));
        } else {
            all.extend(items(set, lock));
        }
    }
    for item in &lock.items {
        let ArtifactKey::Package { os, name } = &item.key else { continue };
        let set = item.platform.and_then(|platform| set_of(lock, os, platform));
        if !set.is_some_and(|set| set.because.contains_key(name)) {
            all.push(of(&item.key, item.platform, What::NotNeeded { locked: item.version.clone() }));
        } else if let Some(strange) = set.and_then(|set| strange(item, set)) {
            all.push(strange);
        } else if let Some(trust) = trust(item).filter(|trust| *trust != item.trust) {
            all.push(changed(item, "trust", item.trust.to_string(), trust.to_string(), "the repository gives"));
        }
    }
    all
}

/// A package that none of its release's repositories has: no origin could prove that the vendor signed it.
fn strange(item: &LockItem, set: &PackageSet) -> Option<Difference> {
    let (Content::File { file_name, .. }, Some(platform)) = (&item.content, item.platform) else { return None };
    let profile = Profiles::embedded().all.get(&set.os)?;
    let why = format!("{}{}", set.os, trusted(profile.family));
    let of = |address: &str| repository(profile, platform, address).map(|one| &one.name);
    let Some(own) = own_address(item, &set.os, platform, file_name) else {
        let shown: Vec<String> = item.sources.iter().map(|source| crate::places::shown(source)).collect();
        let by = format!("its trust ({}) needs one below a repository of", item.trust);
        return Some(changed(item, "address", shown.join(" "), why, by));
    };
    let is_listed = set.indexes.iter().any(|index| of(&index.address) == of(&own));
    (!is_listed).then(|| changed(item, "index", "", why, "its trust needs that of its repository, of"))
}

/// Indexes that are of no repository of the release, or are said to be signed otherwise than its vendor signs them: packages are
/// trusted by them.
fn indexes(set: &PackageSet) -> Vec<Difference> {
    let Some(profile) = Profiles::embedded().all.get(&set.os) else { return Vec::new() };
    let mut all = Vec::new();
    for index in &set.indexes {
        let mut reported = |field, locked: &str, now: &str| {
            let by = format!("the profile of {} has", set.os).into();
            let what = What::Changed { field, locked: locked.to_owned(), now: now.to_owned(), by };
            all.push(Difference { key: None, platform: Some(set.platform), what });
        };
        match repository(profile, set.platform, &index.address) {
            None => {
                let bases = profile.repositories.iter().map(|one| one.base(profile.family, set.platform.arch));
                let bases: Vec<String> = bases.collect();
                reported("index", &crate::places::shown(&index.address), &bases.join(" "));
            }
            Some(known) if index.signed == known.trust.metadata.is_empty() => {
                let word = |signed: bool| if signed { "a signed one" } else { "an unsigned one" };
                reported("index", &format!("{}, {}", index.repository, word(index.signed)), word(!index.signed));
            }
            Some(_) => {}
        }
    }
    all
}

/// By what a package's repository lets it be trusted; none where it is of none, which is reported about its sources.
fn trust(item: &LockItem) -> Option<Trust> {
    let (ArtifactKey::Package { os, .. }, Some(platform)) = (&item.key, item.platform) else { return None };
    let Content::File { file_name, .. } = &item.content else { return None };
    let own = own_address(item, os, platform, file_name)?;
    let repository = repository(Profiles::embedded().all.get(os)?, platform, &own)?;
    Some(if repository.trust.pinned_only() { Trust::PinnedSha256 } else { Trust::Gpg })
}

fn whole(locked: &str, now: &str) -> Difference {
    let what =
        What::Changed { field: "packages of", locked: locked.to_owned(), now: now.to_owned(), by: NEEDED.into() };
    Difference { key: None, platform: None, what }
}

fn other_roots(need: &PackageNeed, set: &PackageSet) -> Vec<Difference> {
    let reported = |root: &PackageRoot| {
        let mut text = format!("{} of nodes with {}", root.packages.join(" "), root.commands.join(" "));
        if root.commands.is_empty() {
            text = root.packages.join(" ");
        }
        if !root.replaces.is_empty() {
            text += &format!(" in place of {}", root.replaces.join(" "));
        }
        text
    };
    let key = |root: &PackageRoot| ArtifactKey::Package {
        os: need.os.clone(),
        name: root.packages.first().unwrap_or(&root.name).clone(),
    };
    let of_root = |root: &PackageRoot, locked: String, now: String| {
        of(&key(root), Some(need.platform), What::Changed { field: "root", locked, now, by: NEEDED.into() })
    };
    let same = |one: &PackageRoot, other: &PackageRoot| one.name == other.name && one.role == other.role;
    let mut all = Vec::new();
    for root in &need.roots {
        match set.roots.iter().find(|other| same(root, other)) {
            Some(other) if other == root => {}
            Some(other) => all.push(of_root(root, reported(other), reported(root))),
            None => all.push(of_root(root, String::new(), reported(root))),
        }
    }
    for root in set.roots.iter().filter(|root| !need.roots.iter().any(|other| same(root, other))) {
        all.push(of_root(root, reported(root), String::new()));
    }
    all
}

/// Packages that a set lists and that are missing in the lock.
fn items(set: &PackageSet, lock: &Lock) -> Vec<Difference> {
    let key = |name: &String| ArtifactKey::Package { os: set.os.clone(), name: name.clone() };
    let keys = set.because.keys().map(key);
    let lacking = keys.filter(|key| lock.find(key, Some(set.platform)).is_none());
    lacking.map(|key| of(&key, Some(set.platform), What::NotLocked { needed: String::new() })).collect()
}
