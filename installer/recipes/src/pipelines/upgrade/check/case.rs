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

/// Characters of a text that a control plane says of a member or a pod.
const MOST_OF_A_NAME: usize = 100;

/// What a control plane says of a member or a pod, between words of ours: it looks like no command.
pub(super) fn said(text: &str) -> String {
    text.chars().take(MOST_OF_A_NAME).flat_map(char::escape_debug).map(|c| if c == '`' { '\'' } else { c }).collect()
}

/// A reason against the upgrade, or what the operator should know: what was found, and what can be done.
pub(super) type Lines = Vec<String>;

impl Case<'_> {
    /// How a host leaves the cluster; of an adopted one kubexm-install removes none. What a control plane calls so, and cluster.yaml does
    /// not have, is no part of a command that somebody pastes.
    pub(super) fn removal(&self, host: &str) -> String {
        if crate::adoption::is_adopted(self.cx.cluster, self.cx.facts) {
            return "remove it with kubeadm".to_owned();
        }
        match self.cx.cluster.host(host) {
            Some(host) => format!("delete it with `kubexm-install delete-node {}`", host.name),
            None => "it is no host of cluster.yaml: remove it with etcdctl".to_owned(),
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
