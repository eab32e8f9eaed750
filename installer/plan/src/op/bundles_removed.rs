//! Records of bundles that a depot serves no more.

use std::collections::BTreeMap;
use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::depot;
use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::ResourceChange;

/// Bundles whose records are not beside the depot any more, so that the depot does not serve them: it has read its folder again since.
/// Their blobs stay in the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BundlesRemoved {
    /// The names of the bundles, with the digests that their records had when this was planned. A record that has changed is refused.
    pub bundles: BTreeMap<String, Digest>,
}

impl BundlesRemoved {
    /// The paths of the records.
    pub fn records(&self) -> impl Iterator<Item = (String, Digest)> {
        self.bundles.iter().map(|(name, digest)| (depot::record_path(name), *digest))
    }
}

/// The records as they were found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FoundRecords {
    /// In the op's order.
    pub records: Vec<PathState>,
    /// Paths of records that were taken away, and of which the depot may not know it yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<String>,
}

impl OpKind for BundlesRemoved {
    type State = FoundRecords;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        self.records().map(|(path, _)| ResourceChange::file(path, "absent")).collect()
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

impl fmt::Display for BundlesRemoved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.bundles.keys().map(String::as_str).collect();
        write!(f, "the depot does not serve {}", names.join(", "))
    }
}

impl State for FoundRecords {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        self.records.iter().collect()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
