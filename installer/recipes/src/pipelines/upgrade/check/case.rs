//! What the rules judge.

use kubexm_plan::ClusterFacts;

use crate::context::PlanContext;
use crate::phases::ClusterHosts;
use crate::pipelines::upgrade::found::{Found, FoundNode};
use crate::pipelines::upgrade::options::UpgradeOptions;

/// What is judged.
pub(super) struct Case<'c> {
    pub cx: &'c PlanContext<'c>,
    pub site: &'c ClusterHosts<'c>,
    pub running: &'c ClusterFacts,
    pub found: &'c Found<'c>,
    pub options: &'c UpgradeOptions,
}

/// A reason against the upgrade, or what the operator should know: what was found, and what can be done.
pub(super) type Lines = Vec<String>;

impl Case<'_> {
    /// Whether this node is drained.
    pub(super) const fn drains(&self, node: &FoundNode<'_>) -> bool {
        node.differs() && (node.crosses_minor || self.options.always_drain)
    }

    /// Whether some control plane has to be upgraded.
    pub(super) fn upgrades_a_control_plane(&self) -> bool {
        let planes = &self.cx.cluster.role_groups.control_plane;
        self.found.nodes().any(|(name, node)| node.other_kubernetes && planes.iter().any(|plane| plane == name))
    }
}
