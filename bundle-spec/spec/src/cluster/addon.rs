//! `spec.addons` and `spec.storage`: what runs in the cluster once it is there.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::Digest;
use crate::keywords::keywords;

/// One of `spec.addons`, or of `spec.bundle.extraCharts` (which are carried and not installed, and are all charts).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Addon {
    /// Its own, a DNS-1123 label; the release's name with a chart.
    pub name: String,
    /// Chart or plain YAML.
    #[serde(rename = "type")]
    pub kind: AddonKind,
    /// Where the builder fetches it from.
    pub source: AddonSource,
    /// Namespace of its objects that name none; `default`.
    pub namespace: String,
    /// Values of the chart, laid over those of `values_file`.
    pub values: Map<String, Value>,
    /// Values of the chart, relative to cluster.yaml; travels in the bundle.
    pub values_file: Option<PathBuf>,
}

keywords! {
    /// `spec.addons[].type`.
    pub enum AddonKind {
        /// A chart of Helm.
        Helm = "helm",
        /// Objects as they are.
        Yaml = "yaml",
    }
}

/// Where the builder fetches an add-on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "from")]
pub enum AddonSource {
    /// A chart or YAML that the catalogue knows by name (`metrics-server`).
    Catalogue {
        /// Its name there.
        name: String,
        /// The catalogue's default when none.
        version: Option<String>,
    },
    /// A chart of a repository with an index.yaml.
    Repository {
        /// http or https.
        url: String,
        /// Its name in the index.
        chart: String,
        /// Exact.
        version: String,
    },
    /// A chart of an OCI registry.
    Oci {
        /// `oci://ghcr.io/org/charts/name`.
        reference: String,
        /// Its tag.
        version: String,
    },
    /// A file of a web server: YAML, or a chart's `.tgz`.
    Url {
        /// http or https.
        url: String,
        /// Digest of the content.
        sha256: Digest,
    },
    /// On the builder's disk: a YAML file, a folder of them, a chart's folder or its `.tgz`.
    Path {
        /// As written, relative to cluster.yaml; the builder makes it ready to be opened.
        path: PathBuf,
    },
}

/// `spec.storage`: what makes volumes; each only where it is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// OpenEBS local PV, volumes in a folder of the node.
    #[serde(rename = "openebs")]
    pub open_ebs: Option<OpenEbs>,
    /// Volumes as folders of an NFS export.
    pub nfs: Option<Nfs>,
}

impl Storage {
    /// Whether nothing makes volumes.
    pub const fn is_none(&self) -> bool {
        self.open_ebs.is_none() && self.nfs.is_none()
    }
}

/// `spec.storage.openebs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenEbs {
    /// Folder on every node; `/var/openebs/local`.
    pub base_path: String,
    /// Whether claims that name no class are given one of its volumes.
    pub default_class: bool,
}

impl Default for OpenEbs {
    fn default() -> Self {
        Self { base_path: "/var/openebs/local".to_owned(), default_class: true }
    }
}

/// `spec.storage.nfs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Nfs {
    /// IP address or DNS name.
    pub server: String,
    /// The export.
    pub path: String,
    /// Options of mount(8), in order.
    pub mount_options: Vec<String>,
    /// Whether claims that name no class are given one of its volumes.
    pub default_class: bool,
}
