//! What in cluster.yaml no plan could be made of, reported before any host is asked: planning would find it too, but after
//! the connections and the preflight.

use crate::context::PlanCx;
use crate::error::RecipeError;
use crate::runtime;

/// Addresses of the service network that are given away: 1 is the API's service, 10 is DNS.
const SERVICES: [u32; 2] = [1, 10];

/// All that is wrong with cluster and bundle by themselves; facts are not looked at.
pub fn check(cx: &PlanCx<'_>) -> Vec<RecipeError> {
    let mut wrong: Vec<RecipeError> = cx.kubernetes().err().into_iter().collect();
    let cluster = cx.cluster;
    if cluster.hosts.is_empty() {
        wrong.push(RecipeError::NoHosts { what: "hosts" });
    } else if cluster.first_control_plane().is_none() {
        wrong.push(RecipeError::NoHosts { what: "control plane" });
    }
    for host in cluster.hosts.iter().filter(|host| host.node_ip().is_none()) {
        wrong.push(RecipeError::NoAddress { host: host.name.clone(), address: host.address.clone() });
    }
    wrong.extend(SERVICES.iter().find_map(|n| cx.service_address(*n).err()));
    wrong.extend(runtime::unknown_version(cx));
    for platform in &cx.manifest.platforms {
        // A bundle without the program is reported by `bundle::check`.
        if cx.kubernetes_version(*platform).is_ok() {
            wrong.extend(cx.kubeadm_api(*platform).err());
        }
    }
    wrong
}
