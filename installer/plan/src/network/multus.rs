//! Multus before another network, as a thin plugin (multus 4.2: `cmd/install_multus`, `cmd/thin_entrypoint`). Its configuration for the
//! runtime ([`CONFIG`], [`NETWORK`]) is kubexm's, and so not among what its pods write.

use super::traits::{NOTHING, NetworkTraits};

/// Its network configuration for the runtime, which takes the first of the folder. Another name than the one that multus' own pods write
/// (`00-multus.conf`), so that a multus that the operator has installed is not taken for kubexm's.
pub const CONFIG: &str = "/etc/cni/net.d/00-multus-kubexm.conf";
/// Folder in which it finds the network that it is before, and nothing else.
pub const NETWORK: &str = "/etc/cni/multus/network.d";
/// Folder of the kubeconfig that its pods write, with a token that lasts as long as the pod.
pub const CREDENTIALS: &str = "/etc/cni/net.d/multus.d";

/// What it has on a node, beside what its network has.
pub const TRAITS: NetworkTraits = NetworkTraits {
    // What it asked other plugins for is in /var/lib/cni, as theirs is.
    state: &[CREDENTIALS],
    // Of the plugins that networks of a site name, `bridge` and `ptp`.
    unmanaged: &["veth????????"],
    cni_programs: &["/opt/cni/bin/multus", "/opt/cni/bin/passthru"],
    feature_images: &["multus-cni"],
    workloads: &["kube-multus-ds"],
    ..NOTHING
};
