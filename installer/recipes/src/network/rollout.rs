//! How the pods of a network are replaced on all nodes, and how long that takes.

use kubexm_spec::cluster::Cluster;

use crate::modules::release;

/// One pod in ten is replaced at once, rounded up.
pub(super) const AT_ONCE: &str = "10%";
/// How long a node's pod takes to end and to be ready again, its image being there, in seconds.
const ROUND: u64 = 60;

/// How many nodes a cluster has.
pub(super) fn nodes(cluster: &Cluster) -> usize {
    cluster.hosts.iter().filter(|host| cluster.roles(&host.name).in_cluster()).count()
}

/// How long to wait for the pods, in seconds: those of all nodes may have to be replaced, some at once.
pub(super) fn wait(cluster: &Cluster) -> u64 {
    let nodes = nodes(cluster);
    let rounds = nodes.div_ceil(nodes.div_ceil(10).max(1));
    release::WAIT + ROUND * u64::try_from(rounds).unwrap_or(10)
}
