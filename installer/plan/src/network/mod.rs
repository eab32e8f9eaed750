//! What pod networks create on a node: links, rules, folders, ports, images. One file for each plugin; preflight,
//! recipes, teardown, evidence and the simulation use only these names.

pub mod calico;
pub mod cilium;
mod cluster;
pub mod flannel;
mod hybridnet;
pub mod kube_ovn;
pub mod multus;
pub mod nodelocaldns;
mod none;
mod traits;

use kubexm_spec::cluster::NetworkPlugin;

pub use cluster::{CLUSTER, IPVS, SYSTEM_NAMESPACE};
pub use traits::{Datapath, MarkedRules, NetworkTraits, PodRoutes};

/// Every network that recipes install, multus, which is before one of them, and the DNS cache; the remains of an earlier run may be of any
/// of them.
pub const ALL: [&NetworkTraits; 8] = [
    &flannel::TRAITS,
    &calico::TRAITS,
    &cilium::TRAITS,
    &kube_ovn::TRAITS,
    &hybridnet::TRAITS,
    &none::TRAITS,
    &multus::TRAITS,
    &nodelocaldns::TRAITS,
];

/// Modules of the kernel that a network may need: hosts are asked for all of them.
pub const MODULES: [&str; 5] = ["geneve", "ipip", "openvswitch", "vxlan", "wireguard"];

/// The traits of a plugin.
pub const fn of(plugin: NetworkPlugin) -> &'static NetworkTraits {
    match plugin {
        NetworkPlugin::Flannel => &flannel::TRAITS,
        NetworkPlugin::Calico => &calico::TRAITS,
        NetworkPlugin::Cilium => &cilium::TRAITS,
        NetworkPlugin::KubeOvn => &kube_ovn::TRAITS,
        NetworkPlugin::Hybridnet => &hybridnet::TRAITS,
        NetworkPlugin::None => &none::TRAITS,
    }
}

/// Everything that a kubexm cluster may have on a node: [`CLUSTER`], then every network.
pub fn any() -> impl Iterator<Item = &'static NetworkTraits> {
    [&CLUSTER].into_iter().chain(ALL)
}
