//! What the control plane's name resolves to, as lines of /etc/hosts.
//!
//! Without a load balancer the name has the addresses of all control planes, the first one's first, on every host. Go
//! programs (kubelet, kube-proxy, kubectl, flanneld, kubeadm) dial them in the order of the file and continue to the next
//! when one does not answer, so a dead first control plane costs a few seconds and not the cluster. A control plane that
//! joins must not have its own address first: kube-apiserver binds its port long before it answers, and kubeadm would
//! wait for the API server that it is about to start.
//!
//! With a proxy on every worker (`internal`) the name leads to the host's own 127.0.0.1 there, and after it to the control
//! planes as without one. So a worker joins through a control plane, before its kubelet can start the proxy, and nothing is
//! switched afterwards: clients dial 127.0.0.1 first, and when nothing listens there the next address. The pods of the host's
//! network, which get a copy of /etc/hosts when they start, have the same lines whenever that was.
//!
//! Behind a load balancer on other hosts (`external`), the user's own or kubexm's, workers use its address. Control planes connect to each other
//! directly if the balancer's port is also that of the API servers: many balancers do not send a back-end's own
//! connections back to it, and `kubeadm init` runs before there is a healthy back-end. With another port that is not
//! possible, and they use the balancer's address.

use kubexm_spec::cluster::{API_PORT, LoadBalancerMode};

use crate::balancer;
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
    let proxied = balancer::on(cx.cluster, node.roles).map(|_| format!("{} {name}", std::net::Ipv4Addr::LOCALHOST));
    let direct = proxied.into_iter().chain(control_planes.iter().map(|n| format!("{} {name}", n.ip))).collect();
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
