//! What differs in a created cluster from its cluster.yaml and bundle: on its hosts, and from what was applied last.

use kubexm_engine::drift::Drift;
use kubexm_plan::cluster_facts::applied;
use kubexm_plan::{BundleRecord, CheckedPlan, Op};
use kubexm_spec::cluster::document;

use crate::cluster_facts::{self, Asked};
use crate::drift;
use crate::error::SessionError;
use crate::fields::{ChangedField, changed};
use crate::observe::subject::Subject;
use crate::plan::Checked;

/// A comparison of a whole cluster. Nothing was changed for it.
#[derive(Debug)]
pub struct Comparison {
    pub plan: CheckedPlan,
    /// On the hosts.
    pub drift: Drift,
    /// In cluster.yaml, from what was applied last, in the order of the document. Empty too if nothing says what was applied.
    pub fields: Vec<ChangedField>,
    /// The bundle that was applied last; none if the cluster has no record, or it could not be read.
    pub applied: Option<BundleRecord>,
}

impl Comparison {
    /// Whether nothing differs. Another bundle alone changes nothing on hosts that have what it carries.
    pub fn is_same(&self) -> bool {
        self.drift.steps.is_empty() && self.fields.is_empty()
    }
}

impl<S: Subject> Checked<'_, S> {
    /// Compares hosts and cluster.yaml with what should be there and what was applied, and removes the agents that connecting has
    /// installed.
    ///
    /// # Errors
    /// A host is not in the cluster yet, or does not answer.
    pub async fn compare(self) -> Result<Comparison, SessionError> {
        let compared = self.compared().await;
        let plan = self.leave().await;
        let (drift, fields, applied) = compared?;
        Ok(Comparison { plan, drift, fields, applied })
    }

    async fn compared(&self) -> Result<(Drift, Vec<ChangedField>, Option<BundleRecord>), SessionError> {
        let cluster = self.site.subject.cluster();
        if !self.created {
            return Err(SessionError::NotCreated { cluster: cluster.name.clone() });
        }
        let mut drift = drift::on_hosts(&self.site, &self.plan, &self.authorities).await?;
        // The record of what was applied follows cluster.yaml and the bundle, which are compared by themselves.
        let is_record = |op: &Op| matches!(op, Op::KubeObject(object) if object.name == applied::CONFIG_MAP);
        let plan = self.plan.plan();
        drift.steps.retain(|one| !plan.step(&one.step).is_some_and(|step| step.ops.iter().all(is_record)));
        let running = cluster_facts::trusted(&self.site.fleet, cluster, Asked::ControlPlanes).await?;
        let Some(last) = running.applied else { return Ok((drift, Vec::new(), None)) };
        let mut fields = Vec::new();
        changed("", Some(&last.cluster), Some(&applied::recorded(document(cluster))), &mut fields);
        Ok((drift, fields, Some(last.bundle)))
    }
}
