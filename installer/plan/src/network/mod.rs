//! What pod networks are on a node: their links, rules, folders, ports, images. One file for each plugin; preflight,
//! recipes, teardown, evidence and the simulation take every such name from here.

mod cluster;
mod flannel;
mod none;
mod traits;

use kubexm_spec::cluster::NetworkPlugin;

pub use cluster::{CLUSTER, IPVS};
pub use traits::NetworkTraits;

/// Every network that recipes install. What an earlier run left may be of any of them.
pub const ALL: [&NetworkTraits; 2] = [&flannel::TRAITS, &none::TRAITS];

/// Those of a plugin; `None` where no recipe installs it.
pub const fn of(plugin: NetworkPlugin) -> Option<&'static NetworkTraits> {
    match plugin {
        NetworkPlugin::Flannel => Some(&flannel::TRAITS),
        NetworkPlugin::None => Some(&none::TRAITS),
        NetworkPlugin::Calico | NetworkPlugin::Cilium | NetworkPlugin::KubeOvn | NetworkPlugin::Hybridnet => None,
    }
}

/// What any kubexm cluster may have on a node: [`CLUSTER`], then every network.
pub fn any() -> impl Iterator<Item = &'static NetworkTraits> {
    [&CLUSTER].into_iter().chain(ALL)
}
