//! The session with a host's agent: one connection with a running agent, which is restored when it is lost.

use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::channel::{AgentChannel, AgentHello};
use super::connection::Connection;
use super::endpoint::unreachable;
use super::install::{self, AgentBinary, Installed};
use super::start::open_agent;
use super::{SshOptions, SshTarget};
use crate::link::LinkError;

/// The longest pause between two attempts to reconnect.
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// A connection with a running agent.
pub(super) struct Live {
    pub(super) connection: Connection,
    pub(super) channel: AgentChannel,
}

impl Live {
    fn is_closed(&self) -> bool {
        self.channel.is_closed() || self.connection.is_closed()
    }
}

/// Which host, with which agent, and the connection to it.
pub(super) struct AgentSession {
    pub(super) target: SshTarget,
    pub(super) options: SshOptions,
    pub(super) agent: AgentBinary,
    live: Mutex<Option<Arc<Live>>>,
    /// Since when there is no connection.
    lost: StdMutex<Option<Instant>>,
}

impl AgentSession {
    /// Connects, installs the agent if it is missing, and starts it. Tries once, since the operator is waiting.
    pub(super) async fn open(
        target: SshTarget,
        options: SshOptions,
        agent: AgentBinary,
    ) -> Result<(Self, Installed, AgentHello), LinkError> {
        let connection = Connection::open(&target, &options).await?;
        let installed = install::prepare(&connection, &target, &agent, &options.shared).await?;
        let session = connection.only_session().await?;
        match open_agent((&connection, session), &target, &agent, &options, &["agent"]).await {
            Ok((channel, hello)) => {
                let live = Mutex::new(Some(Arc::new(Live { connection, channel })));
                Ok((Self { target, options, agent, live, lost: StdMutex::default() }, installed, hello))
            }
            Err(error) => {
                // On an error, removes what was installed; the first error is reported.
                if let Err(second) = install::remove(&connection, &target, &agent, installed).await {
                    tracing::warn!(host = %target.name, error = %second, "the agent stays on the host");
                }
                Err(error)
            }
        }
    }

    /// The current connection, or a new one, tried until `deadline`.
    pub(super) async fn live(&self, deadline: Instant) -> Result<Arc<Live>, LinkError> {
        let mut slot = self.live.lock().await;
        if let Some(live) = slot.as_ref().filter(|live| !live.is_closed()) {
            return Ok(Arc::clone(live));
        }
        // Without a connection it was closed on purpose; a host that is gone by now is noticed below.
        if slot.take().is_some() {
            self.note_lost();
        }
        let mut backoff = Duration::from_millis(200);
        loop {
            let error = match tokio::time::timeout_at(deadline, self.reconnect()).await {
                Ok(Ok(live)) => {
                    *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    return Ok(Arc::clone(slot.insert(Arc::new(live))));
                }
                Ok(Err(error @ LinkError::Unreachable { .. })) => error,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(unreachable(&self.target, "the lost connection did not come back in time")),
            };
            self.note_lost();
            if Instant::now() + backoff >= deadline {
                return Err(error);
            }
            tracing::info!(host = %self.target.name, %error, "connecting again");
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(MAX_BACKOFF);
        }
    }

    async fn reconnect(&self) -> Result<Live, LinkError> {
        let connection = Connection::open(&self.target, &self.options).await?;
        // The host may have been restored from a snapshot meanwhile.
        install::prepare(&connection, &self.target, &self.agent, &self.options.shared).await?;
        let session = connection.only_session().await?;
        let place = (&connection, session);
        let (channel, _) = open_agent(place, &self.target, &self.agent, &self.options, &["agent"]).await?;
        Ok(Live { connection, channel })
    }

    /// Takes the connection, to close it on purpose.
    pub(super) async fn take(&self) -> Option<Arc<Live>> {
        self.live.lock().await.take()
    }

    /// Drops a lost connection, unless another request has already replaced it.
    pub(super) async fn forget(&self, lost: &Arc<Live>) {
        if self.live.lock().await.take_if(|live| Arc::ptr_eq(live, lost)).is_some() {
            self.note_lost();
        }
    }

    /// For how long there has been no connection. Keepalives close that to a host that does not answer.
    pub(super) fn lost_for(&self) -> Option<Duration> {
        if self.live.try_lock().is_ok_and(|live| live.as_ref().is_some_and(|live| live.is_closed())) {
            self.note_lost();
        }
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).map(|since| since.elapsed())
    }

    fn note_lost(&self) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
    }
}
