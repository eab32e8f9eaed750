//! Operating system packages, from kubexm's repository.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kubexm_spec::{Digest, Family};
use serde::{Deserialize, Serialize};

use crate::kind::{AfterReset, Needs, OpKind, Scope, State};
use crate::place::Place;
use crate::touch::{Thing, Touch};

/// Packages of the operating system, as a repository of our own has them: apt, dnf or yum installs exactly these
/// versions from that repository and from no other. An installed package that is newer is enough; none is ever made
/// older.
///
/// The repository's signed metadata and our source file are [`super::File`] ops, and its packages [`super::Blobs`], all
/// earlier in the same or an ancestor step; the links from the repository to the store's blobs are this op's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Packages {
    /// Which programs install them.
    pub family: Family,
    /// Absolute folder of the repository: `/var/lib/kubexm/repos/debian-12-amd64`.
    pub repository: String,
    /// Absolute path of our own source file: `<repository>/kubexm.list` or `<repository>/kubexm.repo` (whose repository is
    /// called `kubexm`).
    pub source: String,
    /// What comes or is upgraded on this host, by name.
    pub packages: BTreeMap<String, WantedPackage>,
    /// What leaves for their sake, as the bundle carries it: it is put back on the rollback. Nothing else ever leaves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replaced: BTreeMap<String, WantedPackage>,
}

/// One package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WantedPackage {
    /// With epoch and revision, as the family writes it.
    pub version: String,
    /// In the distribution's own words: `amd64`, `noarch`.
    pub arch: String,
    /// Its file below the repository: `socat_1.7.4.4-2_amd64.deb`.
    pub file: String,
    /// Blob of the node's content store.
    pub blob: Digest,
    /// It takes the place of an older version, to which there is no rollback.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub upgrade: bool,
}

/// Seconds in which somebody else may hold the package manager, and in which it reads its lists.
const BESIDE: u64 = 900;
/// Seconds that one package may take: unpacked and configured on a slow disk.
const EACH: u64 = 15;

impl Packages {
    /// Seconds that a step with this op may take, and that what works for it may continue when nobody waits for it any more.
    pub fn limit_s(&self) -> u64 {
        BESIDE + EACH * u64::try_from(self.packages.len()).unwrap_or(u64::MAX / EACH / 2)
    }

    /// Every file of the repository that is a link of this op, with the blob it leads to.
    pub fn links(&self) -> impl Iterator<Item = (String, Digest)> {
        let all = self.packages.values().chain(self.replaced.values());
        all.map(|package| (format!("{}/{}", self.repository, package.file), package.blob))
    }

    /// What is upgraded, by name.
    pub fn upgrades(&self) -> impl Iterator<Item = &str> {
        self.packages.iter().filter(|(_, package)| package.upgrade).map(|(name, _)| name.as_str())
    }
}

/// What was found of packages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackagesState {
    /// State of each package of the op, by name.
    pub packages: BTreeMap<String, PackageState>,
    /// Units of what will be replaced that ran or were enabled.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, UnitWas>,
    /// Where the repository's links go.
    pub links: Vec<Place>,
    /// Keys that rpm trusted.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub keys: BTreeSet<String>,
    /// A kill left it in the middle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
}

/// How a package is on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase", deny_unknown_fields)]
pub enum PackageState {
    /// It is not there.
    Absent,
    /// It was removed, and its configuration was left.
    Configuration,
    /// It is there.
    Installed {
        /// Which.
        version: String,
        /// Unpacked and set up.
        whole: bool,
    },
}

impl PackageState {
    /// Whether it is there, whole or not.
    pub const fn is_installed(&self) -> bool {
        matches!(self, Self::Installed { .. })
    }
}

/// How a unit of a package was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnitWas {
    /// Started at boot.
    pub enabled: bool,
    /// Running.
    pub active: bool,
}

impl OpKind for Packages {
    type State = PackagesState;

    fn touches(&self) -> Vec<Touch> {
        let installed = self.packages.iter().map(|(name, one)| (name, one.version.as_str()));
        let replaced = self.replaced.keys().map(|name| (name, "replaced"));
        let packages = installed.chain(replaced).map(|(name, value)| Touch::sets(Thing::Package(name.clone()), value));
        let links = self.links().map(|(path, blob)| Touch::file(path, format!("link {blob}")).shared());
        std::iter::once(Touch::changes(Thing::PackageManager)).chain(packages).chain(links).collect()
    }

    fn needs(&self) -> Needs<'_> {
        let all = self.packages.values().chain(self.replaced.values());
        Needs {
            blobs: all.map(|package| package.blob).collect(),
            things: vec![Thing::Path(self.source.clone())],
            ..Needs::nothing()
        }
    }

    fn scope(&self) -> Scope {
        Scope::Host
    }

    fn after_reset(&self) -> AfterReset {
        AfterReset::RestoredAndMade
    }
}

impl fmt::Display for Packages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packages from {}", self.repository)?;
        for (name, package) in &self.packages {
            let how = if package.upgrade { " (an upgrade)" } else { "" };
            write!(f, "\n    {name} {} {}{how}", package.version, package.arch)?;
        }
        self.replaced.keys().try_for_each(|name| write!(f, "\n    replaces {name}"))
    }
}

impl State for PackagesState {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&Place> {
        self.links.iter().collect()
    }

    fn is_back(&self, then: &Self) -> Option<bool> {
        Some(self.packages == then.packages)
    }
}
