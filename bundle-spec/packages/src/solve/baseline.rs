//! What a host has installed already.

use kubexm_spec::Digest;

use crate::model::{Deferred, MultiArch, Package, Provide, RepoId};

/// A package that is installed: what dpkg's status or rpm's database say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// `iptables`.
    pub name: Box<str>,
    /// As the family writes it.
    pub version: Box<str>,
    /// `amd64`, `all`, `noarch`.
    pub arch: Box<str>,
    /// What it is besides its own name.
    pub provides: Vec<Provide>,
    /// Its paths, as far as they are known and wanted.
    pub files: Vec<Box<str>>,
    /// Debian's `Multi-Arch`.
    pub multi_arch: MultiArch,
    /// What it needs and what it cannot stand.
    pub relations: Deferred,
}

/// All that a host has installed. Nothing of it is ever removed or made older.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// In any order.
    pub packages: Vec<Installed>,
}

impl Baseline {
    /// Of a host that has nothing: the closure is self-sufficient.
    pub fn empty() -> Self {
        Self::default()
    }
}

impl Installed {
    /// As a package of the same shape; it is in no repository and has no file.
    pub(super) fn into_package(self) -> Package {
        Package {
            name: self.name,
            version: self.version,
            arch: self.arch,
            repo: RepoId(u16::MAX),
            location: "".into(),
            size: 0,
            digest: Digest::from_bytes([0; 32]),
            installed_size: 0,
            provides: self.provides,
            files: self.files,
            multi_arch: self.multi_arch,
            module: None,
            essential: false,
            priority: 3,
            relations: self.relations,
        }
    }
}

impl From<Package> for Installed {
    fn from(package: Package) -> Self {
        let Package { name, version, arch, provides, files, multi_arch, relations, .. } = package;
        Self { name, version, arch, provides, files, multi_arch, relations }
    }
}
