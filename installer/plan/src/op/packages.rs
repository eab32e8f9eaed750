//! Packages of the operating system.

use std::collections::BTreeMap;

use kubexm_spec::{Digest, Family};
use serde::{Deserialize, Serialize};

/// Packages of the operating system, as a repository of our own has them: apt, dnf or yum installs these very versions from
/// that repository and from no other. An installed package that is newer is enough; none is ever made older.
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
    /// What leaves for their sake, as the bundle carries it: it is put back on the way back. Nothing else ever leaves.
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
    /// It takes the place of an older version, to which there is no way back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub upgrade: bool,
}

/// Seconds in which somebody else may hold the package manager, and in which it reads its lists.
const BESIDE: u64 = 900;
/// Seconds that one package may take: unpacked and configured on a slow disk.
const EACH: u64 = 15;

impl Packages {
    /// Seconds that a step with this op may take, and that what works for it may go on when nobody waits for it any more.
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
