//! The lock: every artifact a build carries, by digest. Same lock, same bundle.

mod image_signature;
mod packages;
mod text;

use std::collections::HashSet;
use std::hash::Hash;

use serde::{Deserialize, Serialize};

pub use self::image_signature::{ImageSignature, ImageSigner, SignatureCheck};
pub use self::packages::{PackageIndex, PackageRole, PackageRoot, PackageSet};
pub use self::text::LockError;

use crate::{ArtifactKey, Digest, Platform, Rendering, Trust};

/// The schema this program writes and reads.
pub const SCHEMA: &str = "kubexm.io/lock/v1";

/// What `kubexm-bundle` resolved a cluster to. Items are sorted by key, then platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lock {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// `metadata.name` of the cluster.
    pub name: String,
    /// Kubernetes version (`v1.34.4`); none in a bundle of extras only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
    /// Name of the zone it was resolved in; none in the lock that a bundle carries, whose places are in its sources.json.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Sorted.
    pub items: Vec<LockItem>,
    /// What charts and YAML add-ons were rendered to, sorted by key; their images are items.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renderings: Vec<Rendering>,
    /// What the packages of each operating system and platform were chosen for, and of what; sorted by both. The packages
    /// themselves are items.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<PackageSet>,
}

/// One artifact for one platform. (serde knows no unknown fields beside a flattened one: [`Lock::parse`] finds them.)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockItem {
    /// Which artifact.
    pub key: ArtifactKey,
    /// Upstream's version without a leading `v`; for images the tag; empty for extra files.
    pub version: String,
    /// None for what is the same on every platform (extra files).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Why the digest is trusted.
    pub trust: Trust,
    /// Candidate addresses in order, never the mirror that happened to answer. They are not part of what is locked: a build asks
    /// the places of its own zone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// What it is made of.
    #[serde(flatten)]
    pub content: Content,
}

/// The blobs of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Content {
    /// One blob.
    File {
        /// The name upstream (or the user) gives the file.
        file_name: String,
        /// Digest of the bytes as fetched.
        digest: Digest,
        /// In bytes.
        size: u64,
    },
    /// An image for one platform.
    Image {
        /// Full upstream name with tag: `registry.k8s.io/pause:3.10.1`.
        reference: String,
        /// What the tag points at: an index, or (single-platform images) the manifest itself.
        target: Descriptor,
        /// The platform's manifest; equals `target` where there is no index.
        manifest: Descriptor,
        /// Config and layers of that manifest, in its order.
        blobs: Vec<Descriptor>,
        /// What its registry has attached to it: signatures, attestations, SBOMs. By subject, then by digest.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        referrers: Vec<Referrer>,
        /// How it satisfies `spec.bundle.imageSignatures`; none where cluster.yaml says nothing of signatures.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signed: Option<Box<SignatureCheck>>,
    },
}

/// Something that is attached to an image and carried with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Referrer {
    /// What it is about: the index, or the platform's manifest.
    pub subject: Digest,
    /// The tag it is found by in the image's repository (`sha256-<hex>.sig`); none where the list of referrers has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Its manifest.
    pub manifest: Descriptor,
    /// Config and layers, by digest.
    pub blobs: Vec<Descriptor>,
}

impl Referrer {
    /// Its manifest, and what that names.
    pub fn descriptors(&self) -> impl Iterator<Item = &Descriptor> {
        std::iter::once(&self.manifest).chain(&self.blobs)
    }
}

/// An OCI descriptor, the fields we need (image-spec, descriptor.md).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Media type.
    pub media_type: String,
    /// Digest of the content.
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
}

impl Lock {
    /// The item of a key for a platform; `None` for what is the same on every platform.
    pub fn find(&self, key: &ArtifactKey, platform: Option<Platform>) -> Option<&LockItem> {
        self.items.iter().find(|item| item.key == *key && item.platform == platform)
    }

    /// What is in it twice, for people: of two, one reader goes by the first and another by both. An item is known by its key
    /// and platform, packages by their operating system and platform, a rendering by its key.
    pub fn twice(&self) -> Option<String> {
        let item = repeated(&self.items, |item| (&item.key, item.platform)).map(LockItem::name);
        let packages = || {
            let set = repeated(&self.packages, |set| (&set.os, set.platform))?;
            Some(format!("packages of {} {}", set.os, set.platform))
        };
        let rendering = || Some(format!("the rendering of {}", repeated(&self.renderings, |one| &one.key)?.key));
        item.or_else(packages).or_else(rendering)
    }

    /// The same lock without zone and addresses: what a bundle carries, so that the same content locked behind another mirror
    /// is the same manifest.
    #[must_use]
    pub fn without_places(&self) -> Self {
        let items = self.items.iter().map(|item| LockItem { sources: Vec::new(), ..item.clone() }).collect();
        Self { zone: None, items, ..self.clone() }
    }

    /// Every blob once, with its size in bytes: what a full bundle carries of upstream's.
    pub fn blobs(&self) -> std::collections::BTreeMap<Digest, u64> {
        self.items.iter().flat_map(LockItem::blobs).collect()
    }
}

/// The first that has the key of one before it.
fn repeated<'a, T, K: Eq + Hash>(all: &'a [T], key: impl Fn(&'a T) -> K) -> Option<&'a T> {
    let mut known = HashSet::new();
    all.iter().find(|&one| !known.insert(key(one)))
}

impl LockItem {
    /// The digest that names it: of the file, or of what the image's tag points at.
    pub const fn digest(&self) -> Digest {
        match &self.content {
            Content::File { digest, .. } => *digest,
            Content::Image { target, .. } => target.digest,
        }
    }

    /// Every blob of the item with its size in bytes; shared ones appear in each item that uses them.
    pub fn blobs(&self) -> Vec<(Digest, u64)> {
        match &self.content {
            Content::File { digest, size, .. } => vec![(*digest, *size)],
            Content::Image { target, manifest, blobs, referrers, .. } => {
                let mut all = vec![(target.digest, target.size)];
                if manifest.digest != target.digest {
                    all.push((manifest.digest, manifest.size));
                }
                all.extend(blobs.iter().map(|b| (b.digest, b.size)));
                let mut seen: HashSet<Digest> = all.iter().map(|(digest, _)| *digest).collect();
                for attached in referrers.iter().flat_map(Referrer::descriptors) {
                    // Signatures share their empty config.
                    if seen.insert(attached.digest) {
                        all.push((attached.digest, attached.size));
                    }
                }
                all
            }
        }
    }
}
