//! What pod networks are on a node: their links, rules, folders, ports, images. One file for each plugin; preflight,
//! recipes, teardown, evidence and the simulation take every such name from here.

mod cluster;
mod flannel;
mod none;

use kubexm_spec::ClusterImage;
use kubexm_spec::cluster::NetworkPlugin;

pub use cluster::{CLUSTER, IPVS};

/// A pod network as a node shows it. What every cluster has, whatever its network, is [`CLUSTER`].
#[derive(Clone, Copy, Debug)]
pub struct NetworkTraits {
    /// Links by their whole names.
    pub links: &'static [&'static str],
    /// Bridges: a veth that hangs on one is a pod's.
    pub bridges: &'static [&'static str],
    /// How chains and sets of packet filters begin.
    pub chains: &'static [&'static str],
    /// Tables of nftables: family and name.
    pub tables: &'static [(&'static str, &'static str)],
    /// Folders below /run that its pods fill.
    pub run: &'static [&'static str],
    /// CNI plugins that its pods bring themselves.
    pub cni_programs: &'static [&'static str],
    /// The network configuration that its pods write for the runtime.
    pub cni_configs: &'static [&'static str],
    /// Namespaces of its own pods.
    pub namespaces: &'static [&'static str],
    /// UDP ports on which nodes reach each other; the kernel listens, no process does.
    pub udp_ports: &'static [u16],
    /// Images that every node must have.
    pub images: &'static [ClusterImage],
}

/// A plugin that brings nothing.
const NOTHING: NetworkTraits = NetworkTraits {
    links: &[],
    bridges: &[],
    chains: &[],
    tables: &[],
    run: &[],
    cni_programs: &[],
    cni_configs: &[],
    namespaces: &[],
    udp_ports: &[],
    images: &[],
};

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

/// What any cluster of ours may have on a node: [`CLUSTER`], then every network.
pub fn any() -> impl Iterator<Item = &'static NetworkTraits> {
    [&CLUSTER].into_iter().chain(ALL)
}
