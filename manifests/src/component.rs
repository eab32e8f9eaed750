//! A component: where a program comes from, what is inside, and which digests are pinned.

use std::collections::BTreeMap;

use kubexm_spec::{Arch, Digest, Kind, Trust};
use serde::{Deserialize, Deserializer, Serialize};

use crate::libc::Libc;
use crate::verified::{Compared, Verified};
use crate::version::{self, Span};

/// One program (or archive of programs) of the catalogue. In `url`, `fileName`, `digestSource` and member paths `{tag}` is
/// `v1.2.3`, `{version}` is `1.2.3`, `{arch}` is `amd64` or `arm64`, `{machine}` is `x86_64` or `aarch64`, and `{url}` (in
/// `digestSource`) the file's own address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Component {
    /// Its name, [`kubexm_spec::Program::name`].
    pub name: String,
    /// Always `binary`.
    pub kind: Kind,
    /// Under which licence upstream publishes it, as an SPDX identifier; none where that is not one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// The origin's address.
    pub url: String,
    /// Addresses of single architectures, which come before `url` (only overlays set them).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub urls: BTreeMap<Arch, String>,
    /// The GitHub repository whose releases are its versions, where the address does not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github: Option<String>,
    /// The architectures that upstream publishes; none: every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Vec<Arch>>,
    /// The file's name.
    pub file_name: String,
    /// Where upstream publishes the digest; none where it publishes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest_source: Option<String>,
    /// What the file is.
    pub payload: Payload,
    /// Which nodes need it.
    pub role: NodeRole,
    /// May be left out by `spec.bundle.exclude`.
    pub optional: bool,
    /// Place in the bundle: lower comes first.
    pub stage: u8,
    /// A version that comes before the release's own default: where no release has one, and where an overlay sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// What differs for spans of versions; the first that holds a version is taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub builds: Vec<Build>,
    /// What its programs need of a node's C library; none where it was not looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libc: Option<Libc>,
    /// When upstream ends a line: `2.1` → `2026-07-03`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub end_of_life: BTreeMap<String, String>,
    /// With what the ends were compared, by line.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub end_of_life_compared: BTreeMap<String, Compared>,
    /// By what it was checked that upstream has these versions; none where it was not looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unverified: Option<String>,
    /// Pinned digests by version (without `v`) and architecture.
    pub versions: BTreeMap<String, BTreeMap<Arch, Pin>>,
}

/// How versions of a span differ from the rest of a component; what is not given does not differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Build {
    /// Of which versions.
    pub versions: Span,
    /// The origin's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The file's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// What the file is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
    /// What its programs need of a node's C library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libc: Option<Libc>,
}

/// What is pinned about one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pin {
    /// Of the file, with or without the `sha256:` prefix.
    #[serde(deserialize_with = "digest")]
    pub sha256: Digest,
    /// In bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// `pinned`, or `overlay` for what a user's overlay has brought.
    #[serde(default = "pinned", skip_serializing_if = "is_pinned")]
    pub trust: Trust,
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Payload {
    /// The program itself (`raw`).
    Raw(Raw),
    /// A gzip-compressed tar archive.
    Archive(Archive),
}

/// The word `raw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Raw {
    /// The program itself.
    Raw,
}

/// What is extracted from an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Archive {
    /// The format.
    pub archive: ArchiveFormat,
    /// Member path (without a leading `./`) → name of the program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<String, String>,
    /// When given, every regular file below this folder of the archive (`""`: its top).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<String>,
}

/// Formats of archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArchiveFormat {
    /// gzip-compressed tar.
    #[serde(rename = "tar.gz")]
    TarGz,
}

/// Which nodes need a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeRole {
    /// Every node.
    All,
    /// Control planes.
    ControlPlane,
    /// Workers.
    Worker,
    /// Members of etcd.
    Etcd,
    /// The host of the registry role.
    Registry,
}

