//! Drains a node.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::drained_for::DrainedFor;
use super::effect::Effect;
use super::kind::{ActKind, Review};
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
    /// Nothing is evicted from a node that says ([`PACKAGES`]) that it has these packages, since the drain was for them. With
    /// [`Self::unless_kubelet`] both are demanded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless_packages: Option<String>,
    /// Written on the node ([`CORDONED_BY`]) in the same request that cordons it, so that whoever makes it schedulable again
    /// knows that nobody else has cordoned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordoned_by: Option<String>,
}

/// The annotation of a node that says on whose behalf it was cordoned.
pub const CORDONED_BY: &str = "kubexm.io/cordoned-by";

/// The annotation of a node that says which packages of its system an upgrade has brought last.
pub const PACKAGES: &str = "kubexm.io/packages";

impl NodeDrain {
    /// For what the node is drained.
    pub fn drained_for(&self) -> DrainedFor<'_> {
        DrainedFor { kubelet: self.unless_kubelet.as_deref(), packages: self.unless_packages.as_deref() }
    }
}

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

    fn review(&self) -> Review {
        Review {
            not_a_state: "Evicting pods is a request that budgets may refuse, and evicted pods are created again \
                  elsewhere: there is no earlier state to restore.",
            done: "The node is cordoned and has no pods except those of DaemonSets and static pods; or the API has \
                  no such node; or, in an upgrade, the node has what it was to be drained for: its kubelet's version, \
                  the packages of its system ([0050](decisions/0050-when-a-drain-is-done.md)).",
            half_done: "A unit that still runs is awaited. Otherwise `kubectl drain` is run again, which evicts what \
                  is left.",
            rollback: "The node is schedulable again; not if it was cordoned before the run. Pods stay where they \
                  are by then.",
        }
    }

    fn effect(&self) -> Effect<'_> {
        Effect::DrainsNode { node: &self.node, cordoned_by: self.cordoned_by.as_deref(), unless: self.drained_for() }
    }
}

impl fmt::Display for NodeDrain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act drain node {} within {} s", self.node, self.limit_s)?;
        if let Some(version) = &self.unless_kubelet {
            write!(f, ", unless its kubelet is {version}")?;
        }
        if let Some(packages) = &self.unless_packages {
            let joined = if self.unless_kubelet.is_some() { " and" } else { ", unless" };
            write!(f, "{joined} it has the packages {packages}")?;
        }
        if self.force { f.write_str(", with pods that have no controller") } else { Ok(()) }
    }
}
