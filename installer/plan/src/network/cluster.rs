//! What kubelet, kube-proxy and the CNI reference plugins make on a node, whatever the network plugin.

use super::traits::{NOTHING, NetworkTraits};

/// The link of kube-proxy's IPVS mode, which holds every service address.
pub const IPVS: &str = "kube-ipvs0";

/// Traits that every cluster has, whatever its network.
pub const CLUSTER: NetworkTraits = NetworkTraits {
    links: &[IPVS],
    chains: &["KUBE-", "CNI-"],
    tables: &[("ip", "kube-proxy"), ("ip6", "kube-proxy")],
    namespaces: &["kube-system"],
    ..NOTHING
};
