//! A file of kubexm's that is no longer wanted.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback};
use crate::path_state::PathState;
use crate::resource::ResourceChange;

/// A file of kubexm's, or one that its service writes, that is not there any more since cluster.yaml has no use for it. A folder is left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Absent {
    /// Absolute.
    pub path: String,
}

impl OpKind for Absent {
    type State = PathState;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::file(&self.path, "absent")]
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no file {}", self.path)
    }
}
