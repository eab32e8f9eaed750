//! typha of Calico: some pods that ask the API servers for all nodes. Upstream wants it from fifty nodes on.

use kubexm_spec::cluster::{Cluster, Host, Taint, TaintEffect};
use serde_json::{Value, json};

use super::manifest::Manifest;
use super::{pool, rollout};

/// As its Deployment, its Service and its container are called.
const TYPHA: &str = "calico-typha";
/// From this many nodes on, upstream puts it between Felix and the API servers.
const LARGE: usize = 50;
/// Upstream: at least three in production, one for 200 nodes, no more than twenty.
const REPLICAS: (usize, usize, usize) = (3, 200, 20);
/// How long one that ends has, in seconds, to send its nodes to the others one after the other. Upstream's five minutes would be waited for in
/// the drain of each node that has one.
const END: u64 = 60;
/// Taints of nodes on which it may start. Upstream's tolerates all of them, also that of a cordoned node: a drain would find it there again
/// each time.
const TOLERATED: [&str; 7] = [
    "CriticalAddonsOnly",
    "node-role.kubernetes.io/control-plane",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/pid-pressure",
];

/// How many there are; none in a small cluster. Each has its port on a node of its own, and one node may be drained.
pub(super) fn replicas(cluster: &Cluster) -> Option<usize> {
    let typha = cluster.network.options.get("typha");
    let option = |name: &str| typha.and_then(|typha| typha.get(name));
    let nodes = rollout::nodes(cluster);
    let (least, each, most) = REPLICAS;
    let replicas = option("replicas").and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    let wanted = option("enabled").and_then(Value::as_bool).unwrap_or(replicas.is_some() || nodes >= LARGE);
    let fits = cluster.hosts.iter().filter(|host| takes(cluster, host)).count();
    let most_here = fits.saturating_sub(1).max(1);
    let wanted = wanted && fits > 0 && pool::is_of(cluster);
    wanted.then(|| replicas.unwrap_or(nodes.div_ceil(each).clamp(least, most)).min(most_here))
}

/// Whether a node may have one: it has no taints of the site.
fn takes(cluster: &Cluster, host: &Host) -> bool {
    let keeps_off = |taint: &Taint| taint.effect != TaintEffect::PreferNoSchedule;
    cluster.roles(&host.name).in_cluster() && !host.taints.iter().any(keeps_off)
}

/// The name of its Service, as Felix reads it.
pub(super) fn service(cluster: &Cluster) -> &'static str {
    replicas(cluster).map_or("none", |_| TYPHA)
}

/// Its objects as the cluster needs them, or none. `api`: the ConfigMap with the API's address.
pub(super) fn patch(cluster: &Cluster, manifest: &mut Manifest, api: &str) {
    let Some(replicas) = replicas(cluster) else {
        return ["Deployment", "Service", "PodDisruptionBudget"].iter().for_each(|kind| manifest.remove(kind, TYPHA));
    };
    manifest.object("Deployment", TYPHA, |mut typha| {
        typha.set("/spec/replicas", replicas);
        typha.set("/spec/template/spec/terminationGracePeriodSeconds", END);
        let tolerations = TOLERATED.map(|key| json!({"key": key, "operator": "Exists"}));
        typha.set("/spec/template/spec/tolerations", tolerations.to_vec());
        typha.container(TYPHA, |mut container| {
            container.takes_env_of(api);
            container.env("TYPHA_SHUTDOWNTIMEOUTSECS", &END.to_string());
        });
    });
}
