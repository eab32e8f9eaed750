//! Blobs that no repository of a distribution registry links to any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use super::{Present, RemovedContent};
use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback};
use crate::resource::ResourceChange;

/// Blobs that are not in the storage of the distribution registry any more. One that a repository links to stays, whoever has made that
/// repository. Deleted blobs do not come back by a rollback.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryBlobsRemoved {
    /// `rootdirectory` of the registry, absolute.
    pub data_dir: String,
    /// What goes, by repository; [`super::RegistryUnlinked`] has taken its links away.
    pub repositories: BTreeMap<String, RemovedContent>,
}

impl RegistryBlobsRemoved {
    /// All of them.
    pub fn digests(&self) -> BTreeSet<Digest> {
        let of_one =
            |content: &RemovedContent| content.manifests.iter().chain(&content.blobs).copied().collect::<Vec<_>>();
        self.repositories.values().flat_map(of_one).collect()
    }

    /// The folder with the blobs.
    pub fn folder(&self) -> String {
        format!("{}/docker/registry/v2/blobs/sha256", self.data_dir)
    }
}

impl OpKind for RegistryBlobsRemoved {
    type State = Present;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::file(self.folder(), format!("without {} blobs", self.digests().len()))]
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

impl fmt::Display for RegistryBlobsRemoved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has none of {} blobs that no repository links to", self.data_dir, self.digests().len())
    }
}
