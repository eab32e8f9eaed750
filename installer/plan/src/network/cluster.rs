//! What kubelet, kube-proxy and the CNI reference plugins create on a node, whatever the network plugin.

use super::traits::{NOTHING, NetworkTraits};

/// The interface of kube-proxy's IPVS mode, which has every service address.
pub const IPVS: &str = "kube-ipvs0";

/// The namespace of what kubeadm makes. Sites have pods of their own there, too.
pub const SYSTEM_NAMESPACE: &str = "kube-system";

/// Traits of every cluster, whatever its network.
pub const CLUSTER: NetworkTraits = NetworkTraits {
    links: &[IPVS],
    unmanaged: &[IPVS],
    chains: &["KUBE-", "CNI-"],
    tables: &[("ip", "kube-proxy"), ("ip6", "kube-proxy")],
    namespaces: &[SYSTEM_NAMESPACE],
    // kubeadm's, and the static pod that kubexm puts beside them.
    workloads: &[
        "coredns",
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kube-vip",
    ],
    ..NOTHING
};
