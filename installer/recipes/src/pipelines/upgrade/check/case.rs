//! What the rules judge.

use kubexm_plan::ClusterFacts;

use crate::context::PlanContext;
use crate::phases::ClusterHosts;
use crate::pipelines::upgrade::found::{Found, FoundNode};
use crate::pipelines::upgrade::members::OwnMembers;
use crate::pipelines::upgrade::options::UpgradeOptions;

/// What is judged.
pub(super) struct Case<'c> {
    pub cx: &'c PlanContext<'c>,
    pub site: &'c ClusterHosts<'c>,
    pub running: &'c ClusterFacts,
    pub found: &'c Found<'c>,
    /// Where etcd is kubexm's own.
    pub own_members: Option<&'c OwnMembers<'c>>,
    pub options: &'c UpgradeOptions,
}

/// A reason against the upgrade, or what the operator should know: what was found, and what can be done.
pub(super) type Lines = Vec<String>;

impl Case<'_> {
    /// How a host leaves the cluster; of an adopted one kubexm-install removes none.
    pub(super) fn removal(&self, host: &str) -> String {
        match crate::adoption::is_adopted(self.cx.cluster, self.cx.facts) {
            true => "remove it with kubeadm".to_owned(),
            false => format!("delete it with `kubexm-install delete-node {host}`"),
        }
    }

    /// Whether this node is drained.
    pub(super) const fn drains(&self, node: &FoundNode<'_>) -> bool {
        node.drains(self.options)
    }

    /// Whether a member of etcd may be stopped: with a control plane, or by itself.
    pub(super) fn stops_members(&self) -> bool {
        self.upgrades_a_control_plane() || self.own_members.is_some_and(|members| members.stops)
    }

    /// Whether some control plane has to be upgraded.
    pub(super) fn upgrades_a_control_plane(&self) -> bool {
        let planes = &self.cx.cluster.role_groups.control_plane;
        self.found.nodes().any(|(name, node)| node.other_kubernetes && planes.iter().any(|plane| plane == name))
    }
}
