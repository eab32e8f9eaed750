//! What a bundle carries of packages, as recipes look at it.

use kubexm_manifests::os::{Profile, Profiles};
use kubexm_packages::model::Package;
use kubexm_packages::solve::Pool;
use kubexm_plan::Facts;
use kubexm_spec::lock::PackageSet;
use kubexm_spec::{Family, Platform};

/// All that a bundle carries of packages.
#[derive(Debug, Default)]
pub struct CarriedPackages {
    /// In the order of the lock.
    pub sets: Vec<CarriedSet>,
}

/// Nothing: of a bundle without packages.
pub static NO_PACKAGES: CarriedPackages = CarriedPackages { sets: Vec::new() };

/// The packages of one operating system and platform.
#[derive(Debug)]
pub struct CarriedSet {
    /// What the lock says of it.
    pub set: PackageSet,
    /// Of the operating system.
    pub profile: &'static Profile,
    /// What each carried package says of itself; its location is the file's name in the repository. Empty until a host is known
    /// that lacks something.
    pub pool: Pool,
    /// Files of its repository besides the packages: signed metadata, keys, and the source file that names it. Empty until a host
    /// is known that gets something.
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
    /// Of a lock, before any package was read. A system that this program does not know is left out: no host is one.
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

    /// What there is, for people: `debian-12 (linux/amd64), rocky-9 (linux/amd64)`.
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

/// The operating system of a host, as the table of profiles calls it.
pub(crate) fn profile(facts: &Facts) -> Option<&'static Profile> {
    Profiles::embedded().of_host(&facts.os_id, &facts.os_version, &facts.os_edition)
}

/// The family of a host's system: by the table of profiles, else by who keeps its packages.
pub(crate) fn family(facts: &Facts) -> Option<Family> {
    profile(facts).map(|profile| profile.family).or(facts.packages.as_ref().map(|list| list.family))
}
