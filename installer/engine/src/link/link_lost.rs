//! A link to a host that could not be reached: every request fails with the reason.
//!
//! With it a run that may leave hosts out can start without one of them; for the engine that host fails like any other.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use kubexm_plan::op::Depots;
use kubexm_plan::{ClusterFacts, Facts, Plan, Probe, SlotProvider, Step, StepDrift, StepId, Wave, ledger, mesh};
use kubexm_spec::Digest;

use super::{
    BlobSource, Change, DeliverProgress, Fetched, Link, LinkError, ObservedState, ProbeAnswer, SlotValues, Survey,
};

/// The link to a host that could not be reached.
#[derive(Clone, Debug)]
pub struct LinkLost {
    host: String,
    address: String,
    reason: String,
    since: Instant,
}

impl LinkLost {
    /// From a connection error; none if the host was reached but refused the login.
    pub fn of(error: &LinkError) -> Option<Self> {
        match error {
            LinkError::Unreachable { host, address, reason } => {
                let (host, address, reason) = (host.clone(), address.clone(), reason.clone());
                Some(Self { host, address, reason, since: Instant::now() })
            }
            _ => None,
        }
    }

    fn why<T>(&self) -> Result<T, LinkError> {
        let Self { host, address, reason, .. } = self.clone();
        Err(LinkError::Unreachable { host, address, reason })
    }
}

#[async_trait]
impl Link for LinkLost {
    fn lost_for(&self) -> Option<Duration> {
        Some(self.since.elapsed())
    }

    async fn answers(&self, _: Duration) -> bool {
        false
    }

    async fn facts(&self) -> Result<Facts, LinkError> {
        self.why()
    }

    async fn cluster_facts(&self) -> Result<ClusterFacts, LinkError> {
        self.why()
    }

    async fn hold(&self) -> Result<(), LinkError> {
        self.why()
    }

    async fn observe(&self, _: &Plan, _: &Step, _: &SlotValues) -> Result<Vec<ObservedState>, LinkError> {
        self.why()
    }

    async fn survey(&self, _: &Plan, _: &[&Step], _: &SlotValues) -> Result<Survey, LinkError> {
        self.why()
    }

    async fn drift(&self, _: &Plan, _: &[&Step], _: &SlotValues) -> Result<Vec<StepDrift>, LinkError> {
        self.why()
    }

    async fn converge(&self, _: &Plan, _: &Step, _: &SlotValues, _: Change<'_>) -> Result<(), LinkError> {
        self.why()
    }

    async fn undo(&self, _: &Plan, _: &Step, _: Change<'_>, _: Wave) -> Result<(), LinkError> {
        self.why()
    }

    async fn provide(&self, _: &SlotProvider) -> Result<Vec<u8>, LinkError> {
        self.why()
    }

    async fn ledger(&self) -> Result<Vec<ledger::Record>, LinkError> {
        self.why()
    }

    async fn fetch(
        &self,
        _: &StepId,
        _: &[(Digest, u64)],
        _: &Depots,
        _: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        self.why()
    }

    async fn listen(&self, _: &[mesh::Port]) -> Result<(), LinkError> {
        self.why()
    }

    async fn dial(&self, _: &[mesh::ConnectionCheck]) -> Result<Vec<mesh::ConnectionResult>, LinkError> {
        self.why()
    }

    async fn probe(&self, _: &Probe) -> Result<ProbeAnswer, LinkError> {
        self.why()
    }

    async fn deliver(&self, _: &[(Digest, u64)], _: &dyn BlobSource, _: DeliverProgress<'_>) -> Result<(), LinkError> {
        self.why()
    }

    async fn evidence(&self) -> Result<Vec<(String, String)>, LinkError> {
        self.why()
    }

    async fn step_log(&self, _: &str, _: &Step) -> Result<String, LinkError> {
        self.why()
    }
}
