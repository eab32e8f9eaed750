//! A taint that must not be on a node.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// A taint that must not be on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeUntainted {
    /// Node name.
    pub node: String,
    /// `node-role.kubernetes.io/control-plane`.
    pub key: String,
}

/// Taints with that key; none if the API server does not answer or does not know the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Taints {
    /// In the node object's order.
    pub taints: Option<Vec<Taint>>,
}

/// One taint, as the node object has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    /// `node-role.kubernetes.io/control-plane`.
    pub key: String,
    /// Often empty.
    #[serde(default)]
    pub value: String,
    /// `NoSchedule`.
    pub effect: String,
}

impl OpKind for NodeUntainted {
    type State = Taints;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::sets(Resource::Taint { node: self.node.clone(), key: self.key.clone() }, "absent")]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { resources: vec![Resource::AdminConf, Resource::Node(self.node.clone())], ..Needs::nothing() }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Cluster
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for NodeUntainted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} without taint {}", self.node, self.key)
    }
}

impl State for Taints {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
