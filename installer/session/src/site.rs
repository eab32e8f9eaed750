//! A cluster whose hosts are connected: what every stage after connecting has.

use kubexm_engine::ClusterLock;

use crate::error::SessionError;
use crate::fleet::Fleet;
use crate::home::ClusterHome;
use crate::session::Session;

/// The hosts of a cluster, connected.
pub(crate) struct Site<'s, S> {
    pub session: &'s Session<'s>,
    /// What the cluster is known by.
    pub subject: S,
    pub fleet: Fleet,
    /// The cluster's folder.
    pub home: ClusterHome,
    /// Held by what changes hosts; what only looks has none.
    pub lock: Option<ClusterLock>,
}

impl<'s, S> Site<'s, S> {
    /// Before confirmation: when something is refused the agents go again.
    pub async fn unless_refused<T>(&self, decided: Result<T, SessionError>) -> Result<T, SessionError> {
        if decided.is_err() {
            self.fleet.withdraw(self.session.events).await;
        }
        decided
    }
}
