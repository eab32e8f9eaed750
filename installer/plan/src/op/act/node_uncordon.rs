//! Makes a node schedulable again.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kind::ActKind;
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// Makes a node schedulable again: the undo of [`super::NodeDrain`], and the end of an upgrade. Evicted pods stay where they are. Done: the node is
/// not cordoned; or there is no such node, or this host has no API server any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeUncordon {
    /// Node name.
    pub node: String,
}

impl ActKind for NodeUncordon {
    fn title(&self) -> &'static str {
        "uncordon node"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::Node(self.node.clone()))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }
}

impl fmt::Display for NodeUncordon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act uncordon node {}", self.node)
    }
}
