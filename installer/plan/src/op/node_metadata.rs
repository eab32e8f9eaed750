//! A label or an annotation that must be on a node.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// A label that must be on a node.
pub type NodeLabel = NodeMetadata<false>;
/// An annotation that must be on a node.
pub type NodeAnnotation = NodeMetadata<true>;

/// A label or an annotation that must be on a node: two kinds of ops with the same data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeMetadata<const ANNOTATION: bool> {
    /// Node name.
    pub node: String,
    /// Key.
    pub key: String,
    /// Of an annotation any text.
    pub value: String,
}

impl<const ANNOTATION: bool> NodeMetadata<ANNOTATION> {
    /// Where it stands in the node object, below `metadata`.
    pub const FIELD: &str = if ANNOTATION { "annotations" } else { "labels" };
}

/// The value that was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeValue {
    /// Whether the API server answers and knows the node.
    pub known: bool,
    /// None if the node does not have the key.
    pub value: Option<String>,
}

impl<const ANNOTATION: bool> OpKind for NodeMetadata<ANNOTATION> {
    type State = NodeValue;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let (node, key) = (self.node.clone(), self.key.clone());
        let resource = if ANNOTATION { Resource::Annotation { node, key } } else { Resource::Label { node, key } };
        vec![ResourceChange::sets(resource, &self.value)]
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

impl<const ANNOTATION: bool> fmt::Display for NodeMetadata<ANNOTATION> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, key, value } = self;
        match ANNOTATION {
            true => write!(f, "node {node} with annotation {key}={value:?}"),
            false => write!(f, "node {node} with label {key}={value}"),
        }
    }
}

impl State for NodeValue {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
