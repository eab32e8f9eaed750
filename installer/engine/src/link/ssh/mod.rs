//! The link to a host over SSH: its agent is put there, started, and asked.
//!
//! One connection carries the agent's channel and, while blobs are delivered, a second one. When the connection is lost
//! it is made again, and what was asked is asked again: everything the agent does can be asked twice, and a second
//! agent waits until the first has finished what it had started.

mod auth;
mod channel;
mod connection;
mod deliver;
mod endpoint;
mod fetch;
mod hostkey;
mod install;
mod key;
mod secret;
mod session;
mod shared;
mod start;
mod target;
mod texts;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use kubexm_ops::paths::ADMIN_CONF;
use kubexm_plan::op::Depots;
use kubexm_plan::{
    ClusterFacts, Facts, ObservedState, Plan, Probe, ProbeAnswer, SlotProvider, Step, Survey, Wave, ledger, mesh,
};
use kubexm_spec::{Cluster, Digest};
use tokio::sync::Mutex;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::answers;
use super::wire::{Request, Response, Secrets};
use super::{BlobSource, Change, DeliverProgress, Fetched, Link, LinkError, SlotValues};
use channel::{AgentChannel, ChannelError};
use connection::{Connection, NoSession};
use deliver::Interrupted;
use endpoint::unreachable;
use start::open_agent;
use texts::texts_of;

use crate::kubeconfig::AdminKubeconfig;

pub use channel::AgentHello;
pub use install::{AGENT_PATH, AgentBinary, AgentSource, Installed};
pub use secret::{Answered, NoTerminal, Nobody, Password, Prompt, Question};
pub use shared::Shared;
pub use target::{Hop, KeySource, Login, SshOptions, SshTarget};

/// Time for a request that is not a step: a network that is away for 90 s, found out about, and a new connection.
const LOOK: Duration = Duration::from_secs(180);
/// How long a value may take to be made: kubeadm uploads certificates.
const PROVIDE: Duration = Duration::from_secs(120);
/// Beyond a step's own timeout, for the way there and back and for a network that is away for 90 s.
const GRACE: Duration = Duration::from_secs(180);
/// Longest pause between two tries to reconnect.
const MOST_BACKOFF: Duration = Duration::from_secs(10);
/// How long a lost connection is tried again while blobs are delivered.
const RECONNECT: Duration = Duration::from_secs(180);
/// Cut deliveries in a row that brought no byte.
const MOST_STALLS: u32 = 5;
/// Round trips that the clock is measured with; the fastest counts.
const CLOCK_ROUNDS: usize = 3;

/// A connected host.
pub struct SshLink {
    target: SshTarget,
    options: SshOptions,
    agent: AgentBinary,
    installed: Installed,
    hello: AgentHello,
    live: Mutex<Option<Arc<Live>>>,
}

/// A connection with a running agent.
struct Live {
    connection: Connection,
    channel: AgentChannel,
}

impl SshLink {
    /// Connects, puts the agent there when it is not, and starts it. Tries once: the caller is still at the keyboard.
    pub async fn connect(target: SshTarget, options: SshOptions, agent: AgentBinary) -> Result<Self, LinkError> {
        let connection = Connection::open(&target, &options).await?;
        let installed = install::prepare(&connection, &target, &agent, &options.shared).await?;
        let session = connection.only_session().await?;
        match open_agent((&connection, session), &target, &agent, &options, &["agent"]).await {
            Ok((channel, hello)) => {
                let live = Mutex::new(Some(Arc::new(Live { connection, channel })));
                Ok(Self { target, options, agent, installed, hello, live })
            }
            Err(error) => {
                // What we put there goes again, as after a refusal; the first error is the one that matters.
                if let Err(second) = install::remove(&connection, &target, &agent, installed).await {
                    tracing::warn!(host = %target.name, error = %second, "the agent stays on the host");
                }
                Err(error)
            }
        }
    }

    /// Whether this link changed the agent's program on the host. It is the one change made before the plan is accepted.
    pub fn agent_installed(&self) -> bool {
        self.installed != Installed::Present
    }

    /// Whether this link put the agent's program on a host that had none.
    pub fn agent_is_new(&self) -> bool {
        self.installed == Installed::New
    }

    /// The agent's first hello.
    pub fn hello(&self) -> &AgentHello {
        &self.hello
    }

    /// After a refusal: ends the agent and removes what [`Self::connect`] put there.
    pub async fn remove_agent(&self) -> Result<(), LinkError> {
        self.end_agent(self.installed).await
    }

    /// After a run that put the agent on a host without one was rolled back: ends the agent and removes its program.
    pub async fn take_agent_away(&self) -> Result<(), LinkError> {
        self.end_agent(Installed::New).await
    }

