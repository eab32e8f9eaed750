//! The link to a host over SSH: installs the agent, starts it, and sends it requests.
//!
//! One connection has the agent's channel; a second one is used while blobs are delivered. A lost connection is
//! restored and pending requests are repeated: every request to the agent can be repeated, and a second agent waits
//! until the first has finished its work.

mod agent_session;
mod auth;
mod channel;
mod connection;
mod deliver;
mod endpoint;
mod fetch;
mod hostkey;
mod install;
mod key;
mod requests;
mod secret;
mod session;
mod shared;
mod start;
mod target;
mod texts;
mod unwanted;

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use kubexm_ops::paths::ADMIN_CONF;
use kubexm_spec::{Cluster, Digest};
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::answers;
use super::wire::{Request, Response};
use super::{BlobSource, DeliverProgress, LinkError};
use agent_session::AgentSession;
use channel::ChannelError;
use connection::{Connection, NoSession};
use deliver::Interrupted;
use start::open_agent;
use unwanted::Unwanted;

use crate::clock::unix_ms;
use crate::kubeconfig::AdminKubeconfig;

pub use channel::AgentHello;
pub use install::{AGENT_PATH, AgentBinary, AgentSource, Installed};
pub use secret::{Answered, NoTerminal, Nobody, Password, Prompt, Question};
pub use shared::Shared;
pub use target::{Hop, KeySource, Login, SshOptions, SshTarget};

/// Time limit of a request that is not a step: covers a network outage of 90 s with its detection, and a new
/// connection.
const LOOK: Duration = Duration::from_secs(180);
/// How long reconnecting is tried while blobs are delivered.
const RECONNECT: Duration = Duration::from_secs(180);
/// Round trips for measuring the clock; the fastest is used.
const CLOCK_ROUNDS: usize = 3;

/// A connected host.
pub struct SshLink {
    session: AgentSession,
    unwanted: Unwanted,
    installed: Installed,
    hello: AgentHello,
    /// Bytes of states that a run may still keep of this host.
    states_left: AtomicUsize,
}

impl SshLink {
    /// Connects, installs the agent if it is missing, and starts it. Tries once, since the operator is waiting.
    pub async fn connect(target: SshTarget, options: SshOptions, agent: AgentBinary) -> Result<Self, LinkError> {
        let (session, installed, hello) = AgentSession::open(target, options, agent).await?;
        let states_left = AtomicUsize::new(answers::MOST_OF_A_RUN);
        Ok(Self { session, unwanted: Unwanted::default(), installed, hello, states_left })
    }

    /// Whether this link has changed the agent's program on the host: the only change before the plan is confirmed.
    pub fn agent_installed(&self) -> bool {
        self.installed != Installed::Present
    }

    /// Whether this link has installed the agent's program on a host that had none.
    pub fn agent_is_new(&self) -> bool {
        self.installed == Installed::New
    }

    /// The agent's first hello.
    pub fn hello(&self) -> &AgentHello {
        &self.hello
    }

    /// After a refusal: stops the agent and reverts what [`Self::connect`] has installed.
    pub async fn revert_agent(&self) -> Result<(), LinkError> {
        self.end_agent(self.installed).await
    }

    /// After the rollback of a run that installed the agent on a host without one: stops the agent and removes its
    /// program.
    pub async fn delete_agent(&self) -> Result<(), LinkError> {
        self.end_agent(Installed::New).await
    }

    async fn end_agent(&self, installed: Installed) -> Result<(), LinkError> {
        self.close().await;
        let connection = Connection::open(&self.session.target, &self.session.options).await?;
        install::remove(&connection, &self.session.target, &self.session.agent, installed).await
    }

    /// After confirmation: deletes the earlier version of the program.
    pub async fn keep_agent(&self) -> Result<(), LinkError> {
        if self.installed != Installed::Replaced {
            return Ok(());
        }
        let live = self.session.live(Instant::now() + LOOK).await?;
        let (session, own) = self.second_session(&live.connection).await?;
        let connection = own.as_ref().unwrap_or(&live.connection);
        install::forget_previous((connection, session), &self.session.target, &self.session.agent).await
    }

    /// The credentials of a control plane's admin.conf, for the operator's own kubeconfig.
    pub async fn admin_kubeconfig(&self, cluster: &Cluster, address: &str) -> Result<AdminKubeconfig, LinkError> {
        let Response::AdminKubeconfig { file } = self.ask(&Request::AdminKubeconfig, LOOK).await? else {
            return Err(self.misfit());
        };
        let file = Zeroizing::new(file.0);
        AdminKubeconfig::read(&file, cluster, address).map_err(|error| LinkError::Untrusted {
            host: self.session.target.name.clone(),
            reason: format!("{ADMIN_CONF} is not accepted: {error}"),
        })
    }

