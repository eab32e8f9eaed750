//! Values in cluster.yaml that cannot be planned, reported before any host is contacted: planning would find them too,
//! but only after connecting and preflight.

use std::net::IpAddr;

use crate::context::PlanContext;
use crate::error::RecipeError;
use crate::{minors, network, runtime};

/// Addresses of the service network that are in use: 1 is the API's service, 10 is DNS.
const SERVICES: [u32; 2] = [1, 10];

/// kube-controller-manager refuses it with two stacks.
const ONE_MASK: &str = "node-cidr-mask-size";

/// kubelet takes no other as a node's (`validateNodeIP`).
const fn is_of_a_node(ip: IpAddr) -> bool {
    let of_a_link = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local() || ip.to_ipv4_mapped().is_some(),
    };
    !(of_a_link || ip.is_loopback() || ip.is_multicast() || ip.is_unspecified())
}

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
    let seconds = cluster.hosts.iter().filter_map(|host| Some((host, host.second_node_ip()?)));
    problems.extend(
        seconds
            .filter(|(_, ip)| !is_of_a_node(*ip))
            .map(|(host, ip)| RecipeError::BadAddress { host: host.name.clone(), address: ip }),
    );
    let masks =
        cluster.kubernetes.as_ref().is_some_and(|kubernetes| kubernetes.controller_manager_args.contains_key(ONE_MASK));
    if masks && cluster.network.has_two_stacks() {
        problems.push(RecipeError::Unsupported {
            what: format!("spec.kubernetes.controllerManagerArgs.{ONE_MASK} with networks of both families"),
            hint: format!("write {ONE_MASK}-ipv4 and {ONE_MASK}-ipv6 instead"),
        });
    }
    problems.extend(SERVICES.iter().find_map(|n| cx.service_address(*n).err()));
    problems.extend(network::one(cluster).err());
    problems.extend(runtime::unknown_version(cx));
    for platform in &cx.manifest.platforms {
        // A bundle without the program is reported by `bundle::check`.
        if cx.kubernetes_version(*platform).is_ok() {
            problems.extend(cx.kubeadm_api(*platform).err());
        }
    }
    let versions = cx.manifest.platforms.iter().filter_map(|platform| cx.kubernetes_version(*platform).ok());
    let version = versions.filter_map(|version| version.parse().ok()).next();
    problems.extend(version.iter().flat_map(|version| minors::refused(cx, version)));
    problems
}
