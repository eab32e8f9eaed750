//! Deletes a node object.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::{ActKind, Review};
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// Deletes a node object through the API server of a control plane. Done: the object does not exist, or this host has
/// no API server any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeDelete {
    /// Node name.
    pub node: String,
}

impl ActKind for NodeDelete {
    fn title(&self) -> &'static str {
        "delete node"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::Node(self.node.clone()))]
    }

    /// Without a cluster there is nothing to delete.
    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn review(&self) -> Review {
        Review {
            not_a_state: "kubelet creates the node object in the middle of a join, even if the join fails later, and \
                  is not allowed to delete it.",
            done: "The API has no such node, or the host that should ask is no longer a control plane.",
            half_done: "Cannot be half done: the object exists or not. It is deleted again with \
                  `--ignore-not-found`.",
            rollback: "As the undo of a join it is itself a rollback, and a node that joins again registers again. \
                  As a step of `delete-node` none: labels, taints and annotations go with the object; it comes after \
                  everything on the host that can be rolled back.",
        }
    }

    fn effect(&self) -> Effect<'_> {
        Effect::DeletesNode { node: &self.node }
    }
}

impl fmt::Display for NodeDelete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act delete node {}", self.node)
    }
}
