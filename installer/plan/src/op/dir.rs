//! A directory.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback};
use crate::path_state::PathState;
use crate::resource::ResourceChange;

/// A directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dir {
    /// Absolute; parents are made with 0755.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
}

impl OpKind for Dir {
    type State = PathState;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::file(&self.path, format!("dir {:04o}", self.mode)).shared()]
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

impl fmt::Display for Dir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "directory {} {:04o}", self.path, self.mode)
    }
}
