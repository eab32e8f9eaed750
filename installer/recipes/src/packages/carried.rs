//! The packages in a bundle, as recipes see them.

use kubexm_manifests::os::{Profile, Profiles};
use kubexm_packages::model::Package;
use kubexm_packages::solve::Pool;
use kubexm_plan::Facts;
use kubexm_spec::lock::PackageSet;
use kubexm_spec::{Family, Platform};

/// All packages in a bundle.
#[derive(Debug, Default)]
pub struct CarriedPackages {
    /// In the order of the lock.
    pub sets: Vec<CarriedSet>,
}

/// For a bundle without packages.
pub static NO_PACKAGES: CarriedPackages = CarriedPackages { sets: Vec::new() };

/// The packages of one operating system and platform.
#[derive(Debug)]
pub struct CarriedSet {
    /// Its entry in the lock.
    pub set: PackageSet,
    /// The profile of the operating system.
    pub profile: &'static Profile,
    /// Metadata of each package; its location is the file name in the repository. Empty until a host is known to need
    /// packages.
    pub pool: Pool,
    /// All files of its repository except the packages: signed metadata, keys, and the apt or dnf source file. Empty
    /// until a host is known to need packages.
    pub repository: Vec<RepositoryFile>,
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryFile {
    /// Below the repository's folder: `InRelease`, `repodata/repomd.xml`.
    pub path: String,
    /// Its content.
    pub text: String,
}

impl CarriedPackages {
    /// From a lock, before any package was read. An operating system that this program does not know is left out: no
    /// host with it is supported.
    pub fn unread(sets: &[PackageSet]) -> Self {
        let sets = sets.iter().filter_map(|set| {
            let profile = Profiles::embedded().get(&set.os).ok()?;
            let pool = Pool::new(profile.family, profile.family.arch(set.platform.arch), Vec::new(), Vec::new());
            Some(CarriedSet { set: set.clone(), profile, pool, repository: Vec::new() })
        });
        Self { sets: sets.collect() }
    }

    /// The set of an operating system.
    pub fn find(&self, os: &str, platform: Platform) -> Option<&CarriedSet> {
        self.sets.iter().find(|carried| carried.set.os == os && carried.set.platform == platform)
    }

    /// The set for a host's operating system.
    pub fn of_system(&self, facts: &Facts) -> Option<&CarriedSet> {
        self.find(&profile(facts)?.name, Platform { arch: facts.arch? })
    }

    /// List for people: `debian-12 (linux/amd64), rocky-9 (linux/amd64)`.
    pub fn describe(&self) -> String {
        let each = self.sets.iter().map(|carried| format!("{} ({})", carried.set.os, carried.set.platform));
        each.collect::<Vec<_>>().join(", ")
    }
}

impl CarriedSet {
    /// A package by name. A set has one version of each.
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.pool.candidate(name).map(|id| self.pool.package(id))
    }
}

/// A host's operating system for people: `rocky-9`, or what it says of itself.
pub(super) fn system_name(facts: &Facts) -> String {
    profile(facts).map_or_else(|| format!("{} {}", facts.os_id, facts.os_version), |one| one.name.clone())
}

/// The operating system of a host, by its name in the table of profiles.
pub(crate) fn profile(facts: &Facts) -> Option<&'static Profile> {
    Profiles::embedded().of_host(&facts.os_id, &facts.os_version, &facts.os_edition)
}

/// The family of a host's distribution: by the table of profiles, else by its package manager.
pub(crate) fn family(facts: &Facts) -> Option<Family> {
    profile(facts).map(|profile| profile.family).or(facts.packages.as_ref().map(|list| list.family))
}