    async fn end_agent(&self, installed: Installed) -> Result<(), LinkError> {
        self.close().await;
        let connection = Connection::open(&self.target, &self.options).await?;
        install::remove(&connection, &self.target, &self.agent, installed).await
    }

    /// After confirmation: the program that was there before ours is not needed any more.
    pub async fn keep_agent(&self) -> Result<(), LinkError> {
        if self.installed != Installed::Replaced {
            return Ok(());
        }
        let live = self.live(Instant::now() + LOOK).await?;
        let (session, own) = self.second_session(&live.connection).await?;
        let connection = own.as_ref().unwrap_or(&live.connection);
        install::forget_previous((connection, session), &self.target, &self.agent).await
    }

    /// The credentials of a control plane's admin.conf, for the operator's own kubeconfig.
    pub async fn admin_kubeconfig(&self, cluster: &Cluster, address: &str) -> Result<AdminKubeconfig, LinkError> {
        let Response::AdminKubeconfig { file } = self.ask(&Request::AdminKubeconfig, LOOK).await? else {
            return Err(self.misfit());
        };
        let file = Zeroizing::new(file.0);
        AdminKubeconfig::read(&file, cluster, address).map_err(|error| LinkError::Untrusted {
            host: self.target.name.clone(),
            reason: format!("{ADMIN_CONF} is not accepted: {error}"),
        })
    }

    /// Lets the agent finish what it does and ends it; the host is free afterwards. The link connects again when used.
    pub async fn close(&self) {
        let live = self.live.lock().await.take();
        if let Some(live) = live {
            // An agent that does not answer any more ends when its channel closes.
            let _ = tokio::time::timeout(LOOK, live.channel.ask(&Request::Bye)).await;
        }
    }

    /// The connection as it is, or a new one, tried until `deadline`.
    async fn live(&self, deadline: Instant) -> Result<Arc<Live>, LinkError> {
        let mut slot = self.live.lock().await;
        if let Some(live) = slot.as_ref().filter(|live| !live.channel.is_closed() && !live.connection.is_closed()) {
            return Ok(Arc::clone(live));
        }
        *slot = None;
        let mut backoff = Duration::from_millis(200);
        loop {
            let error = match tokio::time::timeout_at(deadline, self.reconnect()).await {
                Ok(Ok(live)) => return Ok(Arc::clone(slot.insert(Arc::new(live)))),
                Ok(Err(error @ LinkError::Unreachable { .. })) => error,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(unreachable(&self.target, "the lost connection did not come back in time")),
            };
            if Instant::now() + backoff >= deadline {
                return Err(error);
            }
            tracing::info!(host = %self.target.name, %error, "connecting again");
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(MOST_BACKOFF);
        }
    }

    async fn reconnect(&self) -> Result<Live, LinkError> {
        let connection = Connection::open(&self.target, &self.options).await?;
        // The host may have been set back meanwhile.
        install::prepare(&connection, &self.target, &self.agent, &self.options.shared).await?;
        let session = connection.only_session().await?;
        let place = (&connection, session);
        let (channel, _) = open_agent(place, &self.target, &self.agent, &self.options, &["agent"]).await?;
        Ok(Live { connection, channel })
    }

    /// Asks, and asks again on a new connection when the old one is lost, until `limit` is over.
    async fn ask(&self, ask: &Request, limit: Duration) -> Result<Response, LinkError> {
        let deadline = Instant::now() + limit;
        loop {
            let live = self.live(deadline).await?;
            let answer = tokio::time::timeout_at(deadline, live.channel.ask(ask))
                .await
                .map_err(|_| self.failed(format!("the agent did not answer within {} s", limit.as_secs())))?;
            match answer {
                Ok(Response::Failed { text }) => return Err(self.failed(text)),
                Ok(Response::Locked { holder }) => {
                    return Err(LinkError::Locked { host: self.target.name.clone(), holder });
                }
                Ok(answer) => return Ok(answer),
                Err(ChannelError::Lost) => {
                    tracing::info!(host = %self.target.name, "the connection was lost; the request is sent again on a \
                                                              new one");
                    self.forget(&live).await;
                }
                Err(error) => return Err(self.protocol(&error)),
            }
        }
    }

    /// Drops a lost connection, unless another request has already put a new one in its place.
    async fn forget(&self, lost: &Arc<Live>) {
        self.live.lock().await.take_if(|live| Arc::ptr_eq(live, lost));
    }

