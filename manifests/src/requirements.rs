//! What a cluster needs, as data: the one list that the builder resolves and that recipes look artifacts up in.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubexm_spec::lock::PackageRoot;
use kubexm_spec::{ArtifactKey, Digest, Family, KubernetesVersion, Platform, Trust};
use serde::Serialize;

use crate::component::NodeRole;

/// Every artifact of a cluster (or of a bundle of extras), sorted by key, then platform.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirements {
    /// `metadata.name`.
    pub name: String,
    /// The chosen versions; none in a bundle of extras only.
    pub versions: Option<Versions>,
    /// Sorted by key, then platform; no key twice for a platform.
    pub items: Vec<Requirement>,
    /// What of the packages of each operating system is needed; sorted by operating system, then platform.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<PackageNeed>,
}

/// What nodes of one operating system and platform need of their distribution's packages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageNeed {
    /// `debian-12`, as the catalogue calls it.
    pub os: String,
    /// Platform of the machines.
    pub platform: Platform,
    /// Family of its packages.
    pub family: Family,
    /// In the order of the catalogue's table, then the user's own.
    pub roots: Vec<PackageRoot>,
}

/// The versions a cluster is made of: what it has no use for is not among them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Versions {
    /// Of all that is Kubernetes itself.
    pub kubernetes: KubernetesVersion,
    /// Version of kubeadm's configuration API, `v1beta4`.
    pub kubeadm_api: String,
    /// What runs containers, `containerd 2.2.7`.
    pub runtime: String,
    /// The network plugin, `flannel v0.28.4`.
    pub network: String,
    /// Programs by name, without a leading `v`.
    pub programs: BTreeMap<&'static str, String>,
    /// Tags of the images of the cluster's own line, by name.
    pub images: BTreeMap<&'static str, String>,
    /// Features of the catalogue by name, without a leading `v`.
    pub features: BTreeMap<String, String>,
}

/// One artifact for one platform.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    pub key: ArtifactKey,
    /// None for what is the same on every platform (extra files).
    pub platform: Option<Platform>,
    /// Upstream's version without a leading `v`; for images the tag, for charts their own; empty for files that users add and
    /// the installer.
    pub version: String,
    /// Why it is needed, for people.
    pub because: String,
    /// Which nodes need it; none where that is not known (what users add).
    pub role: Option<NodeRole>,
    /// A tool that `spec.bundle.exclude` can leave out.
    pub optional: bool,
    /// Blobs of lower stages come first in the bundle.
    pub stage: u8,
    /// Why its digest is (or will be) trusted.
    pub trust: Trust,
    /// Where it comes from.
    pub source: Source,
}

/// Where an artifact comes from, before any zone rewrites it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Source {
    /// A file of an origin.
    File {
        /// The name upstream gives it.
        file_name: String,
        /// The origin's own address.
        url: String,
        /// None: taken from `checksum_url`.
        sha256: Option<Digest>,
        /// In bytes, when known.
        size: Option<u64>,
        /// Where upstream publishes the digest: the digest alone, or `sha256sum` lines.
        checksum_url: Option<String>,
    },
    /// A file on the builder's disk.
    LocalFile {
        /// As written, relative to cluster.yaml; the builder makes it ready to be opened.
        path: PathBuf,
    },
    /// An image of a registry.
    Image {
        /// Full upstream name with tag or digest.
        reference: String,
        /// What the tag must point at, when it is pinned.
        digest: Option<Digest>,
    },
    /// An image of an OCI layout on the builder's disk.
    LocalImage {
        /// The name it gets in the bundle.
        reference: String,
        /// The layout's folder.
        layout: PathBuf,
    },
    /// A chart that is no file at a known address.
    Chart { chart: ChartSource },
    /// YAML on the builder's disk: a file, or a folder whose files are carried as one.
    LocalYaml {
        /// As written, relative to cluster.yaml; the builder makes it ready to be opened.
        path: PathBuf,
    },
    /// `kubexm-install` of the platform: given on the command line, or this very release's.
    Installer,
}

/// Where a chart is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "at", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum ChartSource {
    /// In a repository whose index.yaml says where, and by which digest.
    Repository {
        /// http or https, of the folder that has the index.yaml.
        url: String,
        /// Its name there.
        chart: String,
        /// Exact.
        version: String,
    },
    /// In an OCI registry.
    Oci {
        /// `oci://ghcr.io/org/charts/name`.
        reference: String,
        /// Its tag.
        version: String,
    },
    /// On the builder's disk: a folder, or an archive of one.
    Path {
        /// As written, relative to cluster.yaml; the builder makes it ready to be opened.
        path: PathBuf,
    },
}

impl Source {
    /// Every address that upstream publishes it at, before any zone rewrites it: of the file and its checksum, the name of an
    /// image, the index or the repository of a chart. None of what is on the builder's disk.
    pub fn addresses(&self) -> Vec<String> {
        match self {
            Self::File { url, checksum_url, .. } => std::iter::once(url).chain(checksum_url).cloned().collect(),
            Self::Image { reference, .. } => vec![reference.clone()],
            Self::Chart { chart: ChartSource::Repository { url, .. } } => vec![chart_index(url)],
            Self::Chart { chart: ChartSource::Oci { reference, .. } } => vec![reference.clone()],
            Self::Chart { chart: ChartSource::Path { .. } }
            | Self::LocalFile { .. }
            | Self::LocalImage { .. }
            | Self::LocalYaml { .. }
            | Self::Installer => Vec::new(),
        }
    }
}

/// The address of a chart repository's index.
pub fn chart_index(repository: &str) -> String {
    format!("{}/index.yaml", repository.trim_end_matches('/'))
}

impl Requirements {
    /// The requirement of a key for a platform, or the one that serves every platform.
    pub fn find(&self, key: &ArtifactKey, platform: Platform) -> Option<&Requirement> {
        self.items.iter().find(|item| item.key == *key && item.platform.is_none_or(|p| p == platform))
    }

    /// References of all images, sorted, each once.
    pub fn images(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self
            .items
            .iter()
            .filter_map(|item| match &item.source {
                Source::Image { reference, .. } | Source::LocalImage { reference, .. } => Some(reference.as_str()),
                _ => None,
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
