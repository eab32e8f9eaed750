//! What is known of an operating system's packages: its repositories, their signing keys, the packages that a node
//! needs.

use std::collections::BTreeMap;

use kubexm_spec::{Arch, Family};
use serde::{Deserialize, Serialize};

use super::roots::{Root, RootRole};

/// One operating system release, as `data/os/<name>.yaml` describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// `debian-12`; the file's name, and what `--os` takes.
    pub name: String,
    /// `ID` of os-release(5).
    pub id: String,
    /// `VERSION_ID` of os-release(5), or its leading parts.
    pub version_id: String,
    /// A word of `VERSION` of os-release(5), or of `/etc/.productinfo` (Kylin), where service packs share a `VERSION_ID`:
    /// `LTS-SP3`.
    #[serde(default)]
    pub edition: Option<String>,
    /// Of its packages.
    pub family: Family,
    /// Major and minor of its C library, `2.36`; none where it has no glibc, or it was not looked up.
    #[serde(default)]
    pub glibc: Option<String>,
    /// The architectures its repositories are kept for.
    pub archs: Vec<Arch>,
    /// All of them form one pool. None where only a user's own mirror is available.
    #[serde(default)]
    pub repositories: Vec<Repository>,
    /// What differs from the rest of its family.
    #[serde(default)]
    pub quirks: Quirks,
    /// Root packages that are named otherwise than in the family's table, by [`Root::name`]; an empty list: it has none.
    #[serde(default)]
    pub names: BTreeMap<String, Vec<String>>,
    /// The names were compared with an index of this release.
    #[serde(default)]
    pub verified: bool,
    /// What the table cannot express: what a user must provide, and why.
    #[serde(default)]
    pub note: Option<String>,
}

/// One repository of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repository {
    /// Short, its own within the profile: `main`, `security`, `appstream`. What `--mirror NAME=URL` takes.
    pub name: String,
    /// Base address, with `{arch}` for the family's word of the architecture ([`Family::arch`]).
    pub url: String,
    /// Addresses of single architectures that stand elsewhere (Ubuntu's ports), which come before `url`.
    #[serde(default)]
    pub urls: BTreeMap<Arch, String>,
    /// Debian's: below `dists/`. Empty for rpm.
    #[serde(default)]
    pub suites: Vec<String>,
    /// Debian's: `main`, `universe`. Empty for rpm, and for flat repositories (whose suites end in `/`).
    #[serde(default)]
    pub components: Vec<String>,
    /// rpm's: `url` is the address of a list of mirrors, not of the repository.
    #[serde(default)]
    pub mirrors: Option<MirrorList>,
    /// The folder of a vendor's DVD or ISO that has this repository, or the part of it that was pressed: `BaseOS`, `.` for the
    /// root of the medium; none where no medium has it. `{arch}` as in `url`. Where media have parts of several repositories in one,
    /// it is the one that has all of these packages.
    #[serde(default)]
    pub media: Option<String>,
    /// The vendor asks for the client certificate of a subscription.
    #[serde(default)]
    pub entitlement: bool,
    /// By what it is trusted.
    pub trust: RepositoryTrust,
}

/// How a list of mirrors is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MirrorList {
    /// An address a line.
    List,
    /// metalink 3 XML, with digests of repomd.xml.
    Metalink,
}

/// By what a repository is trusted. Where `metadata` and `packages` are both empty nothing is signed, and only packages whose
/// sha256 a lock names are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RepositoryTrust {
    /// Fingerprints of the primary keys that may sign the metadata (InRelease, repomd.xml.asc), 40 or 64 upper-case hex digits.
    #[serde(default)]
    pub metadata: Vec<String>,
    /// Fingerprints of the primary keys that may sign each package (rpm).
    #[serde(default)]
    pub packages: Vec<String>,
    /// Signatures over SHA-1 are taken: the release was signed with nothing better.
    #[serde(default)]
    pub sha1: bool,
}

impl RepositoryTrust {
    /// Nothing here is signed: only what a lock pins by sha256 is taken.
    pub const fn pinned_only(&self) -> bool {
        self.metadata.is_empty() && self.packages.is_empty()
    }
}

/// What differs from the rest of the family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Quirks {
    /// Its package manager reads gzip metadata only (yum 3).
    #[serde(default)]
    pub gzip_metadata: bool,
    /// Headers of packages hold no digest of the payload: only the v3 signature over both (`RPMSIGTAG_PGP`) says that they belong
    /// together.
    #[serde(default)]
    pub v3_signatures: bool,
    /// Has modules (modules.yaml): packages of streams that are not enabled are invisible.
    #[serde(default)]
    pub modules: bool,
}

impl Repository {
    /// The base address for an architecture, without a slash at its end.
    pub fn base(&self, family: Family, arch: Arch) -> String {
        let url = self.urls.get(&arch).unwrap_or(&self.url);
        url.replace("{arch}", family.arch(arch)).trim_end_matches('/').to_owned()
    }

    /// Its folder on the vendor's media, below the medium's root; empty for the root itself.
    pub fn on_media(&self, family: Family, arch: Arch) -> Option<String> {
        let folder = self.media.as_ref()?.replace("{arch}", family.arch(arch));
        Some(if folder == "." { String::new() } else { folder.trim_matches('/').to_owned() })
    }
}

impl Profile {
    /// Whether the fields of os-release are of this release; `version` is `VERSION`, or the text of `/etc/.productinfo`.
    pub fn matches(&self, id: &str, version_id: &str, version: &str) -> bool {
        let mut words = version.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        super::of_release((&self.id, &self.version_id), (id, version_id))
            && self.edition.as_ref().is_none_or(|edition| words.any(|word| word.eq_ignore_ascii_case(edition)))
    }

    /// Names of the packages that nodes of these roles need, in the order of the table, each once.
    pub fn root_names(&self, roots: &[Root], roles: &[RootRole]) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for root in roots.iter().filter(|root| roles.contains(&root.role)) {
            for name in self.names_of(root) {
                if !all.contains(name) {
                    all.push(name.clone());
                }
            }
        }
        all
    }

    /// What a root is called here; empty where there is none.
    pub fn names_of<'a>(&'a self, root: &'a Root) -> &'a [String] {
        self.names.get(&root.name).map_or_else(|| root.names(self.family), Vec::as_slice)
    }
}
