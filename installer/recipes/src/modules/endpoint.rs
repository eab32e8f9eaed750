//! What the control plane's name resolves to, as lines of /etc/hosts.
//!
//! Without a load balancer the name has the addresses of all control planes, the first one's first, on every host. Go
//! programs (kubelet, kube-proxy, kubectl, flanneld, kubeadm) dial them in the order of the file and continue to the next
//! when one does not answer, so a dead first control plane costs a few seconds and not the cluster. A control plane that
//! joins must not have its own address first: kube-apiserver binds its port long before it answers, and kubeadm would
//! wait for the API server that it is about to start.
//!
//! Behind the user's own load balancer (`external`) workers use its address. Control planes connect to each other
//! directly if the balancer's port is also that of the API servers: many balancers do not send a back-end's own
//! connections back to it, and `kubeadm init` runs before there is a healthy back-end. With another port that is not
//! possible, and they use the balancer's address.

use kubexm_spec::cluster::{API_PORT, LoadBalancerMode};

use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;

/// The lines for a host.
pub fn lines<'a>(
    cx: &PlanContext<'a>,
    node: &PlannedHost<'_>,
    nodes: &[PlannedHost<'a>],
) -> Result<Vec<String>, RecipeError> {
    let name = cx.control_plane_name();
    let control_planes = cx.control_planes(nodes)?;
    let direct = control_planes.iter().map(|n| format!("{} {name}", n.ip)).collect();
    Ok(match cx.cluster.load_balancer.mode {
        LoadBalancerMode::None | LoadBalancerMode::Internal { vip: None, .. } => direct,
        LoadBalancerMode::External { port: API_PORT, .. } if node.roles.control_plane => direct,
        LoadBalancerMode::External { vip, .. } | LoadBalancerMode::Internal { vip: Some(vip), .. } => {
            vec![format!("{vip} {name}")]
        }
    })
}

/// `name:port` that clients inside the cluster use (kubeadm's `controlPlaneEndpoint`).
pub fn address(cx: &PlanContext<'_>) -> String {
    format!("{}:{}", cx.control_plane_name(), cx.cluster.control_plane_port())
}
