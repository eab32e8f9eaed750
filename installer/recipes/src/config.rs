//! Values in cluster.yaml that cannot be planned, reported before any host is contacted: planning would find them too,
//! but only after connecting and preflight.

use crate::context::PlanCx;
use crate::error::RecipeError;
use crate::runtime;

/// Addresses of the service network that are in use: 1 is the API's service, 10 is DNS.
const SERVICES: [u32; 2] = [1, 10];

/// All problems of the cluster and the bundle themselves, without facts.
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
