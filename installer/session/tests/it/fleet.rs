//! The simulated fleet behind a session's connector.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use kubexm_engine::link::ssh::{AgentBinary, SshOptions, SshTarget};
use kubexm_engine::link::{
    BlobSource, Change, DeliverProgress, Fetched, Found, Link, LinkError, ProbeAnswer, SlotValues, Survey,
};
use kubexm_engine::sim::SimFleet;
use kubexm_plan::op::Depots;
use kubexm_plan::{Facts, Plan, Probe, SlotProvider, Step, Wave, ledger, mesh};
use kubexm_recipes::sample;
use kubexm_session::{Connector, HostLink};
use kubexm_spec::{Cluster, Digest};
use zeroize::Zeroizing;

/// Connects to simulated hosts, and counts what becomes of agents there.
pub struct SimConnector {
    pub fleet: SimFleet,
    pub agents: Arc<Agents>,
}

#[derive(Default)]
pub struct Agents {
    pub connected: AtomicUsize,
    pub removed: AtomicUsize,
    pub closed: AtomicUsize,
}

impl SimConnector {
    pub fn new(hosts: &[&str]) -> Self {
        Self { fleet: SimFleet::new(hosts.iter().copied()), agents: Arc::default() }
    }
}

#[async_trait]
impl Connector for SimConnector {
    async fn connect(&self, target: SshTarget, _: SshOptions, _: AgentBinary) -> Result<Arc<dyn HostLink>, LinkError> {
        let link = Arc::clone(&self.fleet.links()[&target.name]);
        self.agents.connected.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(SimHost { link, agents: Arc::clone(&self.agents) }))
    }
}

struct SimHost {
    link: Arc<dyn Link>,
    agents: Arc<Agents>,
}

#[async_trait]
impl HostLink for SimHost {
    fn agent_installed(&self) -> bool {
        true
    }

    fn agent_is_new(&self) -> bool {
        true
    }

    async fn remove_agent(&self) -> Result<(), LinkError> {
        self.agents.removed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn take_agent_away(&self) -> Result<(), LinkError> {
        self.remove_agent().await
    }

    async fn keep_agent(&self) -> Result<(), LinkError> {
        Ok(())
    }

    async fn kubeconfig(&self, cluster: &Cluster, address: &str) -> Result<Zeroizing<String>, LinkError> {
        Ok(Zeroizing::new(format!("{} at {address}", cluster.name)))
    }

    async fn close(&self) {
        self.agents.closed.fetch_add(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl Link for SimHost {
    /// With the modules and programs that every machine has.
    async fn facts(&self) -> Result<Facts, LinkError> {
        let Facts { modules, programs, .. } = sample::facts("node1", 11);
        Ok(Facts { modules, programs, ..self.link.facts().await? })
    }

    async fn observe(&self, plan: &Plan, step: &Step, slots: &SlotValues) -> Result<Vec<Found>, LinkError> {
        self.link.observe(plan, step, slots).await
    }

    async fn survey(&self, plan: &Plan, steps: &[&Step], slots: &SlotValues) -> Result<Survey, LinkError> {
        self.link.survey(plan, steps, slots).await
    }

    async fn converge(
        &self,
        plan: &Plan,
        step: &Step,
        slots: &SlotValues,
        change: Change<'_>,
    ) -> Result<(), LinkError> {
        self.link.converge(plan, step, slots, change).await
    }

    async fn undo(&self, plan: &Plan, step: &Step, change: Change<'_>, wave: Wave) -> Result<(), LinkError> {
        self.link.undo(plan, step, change, wave).await
    }

    async fn provide(&self, provider: &SlotProvider) -> Result<Vec<u8>, LinkError> {
        self.link.provide(provider).await
    }

    async fn ledger(&self) -> Result<Vec<ledger::Record>, LinkError> {
        self.link.ledger().await
    }

    async fn fetch(
        &self,
        blobs: &[(Digest, u64)],
        depots: &Depots,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        self.link.fetch(blobs, depots, progress).await
    }

    async fn listen(&self, ports: &[mesh::Port]) -> Result<(), LinkError> {
        self.link.listen(ports).await
    }

    async fn dial(&self, dials: &[mesh::Dial]) -> Result<Vec<mesh::Dialed>, LinkError> {
        self.link.dial(dials).await
    }

    async fn probe(&self, probe: &Probe) -> Result<ProbeAnswer, LinkError> {
        self.link.probe(probe).await
    }

    async fn deliver(
        &self,
        blobs: &[(Digest, u64)],
        source: &dyn BlobSource,
        progress: DeliverProgress<'_>,
    ) -> Result<(), LinkError> {
        self.link.deliver(blobs, source, progress).await
    }

    async fn evidence(&self) -> Result<Vec<(String, String)>, LinkError> {
        self.link.evidence().await
    }

    async fn step_log(&self, run: &str, step: &Step) -> Result<String, LinkError> {
        self.link.step_log(run, step).await
    }
}
