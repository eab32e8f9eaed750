//! What only the site knows of a cluster, for the charts whose values are made of it.

use kubexm_manifests::SiteFacts;

use crate::context::{Node, PlanCx};
use crate::error::RecipeError;

/// Addresses of the control planes in the order of the role group, the number of the cluster's nodes, and the address at which nodes
/// find the API server where kube-proxy does not run.
pub fn site_facts<'a>(cx: &PlanCx<'a>, nodes: &[Node<'a>]) -> Result<SiteFacts, RecipeError> {
    let control_planes = cx.control_planes(nodes)?.iter().map(|node| node.ip.to_string()).collect();
    let members = nodes.iter().filter(|node| node.in_cluster()).count();
    Ok(SiteFacts {
        control_planes,
        nodes: u32::try_from(members).unwrap_or(u32::MAX),
        api_host: cx.control_plane_name(),
        api_port: cx.cluster.control_plane_port(),
    })
}
