//! The input of the recipe.

use kubexm_plan::ClusterFacts;
use kubexm_spec::Digest;
use kubexm_spec::cluster::Cluster;

use crate::modules::drain::Drain;
use crate::pipelines::host_removal::ResetHost;

/// The whole input of the recipe.
#[derive(Clone, Debug)]
pub struct DeleteContext<'a> {
    /// Still names the hosts.
    pub cluster: &'a Cluster,
    /// Digest of the bytes of cluster.yaml.
    pub cluster_digest: Digest,
    /// The cluster as it is now.
    pub running: &'a ClusterFacts,
    /// Names of the hosts to delete.
    pub deleted: &'a [String],
    /// Every host that was reached, in the order of cluster.yaml.
    pub hosts: Vec<ResetHost<'a>>,
    /// Hosts that were not reached.
    pub missing: &'a [String],
    /// How the nodes are drained.
    pub drain: Drain,
}
