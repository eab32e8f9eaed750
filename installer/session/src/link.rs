//! Connections to hosts: over SSH, or provided by a test.

use std::sync::Arc;

use async_trait::async_trait;
use kubexm_engine::link::ssh::{AgentBinary, SshLink, SshOptions, SshTarget};
use kubexm_engine::link::{Link, LinkError};
use kubexm_spec::Cluster;
use zeroize::Zeroizing;

/// Connects to hosts.
#[async_trait]
pub trait Connector: Send + Sync {
    /// Connects, installs the agent if it is missing, and starts it.
    async fn connect(
        &self,
        target: SshTarget,
        options: SshOptions,
        agent: AgentBinary,
    ) -> Result<Arc<dyn HostLink>, LinkError>;
}

/// A link, with the management of its agent.
#[async_trait]
pub trait HostLink: Send + Sync {
    /// The link for the engine.
    fn link(self: Arc<Self>) -> Arc<dyn Link>;

    /// Whether this link has changed the agent's program on the host.
    fn agent_installed(&self) -> bool;

    /// Whether this link has installed the agent's program on a host that had none.
    fn agent_is_new(&self) -> bool;

    /// After a refusal: stops the agent and removes what connecting has installed.
    async fn revert_agent(&self) -> Result<(), LinkError>;

    /// After the rollback of a run that installed the agent on a host without one: stops the agent and removes its
    /// program.
    async fn delete_agent(&self) -> Result<(), LinkError>;

    /// After confirmation: deletes the earlier version of the program.
    async fn keep_agent(&self) -> Result<(), LinkError>;

    /// The operator's kubeconfig, derived from a control plane's admin.conf; a secret.
    async fn kubeconfig(&self, cluster: &Cluster, address: &str) -> Result<Zeroizing<String>, LinkError>;

    /// Waits for the agent to finish its work and stops it, which unlocks the host.
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

    async fn revert_agent(&self) -> Result<(), LinkError> {
        Self::revert_agent(self).await
    }

    async fn delete_agent(&self) -> Result<(), LinkError> {
        Self::delete_agent(self).await
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
