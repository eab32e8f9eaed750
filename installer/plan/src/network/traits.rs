//! What is asked of a pod network.

use kubexm_spec::ClusterImage;

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
