//! A directory that a service writes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// A directory that a service creates and fills, or a file that it writes; converge does nothing. Undo removes it with
/// its content if it did not exist before, else only the new content. It never crosses a mount point: a mount below it
/// stops the undo with an error that names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StateDir {
    /// Absolute.
    pub path: String,
}

impl StateDir {
    /// For this absolute path.
    pub fn at(path: &str) -> Self {
        Self { path: path.to_owned() }
    }
}

impl OpKind for StateDir {
    type State = PathState;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::State(self.path.clone())).shared()]
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

impl fmt::Display for StateDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "what a service puts into {}", self.path)
    }
}