impl Component {
    fn build(&self, version: &str) -> Option<&Build> {
        self.builds.iter().find(|build| build.versions.holds(version))
    }

    /// The origin's address of a version.
    pub fn url(&self, version: &str, arch: Arch) -> String {
        let usual = || self.build(version).and_then(|build| build.url.as_ref()).unwrap_or(&self.url);
        fill(self.urls.get(&arch).unwrap_or_else(usual), version, arch)
    }

    /// The same, if it is published for the architecture.
    pub fn published_url(&self, version: &str, arch: Arch) -> Option<String> {
        let known = self.urls.contains_key(&arch) || self.published.as_ref().is_none_or(|all| all.contains(&arch));
        known.then(|| self.url(version, arch))
    }

    /// The file's name.
    pub fn file_name(&self, version: &str, arch: Arch) -> String {
        let own = self.build(version).and_then(|build| build.file_name.as_ref());
        fill(own.unwrap_or(&self.file_name), version, arch)
    }

    /// What the programs of a version need of a node's C library.
    pub fn libc(&self, version: &str) -> Option<&Libc> {
        self.build(version).and_then(|build| build.libc.as_ref()).or(self.libc.as_ref())
    }

    /// When upstream ends the line of a version.
    pub fn end_of_life(&self, version: &str) -> Option<&str> {
        version::end_of_line(&self.end_of_life, version)
    }

    /// Where upstream publishes the file's digest.
    pub fn checksum_url(&self, version: &str, arch: Arch) -> Option<String> {
        let url = self.url(version, arch);
        self.digest_source.as_ref().map(|source| fill(&source.replace("{url}", &url), version, arch))
    }

    /// What is pinned about the file, if anything.
    pub fn pin(&self, version: &str, arch: Arch) -> Option<Pin> {
        self.versions.get(version).and_then(|by_arch| by_arch.get(&arch)).copied()
    }

    /// The payload with the variables of its member paths filled in.
    pub fn payload(&self, version: &str, arch: Arch) -> Payload {
        let own = self.build(version).and_then(|build| build.payload.as_ref());
        match own.unwrap_or(&self.payload) {
            Payload::Raw(raw) => Payload::Raw(*raw),
            Payload::Archive(archive) => Payload::Archive(Archive {
                archive: archive.archive,
                members: archive.members.iter().map(|(path, name)| (fill(path, version, arch), name.clone())).collect(),
                all: archive.all.as_ref().map(|folder| fill(folder, version, arch)),
            }),
        }
    }

    /// Whether some version of the same minor is in the catalogue: only then may upstream's checksum stand in for a pin.
    pub fn knows_minor_of(&self, wanted: &str) -> bool {
        if self.versions.contains_key(wanted) {
            return true;
        }
        let minor = version::minor(wanted);
        self.versions.keys().any(|known| version::minor(known) == minor)
    }
}

fn fill(template: &str, version: &str, arch: Arch) -> String {
    let machine = match arch {
        Arch::Amd64 => "x86_64",
        Arch::Arm64 => "aarch64",
    };
    let mut filled = String::with_capacity(template.len() + 64);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let known = after.split_once('}').and_then(|(name, after)| {
            match name {
                "tag" => filled.extend(["v", version]),
                "version" => filled.push_str(version),
                "arch" => filled.push_str(arch.as_str()),
                "machine" => filled.push_str(machine),
                _ => return None,
            }
            Some(after)
        });
        // an unknown variable stays, and `check` tells it
        rest = known.unwrap_or_else(|| {
            filled.push('{');
            after
        });
    }
    filled.push_str(rest);
    filled
}

/// Reads a digest with or without its prefix.
pub(crate) fn parse_digest(text: &str) -> Option<Digest> {
    Digest::from_hex(text.strip_prefix("sha256:").unwrap_or(text)).ok()
}

fn digest<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_digest(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a sha256 digest")))
}

const fn pinned() -> Trust {
    Trust::Pinned
}

fn is_pinned(trust: &Trust) -> bool {
    *trust == Trust::Pinned
}
