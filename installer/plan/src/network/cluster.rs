//! What kubelet, kube-proxy and the CNI reference plugins create on a node, whatever the network plugin.

use super::traits::{NOTHING, NetworkTraits};

/// The interface of kube-proxy's IPVS mode, which has every service address.
pub const IPVS: &str = "kube-ipvs0";

/// Traits of every cluster, whatever its network.
pub const CLUSTER: NetworkTraits = NetworkTraits {
    links: &[IPVS],
    chains: &["KUBE-", "CNI-"],
    tables: &[("ip", "kube-proxy"), ("ip6", "kube-proxy")],
    namespaces: &["kube-system"],
    ..NOTHING
};
