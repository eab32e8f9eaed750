//! Traits of a pod network.

use kubexm_spec::ClusterImage;

/// What a pod network has on a node. What every cluster has, whatever its network, is [`CLUSTER`].
#[derive(Clone, Copy, Debug)]
pub struct NetworkTraits {
    /// Full names of links.
    pub links: &'static [&'static str],
    /// Bridges: a veth attached to one belongs to a pod.
    pub bridges: &'static [&'static str],
    /// Prefixes of the names of packet-filter chains and sets.
    pub chains: &'static [&'static str],
    /// nftables tables: family and name.
    pub tables: &'static [(&'static str, &'static str)],
    /// Folders below /run that its pods write.
    pub run: &'static [&'static str],
    /// CNI plugins that its pods install.
    pub cni_programs: &'static [&'static str],
    /// Network configurations that its pods write for the runtime.
    pub cni_configs: &'static [&'static str],
    /// Namespaces of its own pods.
    pub namespaces: &'static [&'static str],
    /// UDP ports for traffic between nodes; the kernel listens on them, not a process.
    pub udp_ports: &'static [u16],
    /// Images that every node needs.
    pub images: &'static [ClusterImage],
}

/// A plugin without any traits.
pub(super) const NOTHING: NetworkTraits = NetworkTraits {
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
