//! What a cluster needs, as data: the one list that the builder resolves and that recipes look artifacts up in.

use std::path::PathBuf;

use kubexm_spec::{ArtifactKey, Digest, Platform, Trust};
use serde::Serialize;

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
}

/// The versions a cluster is made of. Programs without a leading `v`, images by their tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Versions {
    /// `1.34.4`.
    pub kubernetes: String,
    /// Version of kubeadm's configuration API, `v1beta4`.
    pub kubeadm_api: String,
    /// containerd.
    pub containerd: String,
    /// runc.
    pub runc: String,
    /// The reference CNI plugins.
    pub cni_plugins: String,
    /// etcd's archive (`etcdctl`, `etcdutl`).
    pub etcd: String,
    /// crictl, when it is not excluded.
    pub crictl: Option<String>,
    /// helm, when it is not excluded.
    pub helm: Option<String>,
    /// The distribution registry, when `spec.registry.type` asks for it.
    pub registry: Option<String>,
    /// Tag of the sandbox image.
    pub pause: String,
    /// Tag of CoreDNS, `v1.12.1`.
    pub coredns: String,
    /// Tag of etcd's image, `3.6.5-0`.
    pub etcd_image: String,
    /// Tag of flannel, `v0.28.4`.
    pub flannel: String,
    /// Tag of flannel's CNI plugin, `v1.9.1-flannel1`.
    pub flannel_cni_plugin: String,
}

/// One artifact for one platform.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// Which artifact.
    pub key: ArtifactKey,
    /// None for what is the same on every platform (extra files).
    pub platform: Option<Platform>,
    /// Upstream's version without a leading `v`; for images the tag; empty for extra files and the installer.
    pub version: String,
    /// Why it is needed, for people.
    pub because: String,
    /// A tool that `spec.bundle.exclude` can leave out.
    pub optional: bool,
    /// Blobs of lower stages come first in the bundle.
    pub stage: u8,
    /// Why its digest is (or will be) believed.
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
    /// `kubexm-install` of the platform: given on the command line, or this very release's.
    Installer,
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

impl Versions {
    /// Kubernetes' version as its own tools write it, `v1.34.4`.
    pub fn kubernetes_tag(&self) -> String {
        format!("v{}", self.kubernetes)
    }
}
