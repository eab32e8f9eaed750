//! The input of a reset plan.

use kubexm_plan::ClusterId;
use kubexm_plan::facts::Facts;
use kubexm_plan::ledger::Record;
use kubexm_spec::Digest;

/// The whole input of the recipe.
#[derive(Clone, Debug)]
pub struct ResetCx<'a> {
    /// `metadata.name`.
    pub cluster: &'a str,
    /// The cluster's id, from the stamps of its hosts.
    pub cluster_id: Option<ClusterId>,
    /// Digest of the bytes of the cluster.yaml that names the hosts.
    pub cluster_digest: Digest,
    /// In the order of cluster.yaml; those that cannot be reached are left out.
    pub hosts: Vec<ResetHost<'a>>,
}

/// A host as observed.
#[derive(Clone, Debug)]
pub struct ResetHost<'a> {
    /// Name in cluster.yaml.
    pub name: &'a str,
    /// Runs a control plane.
    pub control_plane: bool,
    /// Runs pods of users.
    pub worker: bool,
    /// Serves the depot.
    pub registry: bool,
    /// Its facts: the stamp, which names the cluster that it belongs to, and mounts that are not kubexm's.
    pub facts: &'a Facts,
    /// The records of its ledger, in the order they were written.
    pub ledger: &'a [Record],
}

impl ResetHost<'_> {
    /// Whether nothing of kubexm is on it: no stamp and no record. It gets no step.
    pub fn is_clean(&self) -> bool {
        self.facts.stamp.is_none() && self.facts.unreadable_stamp.is_none() && self.ledger.is_empty()
    }
}
