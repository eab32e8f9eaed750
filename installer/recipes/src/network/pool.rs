//! Calico's pool of addresses. The first of its nodes makes it from the manifest, once: what it is does not follow a changed manifest.

use kubexm_plan::ClusterFacts;
use kubexm_spec::cluster::{Cluster, Keyword as _, NetworkPlugin};
use serde_json::{Map, Value};

/// Calico's own.
const ENCAPSULATION: &str = "VXLAN";
const BLOCK_SIZE: u64 = 26;
const NAT_OUTGOING: bool = true;

/// Whether a cluster has Calico.
pub(super) fn is_of(cluster: &Cluster) -> bool {
    cluster.network.plugin == NetworkPlugin::Calico
}

/// How packets travel between nodes, in the words of cluster.yaml.
pub(super) fn encapsulation(cluster: &Cluster) -> &str {
    cluster.network.options.get("encapsulation").and_then(Value::as_str).unwrap_or(ENCAPSULATION)
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

/// What was applied to it and is something else in cluster.yaml, as text for people.
pub(super) fn changed(cluster: &Cluster, running: &ClusterFacts) -> Vec<String> {
    let Some(network) = running.applied.as_ref().and_then(|applied| applied.cluster.pointer("/spec/network")) else {
        return Vec::new();
    };
    if !is_of(cluster) {
        return Vec::new();
    }
    let plugin = network.get("plugin").and_then(Value::as_str).unwrap_or(NetworkPlugin::default().word());
    let wanted = cluster.network.plugin.word();
    if plugin != wanted {
        return vec![format!("spec.network.plugin is {wanted}, and the cluster has {plugin}")];
    }
    let nothing = Map::new();
    let before = network.get("options").and_then(Value::as_object).unwrap_or(&nothing);
    let defaults = [
        ("encapsulation", Value::from(ENCAPSULATION)),
        ("blockSize", BLOCK_SIZE.into()),
        ("natOutgoing", NAT_OUTGOING.into()),
    ];
    let differs = |(name, default): &(&str, Value)| {
        let value = |options: &Map<String, Value>| options.get(*name).unwrap_or(default).clone();
        let (before, now) = (value(before), value(&cluster.network.options));
        (before != now)
            .then(|| format!("spec.network.options.{name} is {}, and the cluster has {}", plain(&now), plain(&before)))
    };
    defaults.iter().filter_map(differs).collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
