//! Blobs that no bundle of the depot needs any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// Blobs that are not in the node's content store any more. One that the depot's configuration, the record of a bundle or the last step that
/// filled the store names is refused, and nothing is deleted then. Deleted blobs do not come back by a rollback.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BlobsRemoved {
    /// Sorted by digest, sizes in bytes.
    pub blobs: BTreeMap<Digest, u64>,
}

/// Blobs of the op that are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Present {
    /// Their digests.
    pub present: BTreeSet<Digest>,
}

impl OpKind for BlobsRemoved {
    type State = Present;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        self.blobs.keys().map(|digest| ResourceChange::sets(Resource::Blob(*digest), "absent").shared()).collect()
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

impl fmt::Display for BlobsRemoved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} blobs are not in the store, {} bytes", self.blobs.len(), self.blobs.values().sum::<u64>())
    }
}

impl State for Present {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
