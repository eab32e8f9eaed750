//! An image in the container runtime, pinned.

use std::collections::BTreeSet;
use std::fmt;

use kubexm_spec::Digest;
use kubexm_spec::cluster::RuntimeKind;
use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// An image of the container runtime (containerd: in the namespace `k8s.io`), pinned against image garbage collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageLoaded {
    /// `registry.k8s.io/pause:3.10.1`.
    pub reference: String,
    /// The digest that the reference must resolve to.
    pub digest: Digest,
    /// The platform's manifest, which is as good: a user's registry may refuse an index of which one platform alone was
    /// carried, and then the tag names that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Digest>,
    /// `linux/amd64`.
    pub platform: String,
    /// Where the image comes from.
    #[serde(default, skip_serializing_if = "ImageSource::is_registry")]
    pub source: ImageSource,
    /// The runtime that has the image.
    #[serde(default, skip_serializing_if = "is_containerd")]
    pub runtime: RuntimeKind,
}

impl ImageLoaded {
    /// What the reference may resolve to.
    pub fn accepted(&self) -> impl Iterator<Item = Digest> {
        std::iter::once(self.digest).chain(self.manifest)
    }
}

pub(super) fn is_containerd(runtime: &RuntimeKind) -> bool {
    *runtime == RuntimeKind::Containerd
}

/// Where an image comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ImageSource {
    /// Pulled from the registry that the runtime is configured to use.
    #[default]
    Registry,
    /// Imported from the node's content store.
    Store {
        /// The index (or single manifest), and the platform's manifest, config and layers.
        blobs: BTreeSet<Digest>,
    },
}

impl ImageSource {
    /// Whether it is the registry.
    pub const fn is_registry(&self) -> bool {
        matches!(self, Self::Registry)
    }
}

/// What the runtime has under the image's two names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Loaded {
    /// `registry.k8s.io/pause:3.10.1`.
    pub by_tag: Option<Listed>,
    /// `registry.k8s.io/pause@sha256:…`, which keeps the image when its tag is moved.
    pub by_digest: Option<Listed>,
    /// Whether every layer exists and is unpacked.
    pub complete: bool,
}

/// An image as the runtime lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Listed {
    /// What the name resolves to.
    pub digest: String,
    /// Whether it is protected from image garbage collection.
    pub pinned: bool,
    /// Whether the CRI plugin manages it.
    pub managed: bool,
}

impl OpKind for ImageLoaded {
    type State = Loaded;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::sets(Resource::Image(self.reference.clone()), self.digest.to_string())]
    }

    fn needs(&self) -> Needs<'_> {
        match &self.source {
            ImageSource::Registry => {
                Needs { resources: vec![Resource::Registry, Resource::Runtime], ..Needs::nothing() }
            }
            ImageSource::Store { blobs } => {
                let blobs = blobs.iter().copied().collect();
                Needs { blobs, resources: vec![Resource::Runtime], ..Needs::nothing() }
            }
        }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Cluster
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for ImageLoaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = if self.source.is_registry() { "" } else { " from the store" };
        write!(f, "image {} {} at {}", self.reference, self.platform, self.digest.short())?;
        match self.manifest {
            Some(manifest) => write!(f, " or {}{from}", manifest.short()),
            None => f.write_str(from),
        }
    }
}

impl State for Loaded {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
