//! The simulated fleet behind a session's connector.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use kubexm_engine::link::ssh::{AgentBinary, SshOptions, SshTarget};
use kubexm_engine::link::{Link, LinkError};
use kubexm_engine::sim::SimFleet;
use kubexm_session::{Connector, HostLink};
use kubexm_spec::Cluster;
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
    /// Hosts send a kubeconfig that is not accepted.
    pub lies: AtomicBool,
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
        // A host that is cut off is not connected to.
        link.facts().await?;
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
    fn link(self: Arc<Self>) -> Arc<dyn Link> {
        Arc::clone(&self.link)
    }

    fn agent_installed(&self) -> bool {
        true
    }

    fn agent_is_new(&self) -> bool {
        true
    }

    async fn revert_agent(&self) -> Result<(), LinkError> {
        self.agents.removed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn delete_agent(&self) -> Result<(), LinkError> {
        self.revert_agent().await
    }

    async fn keep_agent(&self) -> Result<(), LinkError> {
        Ok(())
    }

    async fn kubeconfig(&self, cluster: &Cluster, address: &str) -> Result<Zeroizing<String>, LinkError> {
        match self.agents.lies.load(Ordering::Relaxed) {
            true => Err(LinkError::Untrusted { host: "red1".to_owned(), reason: "a field `exec`".to_owned() }),
            false => Ok(Zeroizing::new(format!("{} at {address}", cluster.name))),
        }
    }

    async fn close(&self) {
        self.agents.closed.fetch_add(1, Ordering::Relaxed);
    }
}
