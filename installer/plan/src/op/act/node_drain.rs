//! Drains a node.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::ActKind;
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// Cordons a node and evicts its pods, through the API server of a control plane (`kubectl drain`). Budgets
/// (PodDisruptionBudget) are respected. Done: the node is cordoned and has no pods except those of DaemonSets and static
/// pods; or there is no such node, or this host has no API server any more; or its kubelet has the version for which it
/// was to be drained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeDrain {
    /// Node name.
    pub node: String,
    /// How long to wait until every pod is gone, in seconds.
    pub limit_s: u64,
    /// Delete pods that no controller creates again; otherwise such a pod is an error, before anything is evicted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// `v1.35.4`: nothing is evicted from a node whose kubelet reports this version, since the drain was for its upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless_kubelet: Option<String>,
    /// Written on the node ([`CORDONED_BY`]) in the same request that cordons it, so that whoever makes it schedulable again
    /// knows that nobody else has cordoned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordoned_by: Option<String>,
}

/// The annotation of a node that says on whose behalf it was cordoned.
pub const CORDONED_BY: &str = "kubexm.io/cordoned-by";

impl ActKind for NodeDrain {
    fn title(&self) -> &'static str {
        "drain node"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::Node(self.node.clone()))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { resources: vec![Resource::AdminConf, Resource::Api], ..Needs::nothing() }
    }

    fn effect(&self) -> Effect<'_> {
        Effect::DrainsNode {
            node: &self.node,
            cordoned_by: self.cordoned_by.as_deref(),
            unless_kubelet: self.unless_kubelet.as_deref(),
        }
    }
}

impl fmt::Display for NodeDrain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act drain node {} within {} s", self.node, self.limit_s)?;
        if let Some(version) = &self.unless_kubelet {
            write!(f, ", unless its kubelet is {version}")?;
        }
        if self.force { f.write_str(", with pods that have no controller") } else { Ok(()) }
    }
}
