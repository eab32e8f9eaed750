//! Cordons a node.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::{ActKind, Review};
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// Cordons a node, through the API server of a control plane: no new pod comes there. [`super::NodeDrain`] evicts those that are there.
/// Done: the node is cordoned, by whomever; or there is no such node, or this host has no API server any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeCordon {
    /// Node name.
    pub node: String,
    /// Written on the node ([`super::CORDONED_BY`]) in the same request, so that its undo leaves what others have cordoned.
    pub cordoned_by: String,
}

impl ActKind for NodeCordon {
    fn title(&self) -> &'static str {
        "cordon node"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::Node(self.node.clone()))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { resources: vec![Resource::AdminConf, Resource::Api], ..Needs::nothing() }
    }

    fn review(&self) -> Review {
        Review {
            not_a_state: "It is the first half of a drain, and changes one field that other programs change too.",
            done: "The node is cordoned, or the API has no such node, or the host that should ask is no longer a \
                  control plane.",
            half_done: "Cannot be half done: it is one request.",
            rollback: "The node is schedulable again; not if it was cordoned before the run.",
        }
    }

    fn effect(&self) -> Effect<'_> {
        Effect::CordonsNode { node: &self.node, cordoned_by: &self.cordoned_by }
    }
}

impl fmt::Display for NodeCordon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act cordon node {}", self.node)
    }
}
