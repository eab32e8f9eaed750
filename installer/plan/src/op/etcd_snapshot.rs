//! A verified snapshot of etcd in a file of a control plane.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{AfterReset, Needs, OpKind, Scope, State};
use crate::place::Place;
use crate::touch::{Thing, Touch};

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
    pub file: Place,
    /// Whether its checksum is right.
    pub sound: bool,
}

impl OpKind for EtcdSnapshot {
    type State = Snapshotted;

    fn touches(&self) -> Vec<Touch> {
        vec![Touch::file(self.path(), "file 0600 snapshot")]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { things: vec![Thing::AdminConf], ..Needs::nothing() }
    }

    fn scope(&self) -> Scope {
        Scope::End
    }

    fn after_reset(&self) -> AfterReset {
        AfterReset::Restored
    }
}

impl fmt::Display for EtcdSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "snapshot of etcd in {}", self.path())
    }
}

impl State for Snapshotted {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&Place> {
        vec![&self.file]
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
