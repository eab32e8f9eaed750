//! A node's object is deleted.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kind::ActKind;
use crate::kind::Needs;
use crate::touch::{Thing, Touch};

/// The node's object is deleted, asked of the API from a control plane. Done: there is no such node, or no API
/// server any more on this host.
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

    fn touches(&self) -> Vec<Touch> {
        vec![Touch::changes(Thing::Node(self.node.clone()))]
    }

    /// Without a cluster there is nothing to delete.
    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }
}

impl fmt::Display for NodeDelete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act delete node {}", self.node)
    }
}
