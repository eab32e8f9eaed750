//! `manifest.json` of a bundle: what is in it, and nothing about how it is stored or where it was fetched (SPEC.md, "Members").

mod texts;

use serde::{Deserialize, Serialize};

use crate::{ArtifactKey, Digest, Platform, Trust};

/// The newest format this program reads, and the one it builds. Format 1 is read, and written where a bundle of it is merged.
pub const FORMAT: u32 = 2;

/// The format whose manifest named the zone and the addresses of its artifacts.
pub const FORMAT_WITH_PLACES: u32 = 1;

/// The signed statement of a bundle's content. Serialised as canonical JSON: sorted keys, no floats, no blanks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// Format version; readers refuse a higher one than [`FORMAT`].
    pub format: u32,
    /// `metadata.name` of the cluster.
    pub name: String,
    /// What the bundle is for; none in a bundle of extras only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterSummary>,
    /// Sorted.
    pub platforms: Vec<Platform>,
    /// Zone the lock was resolved in; in format 1 only, and always there. See [`crate::Sources`] for later formats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Program and version that packed it.
    pub tool: String,
    /// Digest of the member `lock.yaml`.
    pub lock: Digest,
    /// Sorted by key, then platform.
    pub artifacts: Vec<Artifact>,
    /// Every member after `layout.json` of the full bundle, in the order of the file.
    pub members: Vec<Member>,
}

/// What a person wants to know first about a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSummary {
    /// `v1.34.4`.
    pub kubernetes: String,
    /// `containerd 2.2.1`.
    pub runtime: String,
    /// `flannel v0.28.4`.
    pub network: String,
}

/// One member of the archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Member {
    /// `lock.yaml`, `index.json`, `blobs/sha256/<hex>` …
    pub name: String,
    /// In bytes, uncompressed.
    pub size: u64,
    /// Digest of the content.
    pub sha256: Digest,
}

/// One artifact for one platform, as recipes look it up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Artifact {
    /// Which artifact.
    pub key: ArtifactKey,
    /// Upstream's version without a leading `v`; for images the tag.
    pub version: String,
    /// None for what is the same on every platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// File name of a file; full upstream reference (`registry.k8s.io/pause:3.10.1`) of an image.
    pub name: String,
    /// The file's blob, or what the image's tag points at (an index where upstream has one).
    pub digest: Digest,
    /// For an image: digest of the platform's manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Digest>,
    /// Every blob of it with size in bytes: a file's one; an image's index, manifest, config, layers.
    pub blobs: Vec<Blob>,
    /// Why its digest is trusted.
    pub trust: Trust,
    /// Candidate addresses; in format 1 only, and always there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<String>>,
}

/// A blob by digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Blob {
    /// Digest of the content.
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
}

impl Artifact {
    /// Size of all its blobs in bytes (shared blobs counted here as in every artifact that uses them).
    pub fn size(&self) -> u64 {
        self.blobs.iter().fold(0, |sum: u64, blob| sum.saturating_add(blob.size))
    }
}

impl Manifest {
    /// The artifact of a key for a platform, or the one that serves every platform.
    pub fn find(&self, key: &ArtifactKey, platform: Platform) -> Option<&Artifact> {
        self.artifacts.iter().find(|a| a.key == *key && a.platform.is_none_or(|p| p == platform))
    }

    /// The bytes of manifest.json: keys sorted, no blanks, UTF-8 (`serde_json`'s map is sorted).
    pub fn canonical_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&serde_json::to_value(self)?)
    }
}
