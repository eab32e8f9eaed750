//! Operating system packages, from kubexm's repository.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kubexm_spec::{Digest, Family};
use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// Packages of the operating system: apt, dnf or yum installs exactly these versions from kubexm's repository and from
/// no other. A newer installed package is sufficient; none is downgraded.
///
/// The repository's signed metadata and its source file are [`super::File`] ops, and its packages [`super::Blobs`], all
/// earlier in the same or an ancestor step. The links from the repository to the store's blobs are made by this op.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Packages {
    /// The package manager's family.
    pub family: Family,
    /// Absolute folder of the repository: `/var/lib/kubexm/repos/debian-12-amd64`.
    pub repository: String,
    /// Absolute path of kubexm's source file: `<repository>/kubexm.list` or `<repository>/kubexm.repo` (whose
    /// repository id is `kubexm`).
    pub source: String,
    /// Packages to install or upgrade on this host, by name.
    pub packages: BTreeMap<String, WantedPackage>,
    /// Packages that these replace, with the bundle's version, which a rollback installs. No other package is removed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replaced: BTreeMap<String, WantedPackage>,
}

/// One package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WantedPackage {
    /// With epoch and revision, in the family's format.
    pub version: String,
    /// In the distribution's naming: `amd64`, `noarch`.
    pub arch: String,
    /// Its file below the repository: `socat_1.7.4.4-2_amd64.deb`.
    pub file: String,
    /// Blob of the node's content store.
    pub blob: Digest,
    /// Whether it replaces an older version, which a rollback cannot restore.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub upgrade: bool,
}

/// Seconds to wait while another program holds the package manager, and for reading its lists.
const BESIDE: u64 = 900;
/// Seconds for each package: unpacked and configured on a slow disk.
const EACH: u64 = 15;

impl Packages {
    /// Timeout of the step in seconds; also the limit for the package manager when nobody waits for it any more.
    pub fn limit_s(&self) -> u64 {
        BESIDE + EACH * u64::try_from(self.packages.len()).unwrap_or(u64::MAX / EACH / 2)
    }

    /// Every link in the repository that this op makes, with the blob it points to.
    pub fn links(&self) -> impl Iterator<Item = (String, Digest)> {
        let all = self.packages.values().chain(self.replaced.values());
        all.map(|package| (format!("{}/{}", self.repository, package.file), package.blob))
    }

    /// Packages that are upgraded, by name.
    pub fn upgrades(&self) -> impl Iterator<Item = &str> {
        self.packages.iter().filter(|(_, package)| package.upgrade).map(|(name, _)| name.as_str())
    }
}

/// The observed state of the packages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackagesState {
    /// State of each package of the op, by name.
    pub packages: BTreeMap<String, PackageState>,
    /// Units of packages to be replaced that were running or enabled.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, UnitWas>,
    /// The repository's links.
    pub links: Vec<PathState>,
    /// Keys that rpm trusts.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub keys: BTreeSet<String>,
    /// Whether an earlier installation was interrupted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
}

/// The state of a package on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase", deny_unknown_fields)]
pub enum PackageState {
    /// Not installed.
    Absent,
    /// Removed, with its configuration left behind.
    Configuration,
    /// Installed.
    Installed {
        /// The installed version.
        version: String,
        /// Whether it is unpacked and configured.
        whole: bool,
    },
}

impl PackageState {
    /// Whether it is installed, completely or not.
    pub const fn is_installed(&self) -> bool {
        matches!(self, Self::Installed { .. })
    }
}

/// The state of a unit of a package.
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

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let installed = self.packages.iter().map(|(name, one)| (name, one.version.as_str()));
        let replaced = self.replaced.keys().map(|name| (name, "replaced"));
        let packages =
            installed.chain(replaced).map(|(name, value)| ResourceChange::sets(Resource::Package(name.clone()), value));
        let links = self.links().map(|(path, blob)| ResourceChange::file(path, format!("link {blob}")).shared());
        std::iter::once(ResourceChange::unknown(Resource::PackageManager)).chain(packages).chain(links).collect()
    }

    fn needs(&self) -> Needs<'_> {
        let all = self.packages.values().chain(self.replaced.values());
        Needs {
            blobs: all.map(|package| package.blob).collect(),
            resources: vec![Resource::Path(self.source.clone())],
            ..Needs::nothing()
        }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::RestoredAndMade
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

    fn places(&self) -> Vec<&PathState> {
        self.links.iter().collect()
    }

    fn is_back(&self, then: &Self) -> Option<bool> {
        Some(self.packages == then.packages)
    }
}
