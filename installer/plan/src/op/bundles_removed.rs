//! Earlier bundles whose content a registry host has no longer.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::ResourceChange;

/// Earlier bundles whose content is not on a registry host any more: images that no other bundle has leave the registry's storage, blobs that
/// no other has leave the content store, and then the bundle's record goes. What the depot serves now stays, whatever is named.
/// Content that others put into the registry is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BundlesRemoved {
    /// The folder of records, absolute; one for each bundle that the host has had, `NAME.json`.
    pub folder: String,
    /// What the depot serves now, absolute.
    pub serving: String,
    /// Their names.
    pub bundles: BTreeSet<String>,
    /// `rootdirectory` of the distribution registry, absolute; none if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<String>,
}

/// Those whose record is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BundlesThere {
    /// Their names.
    pub there: BTreeSet<String>,
}

impl BundlesRemoved {
    /// The record of a bundle.
    pub fn record(&self, bundle: &str) -> String {
        format!("{}/{bundle}.json", self.folder)
    }
}

impl OpKind for BundlesRemoved {
    type State = BundlesThere;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        self.bundles.iter().map(|bundle| ResourceChange::file(self.record(bundle), "absent")).collect()
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Made
    }
}

impl fmt::Display for BundlesRemoved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.bundles.iter().map(String::as_str).collect();
        write!(f, "no content of bundle {}", names.join(", "))
    }
}

impl State for BundlesThere {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
