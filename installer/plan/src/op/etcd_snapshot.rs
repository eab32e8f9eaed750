//! A verified snapshot of etcd in a file of a control plane.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// The folder of snapshots on a node.
pub const SNAPSHOTS: &str = "/var/lib/kubexm/snapshots";

/// A snapshot of etcd, taken from the host's own member while that is healthy, whose checksum is right and which etcd's own
/// tool can read. It is as old as the file: a plan names it anew each time that it wants a new one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdSnapshot {
    /// Of the file in [`SNAPSHOTS`], without its end: `before-v1.35.4`.
    pub name: String,
}

impl EtcdSnapshot {
    /// The file.
    pub fn path(&self) -> String {
        format!("{SNAPSHOTS}/{}.db", self.name)
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Snapshotted {
    /// The file.
    pub file: PathState,
    /// Whether its checksum is right.
    pub sound: bool,
}

impl OpKind for EtcdSnapshot {
    type State = Snapshotted;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::file(self.path(), "file 0600 snapshot")]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { resources: vec![Resource::AdminConf], ..Needs::nothing() }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::End
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for EtcdSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "snapshot of etcd in {}", self.path())
    }
}

impl State for Snapshotted {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        vec![&self.file]
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
