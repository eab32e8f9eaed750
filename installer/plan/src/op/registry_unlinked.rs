//! Content of earlier bundles that a distribution registry does not serve any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use super::RegistryLayout;
use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::ResourceChange;

/// Content of repositories that is not linked in the file-system layout of the distribution registry any more, so that it answers 404 for
/// it: manifests with the tags that name them, and blobs. The bytes stay ([`super::RegistryBlobsRemoved`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryUnlinked {
    /// `rootdirectory` of the registry, absolute.
    pub data_dir: String,
    /// What goes, by repository.
    pub repositories: BTreeMap<String, RemovedContent>,
}

/// What goes from a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemovedContent {
    /// Indexes and manifests.
    pub manifests: BTreeSet<Digest>,
    /// Configs and layers.
    pub blobs: BTreeSet<Digest>,
    /// What tags name afterwards that name one of these manifests now; one that is not among them goes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, Digest>,
}

/// The links that are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FoundLinks {
    /// Each with its content.
    pub links: Vec<PathState>,
}

impl OpKind for RegistryUnlinked {
    type State = FoundLinks;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let folder = RegistryLayout::folder(&self.data_dir);
        let one = |(name, content): (&String, &RemovedContent)| {
            let gone: Vec<String> = content.manifests.iter().chain(&content.blobs).map(Digest::short).collect();
            ResourceChange::file(format!("{folder}/{name}"), format!("without {}", gone.join(" ")))
        };
        self.repositories.iter().map(one).collect()
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::End
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for RegistryUnlinked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let manifests: usize = self.repositories.values().map(|content| content.manifests.len()).sum();
        write!(f, "{} does not serve {manifests} manifests of {} repositories", self.data_dir, self.repositories.len())
    }
}

impl State for FoundLinks {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        self.links.iter().collect()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
