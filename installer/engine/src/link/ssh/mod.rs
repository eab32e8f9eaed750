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
mod secret;
mod session;
mod shared;
mod start;
mod target;
mod texts;
mod unwanted;

use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use kubexm_ops::paths::ADMIN_CONF;
use kubexm_plan::addons::{AddonsAsk, InstalledAddons};
use kubexm_plan::backup::{BackupAnswer, BackupAsk};
use kubexm_plan::depot::DepotContent;
use kubexm_plan::etcd_check::{EtcdAnswer, EtcdAsk};
use kubexm_plan::op::Depots;
use kubexm_plan::{
    ClusterFacts, Facts, ObservedState, Plan, Probe, ProbeAnswer, SlotProvider, Step, StepDrift, StepId, Survey, Wave,
    ledger, mesh,
};
use kubexm_spec::{Cluster, Digest};
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::answers;
use super::wire::{Request, Response, Secret, Secrets};
use super::{BlobSource, Change, DeliverProgress, Fetched, Link, LinkError, RunIdentity, SlotValues};
use agent_session::AgentSession;
use channel::ChannelError;
use connection::{Connection, NoSession};
use deliver::Interrupted;
use endpoint::unreachable;
use start::open_agent;
use texts::texts_of;
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
/// Time limit of a snapshot of etcd with its trial restore and its archive.
const BACKUP: Duration = Duration::from_secs(3_600);
/// Time limit for making a value: kubeadm uploads certificates.
const PROVIDE: Duration = Duration::from_secs(120);
/// Added to a step's own timeout, for transmission and a network outage of 90 s.
const GRACE: Duration = Duration::from_secs(180);
/// How long reconnecting is tried while blobs are delivered.
const RECONNECT: Duration = Duration::from_secs(180);
/// The most interrupted deliveries in a row without any progress.
const MAX_STALLS: u32 = 5;
/// Round trips for measuring the clock; the fastest is used.
const CLOCK_ROUNDS: usize = 3;

/// A connected host.
pub struct SshLink {
    session: AgentSession,
    unwanted: Unwanted,
    installed: Installed,
    hello: AgentHello,
}