    /// Node's clock minus ours in milliseconds, and the round trip it was measured with.
    async fn clock(&self) -> Result<(i64, u64), LinkError> {
        let mut best: Option<(i64, u64)> = None;
        for _ in 0..CLOCK_ROUNDS {
            let (begun, before) = (Instant::now(), clock_ms());
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
        LinkError::Op { host: self.target.name.clone(), text }
    }

    fn protocol(&self, error: &ChannelError) -> LinkError {
        LinkError::Protocol { host: self.target.name.clone(), reason: error.to_string() }
    }

    fn misfit(&self) -> LinkError {
        let reason = "the answer does not match the request".to_owned();
        LinkError::Protocol { host: self.target.name.clone(), reason }
    }

    /// A session beside the agent's, on a connection of its own where sshd allows one each (`MaxSessions 1`).
    async fn second_session(
        &self,
        connection: &Connection,
    ) -> Result<(russh::Channel<russh::client::Msg>, Option<Connection>), LinkError> {
        match connection.session().await {
            Ok(session) => Ok((session, None)),
            Err(NoSession::Lost(error)) => Err(error),
            Err(NoSession::Refused) => {
                let own = Connection::open(&self.target, &self.options).await?;
                let session = own.only_session().await?;
                Ok((session, Some(own)))
            }
        }
    }

    /// One try of a delivery, on a channel of its own.
    async fn deliver_once(
        &self,
        blobs: &[(Digest, u64)],
        source: &dyn BlobSource,
        progress: DeliverProgress<'_>,
    ) -> Result<Result<(), Interrupted>, LinkError> {
        let live = self.live(Instant::now() + RECONNECT).await?;
        let opened = async {
            let (session, own) = self.second_session(&live.connection).await?;
            let place = (own.as_ref().unwrap_or(&live.connection), session);
            let (channel, _) = open_agent(place, &self.target, &self.agent, &self.options, &["agent", "store"]).await?;
            Ok((channel, own))
        };
        // A connection of its own lives as long as the delivery.
        let (channel, _own) = match opened.await {
            Ok(opened) => opened,
            Err(LinkError::Unreachable { .. }) => return Ok(Err(Interrupted::Lost { missing: None })),
            Err(error) => return Err(error),
        };
        let ended = deliver::deliver(&channel, blobs, source, progress).await;
        if ended.is_ok() {
            // Its answer says that nothing is left to do there; nothing depends on it.
            let _ = tokio::time::timeout(LOOK, channel.ask(&Request::Bye)).await;
        }
        Ok(ended)
    }
}

#[async_trait]
impl Link for SshLink {
    async fn facts(&self) -> Result<Facts, LinkError> {
        let answer = self.ask(&Request::Facts { host: self.target.name.clone() }, LOOK).await?;
        let Response::Facts { mut facts } = answer else { return Err(self.misfit()) };
        facts.host.clone_from(&self.target.name);
        (facts.clock_offset_ms, facts.round_trip_ms) = self.clock().await?;
        Ok(*facts)
    }

    async fn cluster_facts(&self) -> Result<ClusterFacts, LinkError> {
        let host = self.target.name.clone();
        match self.ask(&Request::ClusterFacts { host }, LOOK).await? {
            Response::ClusterFacts { facts } => answers::cluster_facts(&self.target.name, *facts),
            _ => Err(self.misfit()),
        }
    }

    async fn observe(&self, plan: &Plan, step: &Step, slots: &SlotValues) -> Result<Vec<ObservedState>, LinkError> {
        let ask =
            Request::Observe { step: Box::new(step.clone()), texts: texts_of(plan, step), slots: Secrets::new(slots) };
        let answer = self.ask(&ask, step_limit(step)).await?;
        let Response::Observed { found } = answer else { return Err(self.misfit()) };
        if found.len() == step.ops.len() { Ok(found) } else { Err(self.misfit()) }
    }

    async fn survey(&self, plan: &Plan, steps: &[&Step], slots: &SlotValues) -> Result<Survey, LinkError> {
        let texts = steps.iter().flat_map(|step| texts_of(plan, step)).collect();
        let asked = steps;
        let steps = steps.iter().copied().cloned().collect();
        let ask = Request::Survey { steps, texts, slots: Secrets::new(slots) };
        match self.ask(&ask, LOOK).await? {
            Response::Surveyed { survey } => answers::surveyed(&self.target.name, asked, survey),
            _ => Err(self.misfit()),
        }
    }

    async fn converge(
        &self,
        plan: &Plan,
        step: &Step,
        slots: &SlotValues,
        change: Change<'_>,
    ) -> Result<(), LinkError> {
        let ask = Request::Converge {
            step: Box::new(step.clone()),
            texts: texts_of(plan, step),
            slots: Secrets::new(slots),
            run: change.run.to_owned(),
            sequence: change.sequence,
            before: change.before.to_vec(),
        };
        match self.ask(&ask, step_limit(step)).await? {
            Response::Converged => Ok(()),
            _ => Err(self.misfit()),
        }
    }

