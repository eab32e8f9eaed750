//! Content that is delivered: to the node, into files, into a registry.

use std::collections::BTreeMap;

use kubexm_spec::Digest;
use kubexm_spec::depot::Repository;
use serde::{Deserialize, Serialize};

/// Blobs in the node's content store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Blobs {
    /// Sorted by digest, sizes in bytes.
    pub blobs: BTreeMap<Digest, u64>,
    /// Depots of this cluster that may have them, asked before the controller sends anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depots: Option<Depots>,
}

/// Depots that a node takes blobs from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Depots {
    /// `https://10.0.0.5:5443`, in the order they are asked; a blob is `<url>/blobs/sha256/<hex>`.
    pub urls: Vec<String>,
    /// PEM file on the node with the CA to trust them by.
    pub ca: String,
}

impl Depots {
    /// Seconds that a node may take to get so many bytes from them; what is not there then, the controller sends. Two
    /// mebibytes a second are little in one's own network, and a depot that hangs is found out within a minute.
    pub fn limit_s(&self, bytes: u64) -> u64 {
        let hanging = u64::try_from(self.urls.len()).unwrap_or(u64::MAX).saturating_mul(60);
        (bytes / (2 << 20)).saturating_add(hanging).saturating_add(120)
    }
}

/// A blob as an executable file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Binary {
    /// Absolute.
    pub path: String,
    /// Blob of the node's content store.
    pub blob: Digest,
    /// Permission bits.
    pub mode: u32,
}

/// Chosen members of a gzip-compressed tar archive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unpacked {
    /// Blob of the node's content store.
    pub blob: Digest,
    /// Member path in the archive (without leading `./`) → absolute path on the host; mode 0755.
    pub members: BTreeMap<String, String>,
    /// When given, every regular file below this folder of the archive (`""`: all) goes flat into the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_into: Option<AllInto>,
}

/// Every regular file of an archive folder, into one directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AllInto {
    /// Folder in the archive, `""` for its top.
    pub folder: String,
    /// Absolute directory on the host.
    pub directory: String,
}

/// Blobs of the node's content store, as the distribution registry keeps them on a file system
/// (`docker/registry/v2` below its root; distribution v3, registry/storage/paths.go). Blobs are hard links or reflinks
/// where the file system has them. What others put there stays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryLayout {
    /// `rootdirectory` of the registry, absolute.
    pub data_dir: String,
    /// Repositories by name, `registry.k8s.io/pause`.
    pub repositories: BTreeMap<String, Repository>,
}
