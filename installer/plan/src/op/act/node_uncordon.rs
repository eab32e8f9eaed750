//! Makes a node schedulable again.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::ActKind;
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// Makes a node schedulable again: the undo of [`super::NodeDrain`], and the end of an upgrade. Evicted pods stay where they are. Done: the node is
/// not cordoned, or somebody else has cordoned it; or there is no such node, or this host has no API server any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeUncordon {
    /// Node name.
    pub node: String,
    /// Only a node that was cordoned on behalf of this ([`super::NodeDrain::cordoned_by`]); none: whoever has cordoned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordoned_by: Option<String>,
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

    fn effect(&self) -> Effect<'_> {
        Effect::UncordonsNode { node: &self.node }
    }
}

impl fmt::Display for NodeUncordon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act uncordon node {}", self.node)?;
        if self.cordoned_by.is_some() { f.write_str(", if kubexm has cordoned it") } else { Ok(()) }
    }
}
