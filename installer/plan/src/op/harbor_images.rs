//! The bundle's images in a Harbor of the cluster's own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use super::harbor::HarborAccess;
use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// Images of the node's content store, pushed through the registry's API and looked up by digest afterwards. Blobs that are
/// there are not sent again; what others pushed is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HarborImages {
    /// Where they are pushed to.
    pub harbor: HarborAccess,
    /// By upstream's full reference.
    pub images: BTreeMap<String, HarborImage>,
}

/// One image for the bundle's platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HarborImage {
    /// `registry.k8s.io/pause`: the project is the upstream host.
    pub repository: String,
    /// None for an image that is named by its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Manifest of the platform. It is what the tag names: Harbor refuses an index of which other platforms are missing.
    pub manifest: Digest,
    /// Manifest, config and layers.
    pub blobs: BTreeSet<Digest>,
}

/// What is missing in Harbor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum MissingImages {
    /// There is no Harbor, or it does not answer.
    Unknown,
    /// It answers.
    Known {
        /// References of images that are missing.
        missing: BTreeSet<String>,
        /// References whose tag names something else.
        other: BTreeSet<String>,
    },
}

impl OpKind for HarborImages {
    type State = MissingImages;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let each = self.images.values().map(|image| {
            let name = format!("{}:{}", image.repository, image.tag.as_deref().unwrap_or(&image.manifest.hex()));
            ResourceChange::sets(Resource::HarborImage(name), image.manifest.to_string()).shared()
        });
        each.collect()
    }

    fn needs(&self) -> Needs<'_> {
        let blobs: BTreeSet<Digest> = self.images.values().flat_map(|image| image.blobs.iter().copied()).collect();
        self.harbor.needs(&[], blobs.into_iter().collect())
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::RestoredAndMade
    }
}

impl fmt::Display for HarborImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} images in {}", self.images.len(), self.harbor.registry)
    }
}

impl State for MissingImages {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    /// What was pushed stays with Harbor's data.
    fn is_back(&self, _: &Self) -> Option<bool> {
        Some(true)
    }
}
