//! What pod networks create on a node: links, rules, folders, ports, images. One file for each plugin; preflight,
//! recipes, teardown, evidence and the simulation use only these names.

pub mod calico;
mod cilium;
mod cluster;
pub mod flannel;
pub mod multus;
pub mod nodelocaldns;
mod none;
mod traits;

use kubexm_spec::cluster::NetworkPlugin;

pub use cluster::{CLUSTER, IPVS, SYSTEM_NAMESPACE};
pub use traits::{NetworkTraits, PodRoutes};

/// Every network that recipes install, multus, which is before one of them, and the DNS cache; the remains of an earlier run may be of any
/// of them.
pub const ALL: [&NetworkTraits; 6] =
    [&flannel::TRAITS, &calico::TRAITS, &cilium::TRAITS, &none::TRAITS, &multus::TRAITS, &nodelocaldns::TRAITS];

/// The traits of a plugin; `None` if no recipe installs it.
pub const fn of(plugin: NetworkPlugin) -> Option<&'static NetworkTraits> {
    match plugin {
        NetworkPlugin::Flannel => Some(&flannel::TRAITS),
        NetworkPlugin::Calico => Some(&calico::TRAITS),
        NetworkPlugin::Cilium => Some(&cilium::TRAITS),
        NetworkPlugin::None => Some(&none::TRAITS),
        NetworkPlugin::KubeOvn | NetworkPlugin::Hybridnet => None,
    }
}

/// Everything that a kubexm cluster may have on a node: [`CLUSTER`], then every network.
pub fn any() -> impl Iterator<Item = &'static NetworkTraits> {
    [&CLUSTER].into_iter().chain(ALL)
}
