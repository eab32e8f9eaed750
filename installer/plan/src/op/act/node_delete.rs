//! Deletes a node object.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::ActKind;
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

    fn effect(&self) -> Effect<'_> {
        Effect::DeletesNode { node: &self.node }
    }
}

impl fmt::Display for NodeDelete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act delete node {}", self.node)
    }
}
