//! A blob as an executable file.

use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback};
use crate::path_state::PathState;
use crate::resource::ResourceChange;

/// A blob as an executable file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Binary {
    /// Absolute.
    pub path: String,
    /// Blob of the node's content store.
    pub blob: Digest,
    /// Permission bits.
    pub mode: u32,
}

impl OpKind for Binary {
    type State = PathState;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::file(&self.path, format!("file {:04o} {}", self.mode, self.blob))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { blobs: vec![self.blob], ..Needs::nothing() }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program {} from {}", self.path, self.blob.short())
    }
}
