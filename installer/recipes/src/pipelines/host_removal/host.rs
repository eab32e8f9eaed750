//! A host as the removal of kubexm from it needs it.

use kubexm_plan::facts::Facts;
use kubexm_plan::ledger::Record;

/// A host as observed.
#[derive(Clone, Debug)]
pub struct ResetHost<'a> {
    /// Name in cluster.yaml.
    pub name: &'a str,
    /// Runs a control plane.
    pub control_plane: bool,
    /// Runs pods of users.
    pub worker: bool,
    /// Has a member of an etcd of kubexm's.
    pub etcd: bool,
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
