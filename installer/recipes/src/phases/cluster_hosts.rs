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
    /// Names of the hosts that serve the content, in the order of their role group.
    registries: Vec<&'a str>,
}

impl<'a> ClusterHosts<'a> {
    /// The hosts of the cluster that is planned.
    pub fn of(cx: &PlanContext<'a>) -> Result<Self, RecipeError> {
        let nodes = cx.nodes()?;
        let mut others = cx.control_planes(&nodes)?;
        let first = others.remove(0);
        let registries = cx.cluster.registry_hosts().into_iter().map(|host| host.name.as_str()).collect();
        Ok(Self { nodes, first, others, registries })
    }

    /// Workers that are not control planes.
    pub fn workers(&self) -> impl Iterator<Item = &PlannedHost<'a>> {
        self.nodes.iter().filter(|node| node.roles.worker && !node.roles.control_plane)
    }

    /// Hosts that become nodes of the cluster; one that only serves the registry does not.
    pub fn members(&self) -> Vec<PlannedHost<'a>> {
        self.nodes.iter().filter(|node| node.in_cluster()).copied().collect()
    }

    /// The registry's hosts first, as their role group names them, since all others fetch from them; then the first control plane, which the joins wait
    /// for; then in the order of cluster.yaml.
    pub fn in_order(&self) -> Vec<&PlannedHost<'a>> {
        let mut order: Vec<&PlannedHost<'a>> = self.nodes.iter().collect();
        let place = |node: &PlannedHost<'_>| self.registries.iter().position(|name| *name == node.name());
        order.sort_by_key(|node| (place(node).unwrap_or(usize::MAX), node.name() != self.first.name()));
        order
    }

    /// Whether this is the host of `kubeadm init`.
    pub fn is_first(&self, node: &PlannedHost<'_>) -> bool {
        node.name() == self.first.name()
    }
}
