//! The DNS cache of a node (`node-cache` of kubernetes/dns, `cmd/node-cache`): it makes a link for the addresses that it answers on, and
//! rules that keep their packets out of connection tracking. When its pod is stopped in order, it takes both away itself.

use super::traits::{NOTHING, NetworkTraits};

/// Where its metrics are, on every address of the node, as in upstream's manifest.
pub const METRICS_PORT: u16 = 9253;
/// Where it answers whether it works, on its own address. Upstream's 8080 is what many programs of a site have.
pub const HEALTH_PORT: u16 = 9254;
/// Where the program counts its own faults.
const SETUP_METRICS_PORT: u16 = 9353;

/// What it has on a node.
pub const TRAITS: NetworkTraits = NetworkTraits {
    links: &["nodelocaldns"],
    unmanaged: &["nodelocaldns"],
    rule_comments: &["NodeLocal DNS Cache:"],
    local_ports: &[METRICS_PORT, HEALTH_PORT, SETUP_METRICS_PORT],
    feature_images: &["k8s-dns-node-cache"],
    ..NOTHING
};