    async fn undo(&self, plan: &Plan, step: &Step, change: Change<'_>, wave: Wave) -> Result<(), LinkError> {
        let ask = Request::Undo {
            step: Box::new(step.clone()),
            texts: texts_of(plan, step),
            run: change.run.to_owned(),
            sequence: change.sequence,
            before: change.before.to_vec(),
            wave,
        };
        match self.ask(&ask, step_limit(step)).await? {
            Response::Undone => Ok(()),
            _ => Err(self.misfit()),
        }
    }

    async fn provide(&self, provider: &SlotProvider) -> Result<Vec<u8>, LinkError> {
        match self.ask(&Request::Provide { provider: provider.clone() }, PROVIDE).await? {
            Response::Provided { value } => answers::provided(&self.target.name, provider, value.0),
            _ => Err(self.misfit()),
        }
    }

    async fn ledger(&self) -> Result<Vec<ledger::Record>, LinkError> {
        match self.ask(&Request::Ledger, LOOK).await? {
            Response::Ledger { records } => Ok(records),
            _ => Err(self.misfit()),
        }
    }

    async fn fetch(
        &self,
        blobs: &[(Digest, u64)],
        depots: &Depots,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        self.fetch_from(blobs, depots, progress).await
    }

    async fn listen(&self, ports: &[mesh::Port]) -> Result<(), LinkError> {
        match self.ask(&Request::Listen { ports: ports.to_vec() }, LOOK).await? {
            Response::Listening => Ok(()),
            _ => Err(self.misfit()),
        }
    }

    async fn dial(&self, dials: &[mesh::Dial]) -> Result<Vec<mesh::Dialed>, LinkError> {
        match self.ask(&Request::Dial { dials: dials.to_vec() }, LOOK).await? {
            Response::Dialed { dialed } => answers::dialed(&self.target.name, dials, dialed),
            _ => Err(self.misfit()),
        }
    }

    async fn probe(&self, probe: &Probe) -> Result<ProbeAnswer, LinkError> {
        match self.ask(&Request::Probe { probe: probe.clone() }, LOOK).await? {
            Response::Probed { answer } => Ok(answer),
            _ => Err(self.misfit()),
        }
    }

    async fn deliver(
        &self,
        blobs: &[(Digest, u64)],
        source: &dyn BlobSource,
        progress: DeliverProgress<'_>,
    ) -> Result<(), LinkError> {
        let (mut stalls, mut fewest, mut corrupt) = (0, u64::MAX, None);
        loop {
            let interrupted = match self.deliver_once(blobs, source, progress).await? {
                Ok(()) => return Ok(()),
                Err(interrupted) => interrupted,
            };
            match interrupted {
                Interrupted::Lost { missing } => {
                    let moved = missing.is_some_and(|missing| missing < fewest);
                    fewest = fewest.min(missing.unwrap_or(u64::MAX));
                    stalls = if moved { 0 } else { stalls + 1 };
                    if stalls > MOST_STALLS {
                        return Err(unreachable(&self.target, "the connection breaks whenever blobs are sent"));
                    }
                    tracing::info!(host = %self.target.name, "the transfer was interrupted; continuing");
                    tokio::time::sleep(Duration::from_millis(200) * (stalls + 1)).await;
                }
                // Once it may be what an earlier version left in the part file; twice it is the source.
                Interrupted::Corrupt { digest, found } if corrupt == Some(digest) => {
                    let reason = format!("its bytes hash to {found}; run `kubexm-bundle verify` on the bundle");
                    return Err(LinkError::Source { digest, reason });
                }
                Interrupted::Corrupt { digest, .. } => corrupt = Some(digest),
                Interrupted::Node(text) => return Err(self.failed(text)),
                Interrupted::Source { digest, reason } => return Err(LinkError::Source { digest, reason }),
                Interrupted::Protocol(reason) => {
                    return Err(LinkError::Protocol { host: self.target.name.clone(), reason });
                }
            }
        }
    }

    async fn evidence(&self) -> Result<Vec<(String, String)>, LinkError> {
        match self.ask(&Request::Evidence, LOOK).await? {
            Response::Evidence { files } => Ok(files),
            _ => Err(self.misfit()),
        }
    }

    async fn step_log(&self, run: &str, step: &Step) -> Result<String, LinkError> {
        match self.ask(&Request::StepLog { run: run.to_owned(), step: Box::new(step.clone()) }, LOOK).await? {
            Response::StepLog { text } => Ok(text),
            _ => Err(self.misfit()),
        }
    }
}

fn step_limit(step: &Step) -> Duration {
    Duration::from_secs(step.timeout_s) + GRACE
}

fn clock_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