    /// Waits for the agent to finish its work and stops it, which unlocks the host. The link reconnects if it is used
    /// again.
    pub async fn close(&self) {
        let live = self.session.take().await;
        if let Some(live) = live {
            // An agent that does not answer ends when its channel closes.
            let _ = tokio::time::timeout(LOOK, live.channel.ask(&Request::Bye)).await;
        }
    }

    /// Sends a request, and repeats it on a new connection if the old one is lost, until `limit`.
    async fn ask(&self, ask: &Request, limit: Duration) -> Result<Response, LinkError> {
        let deadline = Instant::now() + limit;
        loop {
            let live = self.session.live(deadline).await?;
            let answer = tokio::time::timeout_at(deadline, live.channel.ask(ask))
                .await
                .map_err(|_| self.failed(format!("the agent did not answer within {} s", limit.as_secs())))?;
            match answer {
                Ok(Response::Failed { text }) => return Err(self.failed(answers::error(text))),
                Ok(Response::Locked { holder, finishing }) => {
                    let holder = answers::error(holder);
                    return Err(LinkError::Locked { host: self.session.target.name.clone(), holder, finishing });
                }
                Ok(answer) => return Ok(answer),
                Err(ChannelError::Lost) => {
                    tracing::info!(host = %self.session.target.name, "the connection was lost; the request is sent again on a \
                                                              new one");
                    self.session.forget(&live).await;
                }
                Err(error) => return Err(self.protocol(&error)),
            }
        }
    }

    /// The node's clock minus the controller's in milliseconds, and the round trip of the measurement.
    async fn clock(&self) -> Result<(i64, u64), LinkError> {
        let mut best: Option<(i64, u64)> = None;
        for _ in 0..CLOCK_ROUNDS {
            let (begun, before) = (Instant::now(), unix_ms());
            let Response::Pong { clock_ms } = self.ask(&Request::Ping, LOOK).await? else { return Err(self.misfit()) };
            let trip = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let middle = before.saturating_add_unsigned(trip / 2);
            if best.is_none_or(|(_, fastest)| trip < fastest) {
                best = Some((clock_ms.saturating_sub(middle), trip));
            }
        }
        best.ok_or_else(|| self.misfit())
    }

    fn failed(&self, text: String) -> LinkError {
        LinkError::Op { host: self.session.target.name.clone(), text }
    }

    fn protocol(&self, error: &ChannelError) -> LinkError {
        LinkError::Protocol { host: self.session.target.name.clone(), reason: error.to_string() }
    }

    fn misfit(&self) -> LinkError {
        let reason = "the answer does not match the request".to_owned();
        LinkError::Protocol { host: self.session.target.name.clone(), reason }
    }

    /// A second session, on a separate connection if sshd allows only one session each (`MaxSessions 1`).
    async fn second_session(
        &self,
        connection: &Connection,
    ) -> Result<(russh::Channel<russh::client::Msg>, Option<Connection>), LinkError> {
        match connection.session().await {
            Ok(session) => Ok((session, None)),
            Err(NoSession::Lost(error)) => Err(error),
            Err(NoSession::Refused) => {
                let own = Connection::open(&self.session.target, &self.session.options).await?;
                let session = own.only_session().await?;
                Ok((session, Some(own)))
            }
        }
    }

    /// One attempt of a delivery, on a separate channel.
    async fn deliver_once(
        &self,
        blobs: &[(Digest, u64)],
        source: &dyn BlobSource,
        progress: DeliverProgress<'_>,
    ) -> Result<Result<(), Interrupted>, LinkError> {
        let live = self.session.live(Instant::now() + RECONNECT).await?;
        let opened = async {
            let (session, own) = self.second_session(&live.connection).await?;
            let place = (own.as_ref().unwrap_or(&live.connection), session);
            let (channel, _) = open_agent(
                place,
                &self.session.target,
                &self.session.agent,
                &self.session.options,
                &["agent", "store"],
            )
            .await?;
            Ok((channel, own))
        };
        // A separate connection is kept until the delivery ends.
        let (channel, _own) = match opened.await {
            Ok(opened) => opened,
            Err(LinkError::Unreachable { .. }) => return Ok(Err(Interrupted::Lost { missing: None })),
            Err(error) => return Err(error),
        };
        let ended = deliver::deliver(&channel, blobs, source, progress).await;
        if ended.is_ok() {
            // The answer only shows that nothing is left to do; nothing depends on it.
            let _ = tokio::time::timeout(LOOK, channel.ask(&Request::Bye)).await;
        }
        Ok(ended)
    }
}
