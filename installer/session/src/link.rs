//! How hosts are connected to: over SSH, or as a test says.

use std::sync::Arc;

use async_trait::async_trait;
use kubexm_engine::link::ssh::{AgentBinary, SshLink, SshOptions, SshTarget};
use kubexm_engine::link::{Link, LinkError};
use kubexm_spec::Cluster;
use zeroize::Zeroizing;

/// Makes links to hosts.
#[async_trait]
pub trait Connector: Send + Sync {
    /// Connects, puts the agent there when it is not, and starts it.
    async fn connect(
        &self,
        target: SshTarget,
        options: SshOptions,
        agent: AgentBinary,
    ) -> Result<Arc<dyn HostLink>, LinkError>;
}

/// A link, and what becomes of the agent at its other end.
#[async_trait]
pub trait HostLink: Send + Sync {
    /// The link itself, as the engine takes it.
    fn link(self: Arc<Self>) -> Arc<dyn Link>;

    /// Whether this link changed the agent's program on the host.
    fn agent_installed(&self) -> bool;

    /// Whether this link put the agent's program on a host that had none.
    fn agent_is_new(&self) -> bool;

    /// After a refusal: ends the agent and removes what connecting put there.
    async fn remove_agent(&self) -> Result<(), LinkError>;

    /// After the rollback of a run that put the agent on a host without one: ends the agent and removes its program.
    async fn take_agent_away(&self) -> Result<(), LinkError>;

    /// After confirmation: the program that was there before ours is not needed any more.
    async fn keep_agent(&self) -> Result<(), LinkError>;

    /// The operator's kubeconfig, made from a control plane's admin.conf; a secret.
    async fn kubeconfig(&self, cluster: &Cluster, address: &str) -> Result<Zeroizing<String>, LinkError>;

    /// Lets the agent finish what it does and ends it; the host is free afterwards.
    async fn close(&self);
}

/// Connects over SSH.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ssh;

#[async_trait]
impl Connector for Ssh {
    async fn connect(
        &self,
        target: SshTarget,
        options: SshOptions,
        agent: AgentBinary,
    ) -> Result<Arc<dyn HostLink>, LinkError> {
        Ok(Arc::new(SshLink::connect(target, options, agent).await?))
    }
}

#[async_trait]
impl HostLink for SshLink {
    fn link(self: Arc<Self>) -> Arc<dyn Link> {
        self
    }

    fn agent_installed(&self) -> bool {
        Self::agent_installed(self)
    }

    fn agent_is_new(&self) -> bool {
        Self::agent_is_new(self)
    }

    async fn remove_agent(&self) -> Result<(), LinkError> {
        Self::remove_agent(self).await
    }

    async fn take_agent_away(&self) -> Result<(), LinkError> {
        Self::take_agent_away(self).await
    }

    async fn keep_agent(&self) -> Result<(), LinkError> {
        Self::keep_agent(self).await
    }

    async fn kubeconfig(&self, cluster: &Cluster, address: &str) -> Result<Zeroizing<String>, LinkError> {
        Ok(self.admin_kubeconfig(cluster, address).await?.render(cluster, address))
    }

    async fn close(&self) {
        Self::close(self).await;
    }
}
