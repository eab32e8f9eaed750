//! The stamp of a node (`/var/lib/kubexm/stamp.json`).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};
use crate::{BundleRecord, ClusterId};

/// The cluster that the node belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stamp {
    /// `metadata.name`.
    pub cluster: String,
    /// The cluster's id; none in plans of versions without ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ClusterId>,
    /// The bundle that is installed, and its signers; none in plans of versions that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleRecord>,
    /// Whether the cluster was there before kubexm-install, which has adopted it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
}

/// The stamp's place and content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stamped {
    /// `/var/lib/kubexm/stamp.json`.
    pub place: PathState,
    /// None without a stamp.
    pub cluster: Option<String>,
    /// None without a stamp, and in stamps of versions without ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ClusterId>,
    /// The bundle in the stamp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleRecord>,
    /// Whether the stamp is of a cluster that was adopted; false before schema 3.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
}

impl OpKind for Stamp {
    type State = Stamped;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        // The struct has only texts and numbers, so serialising cannot fail.
        vec![ResourceChange::sets(Resource::Stamp, serde_json::to_string(self).unwrap_or_default())]
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

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let adopted = if self.adopted { "adopted " } else { "" };
        write!(f, "stamp of {adopted}cluster {}", self.cluster)?;
        self.id.iter().try_for_each(|id| write!(f, ", id {id}"))
    }
}

impl State for Stamped {
    const SCHEMA: u32 = 3;

    fn places(&self) -> Vec<&PathState> {
        vec![&self.place]
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
