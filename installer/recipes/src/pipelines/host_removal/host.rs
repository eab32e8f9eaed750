//! A host as the removal of kubexm from it needs it.

use kubexm_plan::facts::Facts;
use kubexm_plan::ledger::Record;
use kubexm_spec::cluster::Roles;

/// A host as observed.
#[derive(Clone, Debug)]
pub struct ResetHost<'a> {
    /// Name in cluster.yaml.
    pub name: &'a str,
    /// What it does, as cluster.yaml says.
    pub roles: Roles,
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
