//! A node's object is awaited.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kind::ActKind;
use crate::kind::Needs;
use crate::touch::{Thing, Touch};

/// A node's object is awaited, on a control plane and before the node joins: what is seen here tells whether the
/// rollback, [`super::NodeDelete`], may delete it. Done: there is such a node, or it was just seen that there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeAwaited {
    /// Node name.
    pub node: String,
}

impl ActKind for NodeAwaited {
    fn title(&self) -> &'static str {
        "await node"
    }

    fn touches(&self) -> Vec<Touch> {
        vec![Touch::changes(Thing::Node(self.node.clone()))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { things: vec![Thing::AdminConf, Thing::Api], ..Needs::nothing() }
    }
}

impl fmt::Display for NodeAwaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act await node {}", self.node)
    }
}
