//! Images of earlier bundles that are not in a Harbor of the cluster's own any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use super::harbor::HarborAccess;
use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// Images that kubexm has pushed to Harbor and that are there no more, deleted through its API; then Harbor collects its garbage. An image
/// that somebody else has given a tag keeps it, and stays. Deleted images do not come back by a rollback.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HarborImagesRemoved {
    /// Where they are deleted.
    pub harbor: HarborAccess,
    /// By repository, `registry.k8s.io/pause`.
    pub repositories: BTreeMap<String, RemovedImages>,
}

/// What goes from a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemovedImages {
    /// The manifests, with the tags that kubexm gave them.
    pub images: BTreeMap<Digest, BTreeSet<String>>,
    /// What tags name afterwards that nothing has any more.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, Digest>,
}

/// Which of them Harbor has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FoundImages {
    /// There is no Harbor, or it does not answer.
    Unknown,
    /// It answers.
    Known {
        /// `REPOSITORY:TAG` and `REPOSITORY@DIGEST` of what is to be deleted.
        present: BTreeSet<String>,
        /// `REPOSITORY:TAG` of tags that nothing has.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        lost: BTreeSet<String>,
    },
}

impl OpKind for HarborImagesRemoved {
    type State = FoundImages;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let of_one = |(repository, removed): (&String, &RemovedImages)| {
            let names = |(manifest, tags): (&Digest, &BTreeSet<String>)| match tags.is_empty() {
                true => vec![format!("{repository}:{}", manifest.hex())],
                false => tags.iter().map(|tag| format!("{repository}:{tag}")).collect(),
            };
            removed.images.iter().flat_map(names).collect::<BTreeSet<String>>()
        };
        let names = self.repositories.iter().flat_map(of_one);
        names.map(|name| ResourceChange::sets(Resource::HarborImage(name), "absent").shared()).collect()
    }

    fn needs(&self) -> Needs<'_> {
        self.harbor.needs(&[], Vec::new())
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::End
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for HarborImagesRemoved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let images: usize = self.repositories.values().map(|removed| removed.images.len()).sum();
        write!(f, "{images} images are not in {}", self.harbor.registry)
    }
}

impl State for FoundImages {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    /// What is in Harbor stays with its data.
    fn is_back(&self, _: &Self) -> Option<bool> {
        Some(true)
    }
}