impl SshLink {
    /// Connects, installs the agent if it is missing, and starts it. Tries once, since the operator is waiting.
    pub async fn connect(target: SshTarget, options: SshOptions, agent: AgentBinary) -> Result<Self, LinkError> {
        let (session, installed, hello) = AgentSession::open(target, options, agent).await?;
        Ok(Self { session, unwanted: Unwanted::default(), installed, hello })
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
                Ok(Response::Failed { text }) => return Err(self.failed(text)),
                Ok(Response::Locked { holder, finishing }) => {
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

#[async_trait]
impl Link for SshLink {
    fn lost_for(&self) -> Option<Duration> {
        self.session.lost_for()
    }

    async fn answers(&self, within: Duration) -> bool {
        self.session.lost_for().is_none() || self.session.live(Instant::now() + within).await.is_ok()
    }

    async fn facts(&self) -> Result<Facts, LinkError> {
        let (host, folders) = (self.session.target.name.clone(), self.session.target.folders.clone());
        let answer = self.ask(&Request::Facts { host, folders }, LOOK).await?;
        let Response::Facts { mut facts } = answer else { return Err(self.misfit()) };
        facts.host.clone_from(&self.session.target.name);
        (facts.clock_offset_ms, facts.round_trip_ms) = self.clock().await?;
        Ok(*facts)
    }

    async fn cluster_facts(&self) -> Result<ClusterFacts, LinkError> {
        let host = self.session.target.name.clone();
        match self.ask(&Request::ClusterFacts { host }, LOOK).await? {
            Response::ClusterFacts { facts } => answers::cluster_facts(&self.session.target.name, *facts),
            _ => Err(self.misfit()),
        }
    }

    async fn hold(&self) -> Result<(), LinkError> {
        match self.ask(&Request::Hold, LOOK).await? {
            Response::Held => Ok(()),
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
            Response::Surveyed { survey } => answers::surveyed(&self.session.target.name, asked, survey),
            _ => Err(self.misfit()),
        }
    }

    async fn drift(&self, plan: &Plan, steps: &[&Step], slots: &SlotValues) -> Result<Vec<StepDrift>, LinkError> {
        let texts = steps.iter().flat_map(|step| texts_of(plan, step)).collect();
        let ask = Request::Drift { steps: steps.iter().copied().cloned().collect(), texts, slots: Secrets::new(slots) };
        match self.ask(&ask, LOOK).await? {
            Response::Drift { drift } => answers::drift(&self.session.target.name, steps, drift),
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
            Response::Provided { value } => answers::provided(&self.session.target.name, provider, value.0),
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
        step: &StepId,
        blobs: &[(Digest, u64)],
        depots: &Depots,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        self.fetch_from(step, blobs, depots, progress).await
    }

    async fn share(&self, listen: SocketAddr, blobs: &[Digest], identity: &RunIdentity) -> Result<(), LinkError> {
        let ask = Request::Share { listen, blobs: blobs.iter().copied().collect(), identity: identity.clone() };
        match self.ask(&ask, LOOK).await? {
            Response::Sharing => Ok(()),
            _ => Err(self.misfit()),
        }
    }

    async fn fetch_shared(
        &self,
        step: &StepId,
        blobs: &[(Digest, u64)],
        from: SocketAddr,
        identity: &RunIdentity,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        self.fetch_from_host(step, blobs, (from, identity), progress).await
    }

    async fn listen(&self, ports: &[mesh::Port]) -> Result<(), LinkError> {
        match self.ask(&Request::Listen { ports: ports.to_vec() }, LOOK).await? {
            Response::Listening => Ok(()),
            _ => Err(self.misfit()),
        }
    }

    async fn dial(&self, dials: &[mesh::ConnectionCheck]) -> Result<Vec<mesh::ConnectionResult>, LinkError> {
        match self.ask(&Request::ConnectionCheck { dials: dials.to_vec() }, LOOK).await? {
            Response::ConnectionResult { dialed } => answers::dialed(&self.session.target.name, dials, dialed),
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
        self.end_unwanted(blobs).await?;
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
                    if stalls > MAX_STALLS {
                        return Err(unreachable(&self.session.target, "the connection breaks whenever blobs are sent"));
                    }
                    tracing::info!(host = %self.session.target.name, "the transfer was interrupted; continuing");
                    tokio::time::sleep(Duration::from_millis(200) * (stalls + 1)).await;
                }
                // The first time, an earlier version may have left wrong bytes in the part file; the second time, the
                // source is wrong.
                Interrupted::Corrupt { digest, found } if corrupt == Some(digest) => {
                    let reason = format!("its bytes hash to {found}; run `kubexm-bundle verify` on the bundle");
                    return Err(LinkError::Source { digest, reason });
                }
                Interrupted::Corrupt { digest, .. } => corrupt = Some(digest),
                Interrupted::Node(text) => return Err(self.failed(text)),
                Interrupted::Source { digest, reason } => return Err(LinkError::Source { digest, reason }),
                Interrupted::Protocol(reason) => {
                    return Err(LinkError::Protocol { host: self.session.target.name.clone(), reason });
                }
            }
        }
    }

    async fn backup(&self, ask: &BackupAsk) -> Result<BackupAnswer, LinkError> {
        let limit = if matches!(ask, BackupAsk::Make { .. }) { BACKUP } else { LOOK };
        match self.ask(&Request::Backup { what: ask.clone() }, limit).await? {
            Response::BackupMade { archive, etcd } => Ok(BackupAnswer::Made { archive, etcd }),
            Response::BackupBytes { bytes } => Ok(BackupAnswer::Bytes { bytes: bytes.0 }),
            Response::BackupForgotten => Ok(BackupAnswer::Forgotten),
            _ => Err(self.misfit()),
        }
    }

    async fn addons(&self, ask: &AddonsAsk) -> Result<InstalledAddons, LinkError> {
        match self.ask(&Request::Addons { ask: ask.clone() }, LOOK).await? {
            Response::Addons { installed } => Ok(*installed),
            _ => Err(self.misfit()),
        }
    }

    async fn depot(&self) -> Result<DepotContent, LinkError> {
        match self.ask(&Request::Depot, LOOK).await? {
            Response::Depot { content } => Ok(*content),
            _ => Err(self.misfit()),
        }
    }

    async fn ask_etcd(&self, ask: &EtcdAsk, key: &[u8]) -> Result<EtcdAnswer, LinkError> {
        let request = Request::AskEtcd { what: ask.clone(), key: Secret(key.to_vec()) };
        match self.ask(&request, LOOK).await? {
            Response::EtcdAnswered { answer } => answers::etcd(&self.session.target.name, ask, answer),
            _ => Err(self.misfit()),
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
