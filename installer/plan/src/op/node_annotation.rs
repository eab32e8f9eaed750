//! An annotation that must be on a node.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// An annotation that must be on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeAnnotation {
    /// Node name.
    pub node: String,
    /// Key.
    pub key: String,
    /// Any text.
    pub value: String,
}

/// The annotation's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Annotated {
    /// Whether the API server answers and knows the node.
    pub known: bool,
    /// None if the node does not have the annotation.
    pub value: Option<String>,
}

impl OpKind for NodeAnnotation {
    type State = Annotated;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::sets(Resource::Annotation { node: self.node.clone(), key: self.key.clone() }, &self.value)]
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

impl fmt::Display for NodeAnnotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} with annotation {}={:?}", self.node, self.key, self.value)
    }
}

impl State for Annotated {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
