//! A taint that must be on a node.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback};
use crate::resource::{Resource, ResourceChange};

use super::node_untainted::Taints;

/// A taint that must be on a node. It is identified by key and effect (core/v1): another value is replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeTainted {
    /// Node name.
    pub node: String,
    /// `dedicated`.
    pub key: String,
    /// Often empty.
    pub value: String,
    /// `NoSchedule`.
    pub effect: String,
}

impl NodeTainted {
    /// What identifies it on the node.
    fn id(&self) -> String {
        format!("{}:{}", self.key, self.effect)
    }
}

impl OpKind for NodeTainted {
    /// Those with its key and effect.
    type State = Taints;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let value = if self.value.is_empty() { "present" } else { &self.value };
        vec![ResourceChange::sets(Resource::Taint { node: self.node.clone(), key: self.id() }, value)]
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

impl fmt::Display for NodeTainted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, key, value, effect } = self;
        match value.as_str() {
            "" => write!(f, "node {node} with taint {key}:{effect}"),
            value => write!(f, "node {node} with taint {key}={value}:{effect}"),
        }
    }
}
