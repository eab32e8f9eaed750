//! Calico's pool of addresses. The first of its nodes makes it from the manifest, once: what it is does not follow a changed manifest.

use kubexm_spec::cluster::{Cluster, NetworkPlugin};
use serde_json::Value;

/// Calico's own values.
pub(super) const ENCAPSULATION: &str = "VXLAN";
pub(super) const BLOCK_SIZE: u64 = 26;
pub(super) const NAT_OUTGOING: bool = true;

/// Whether a cluster has Calico.
pub(super) fn is_of(cluster: &Cluster) -> bool {
    cluster.network.plugin == NetworkPlugin::Calico
}

/// How packets travel between nodes, in the words of cluster.yaml.
pub(super) fn encapsulation(cluster: &Cluster) -> &str {
    cluster.network.options.get("encapsulation").and_then(Value::as_str).unwrap_or(ENCAPSULATION)
}

/// Which packets between nodes travel inside others, in the words of upstream's pool: all, those to nodes of another network, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Encapsulation {
    pub vxlan: &'static str,
    pub ipip: &'static str,
}

impl Encapsulation {
    pub(super) fn of(cluster: &Cluster) -> Self {
        const NEVER: &str = "Never";
        let (vxlan, ipip) = match encapsulation(cluster) {
            "VXLANCrossSubnet" => ("CrossSubnet", NEVER),
            "IPIP" => (NEVER, "Always"),
            "IPIPCrossSubnet" => (NEVER, "CrossSubnet"),
            "None" => (NEVER, NEVER),
            _ => ("Always", NEVER),
        };
        Self { vxlan, ipip }
    }

    /// Whether nodes learn by BGP where pods are: Felix sets routes for VXLAN only.
    pub(super) fn needs_bird(self) -> bool {
        self.vxlan == "Never"
    }
}

/// Whether nodes of a cluster tell each other by BGP where pods are.
pub(super) fn has_bird(cluster: &Cluster) -> bool {
    is_of(cluster) && Encapsulation::of(cluster).needs_bird()
}

/// What else can be chosen where each node sends packets for pods to the other node itself, whatever is between them; none where it does not.
pub(super) fn needs_one_link(cluster: &Cluster) -> Option<&'static str> {
    let plain = is_of(cluster) && encapsulation(cluster) == "None";
    plain.then_some("set `spec.network.options.encapsulation` to `IPIPCrossSubnet` or `VXLANCrossSubnet`")
}

/// The prefix length of a node's share.
pub(super) fn block_size(cluster: &Cluster) -> u64 {
    cluster.network.options.get("blockSize").and_then(Value::as_u64).unwrap_or(BLOCK_SIZE)
}

/// Whether packets to the outside have the node's address.
pub(super) fn nat_outgoing(cluster: &Cluster) -> bool {
    cluster.network.options.get("natOutgoing").and_then(Value::as_bool).unwrap_or(NAT_OUTGOING)
}

/// How many nodes the pool has a share for; none if that is no question.
pub fn shares(cluster: &Cluster) -> Option<u64> {
    let free = block_size(cluster).checked_sub(u64::from(cluster.network.pod_cidr.prefix_len()))?;
    is_of(cluster).then(|| 1_u64.checked_shl(u32::try_from(free).unwrap_or(u32::MAX)).unwrap_or(u64::MAX))
}
