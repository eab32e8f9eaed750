//! Values in cluster.yaml that cannot be planned, reported before any host is contacted: planning would find them too,
//! but only after connecting and preflight.

use crate::context::PlanContext;
use crate::error::RecipeError;
use crate::runtime;

/// Addresses of the service network that are in use: 1 is the API's service, 10 is DNS.
const SERVICES: [u32; 2] = [1, 10];

/// All problems that cluster.yaml and the bundle show by themselves, without facts about the hosts.
pub fn check(cx: &PlanContext<'_>) -> Vec<RecipeError> {
    let mut problems: Vec<RecipeError> = cx.kubernetes().err().into_iter().collect();
    let cluster = cx.cluster;
    if cluster.hosts.is_empty() {
        problems.push(RecipeError::NoHosts { what: "hosts" });
    } else if cluster.first_control_plane().is_none() {
        problems.push(RecipeError::NoHosts { what: "control plane" });
    }
    for host in cluster.hosts.iter().filter(|host| host.node_ip().is_none()) {
        problems.push(RecipeError::NoAddress { host: host.name.clone(), address: host.address.clone() });
    }
    let one_family = |name: &String| cluster.network.has_two_stacks() && cluster.roles(name).in_cluster();
    for host in cluster.hosts.iter().filter(|host| one_family(&host.name) && host.second_node_ip().is_none()) {
        problems.push(RecipeError::OneFamily { host: host.name.clone() });
    }
    problems.extend(SERVICES.iter().find_map(|n| cx.service_address(*n).err()));
    problems.extend(runtime::unknown_version(cx));
    for platform in &cx.manifest.platforms {
        // A bundle without the program is reported by `bundle::check`.
        if cx.kubernetes_version(*platform).is_ok() {
            problems.extend(cx.kubeadm_api(*platform).err());
        }
    }
    problems
}
