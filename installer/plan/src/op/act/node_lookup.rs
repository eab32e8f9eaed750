//! Looks up the node object that a join will create.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::ActKind;
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// Checks on a control plane, before a node joins, whether its node object exists: this decides whether the rollback,
/// [`super::NodeDelete`], may delete it. Done: the object exists, or its absence was observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeLookup {
    /// Node name.
    pub node: String,
}

impl ActKind for NodeLookup {
    fn title(&self) -> &'static str {
        "look up node"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::Node(self.node.clone()))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { resources: vec![Resource::AdminConf, Resource::Api], ..Needs::nothing() }
    }

    fn effect(&self) -> Effect<'_> {
        Effect::LooksUpNode { node: &self.node }
    }
}

impl fmt::Display for NodeLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act look up node {}", self.node)
    }
}
