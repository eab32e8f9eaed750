//! The hosts of a cluster by their roles.

use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;

/// The hosts of a cluster.
#[derive(Debug)]
pub struct ClusterHosts<'a> {
    /// All of them, in the order of cluster.yaml.
    pub nodes: Vec<PlannedHost<'a>>,
    /// The control plane that `kubeadm init` runs on.
    pub first: PlannedHost<'a>,
    /// The other control planes, in the order of their role group.
    pub others: Vec<PlannedHost<'a>>,
}

impl<'a> ClusterHosts<'a> {
    /// The hosts of the cluster that is planned.
    pub fn of(cx: &PlanContext<'a>) -> Result<Self, RecipeError> {
        let nodes = cx.nodes()?;
        let mut others = cx.control_planes(&nodes)?;
        let first = others.remove(0);
        Ok(Self { nodes, first, others })
    }

    /// Workers that are not control planes.
    pub fn workers(&self) -> impl Iterator<Item = &PlannedHost<'a>> {
        self.nodes.iter().filter(|node| node.roles.worker && !node.roles.control_plane)
    }

    /// Hosts that become nodes of the cluster; one that only serves the registry does not.
    pub fn members(&self) -> Vec<PlannedHost<'a>> {
        self.nodes.iter().filter(|node| node.in_cluster()).copied().collect()
    }

    /// The registry's host first, since all others fetch from it; then the first control plane, which the joins wait
    /// for; then in the order of cluster.yaml.
    pub fn in_order(&self) -> Vec<&PlannedHost<'a>> {
        let mut order: Vec<&PlannedHost<'a>> = self.nodes.iter().collect();
        order.sort_by_key(|node| (!node.roles.registry, node.name() != self.first.name()));
        order
    }

    /// Whether this is the host of `kubeadm init`.
    pub fn is_first(&self, node: &PlannedHost<'_>) -> bool {
        node.name() == self.first.name()
    }
}
