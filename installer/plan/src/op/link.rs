//! A symbolic link.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback};
use crate::path_state::PathState;
use crate::resource::ResourceChange;

/// A symbolic link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Link {
    /// Absolute path of the link.
    pub path: String,
    /// The link's target.
    pub target: String,
}

impl OpKind for Link {
    type State = PathState;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::file(&self.path, format!("link {}", self.target))]
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

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {} to {}", self.path, self.target)
    }
}
