//! A cluster with connected hosts: shared by every stage after connecting.

use kubexm_engine::ClusterLock;

use crate::addons::Ahead;
use crate::error::SessionError;
use crate::fleet::Fleet;
use crate::home::ClusterHome;
use crate::session::Session;

/// A cluster with connected hosts.
pub(crate) struct ConnectedCluster<'s, S> {
    pub session: &'s Session<'s>,
    /// The bundle or cluster.yaml that identifies the cluster.
    pub subject: S,
    pub fleet: Fleet,
    /// The cluster's folder.
    pub home: ClusterHome,
    /// Renders charts on this machine.
    pub helm: Ahead,
    /// The cluster's lock; none for stages that only observe.
    pub lock: Option<ClusterLock>,
}

impl<'s, S> ConnectedCluster<'s, S> {
    /// Before confirmation: on an error, removes agents that connecting has installed.
    pub async fn unless_refused<T>(&self, decided: Result<T, SessionError>) -> Result<T, SessionError> {
        if decided.is_err() {
            self.fleet.revert_agents(self.session.events).await;
        }
        decided
    }
}
