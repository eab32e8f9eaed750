//! The protocol between controller and agent: typed messages in length-prefixed frames.
//!
//! The agent starts with one magic line; output of a login shell before it is skipped. Then both sides send frames
//! ([`frame`]). A response has the id of its request; several requests may be pending at once. Slot values are sent
//! only inside frames and never printed.

pub mod frame;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;

use kubexm_plan::addons::{AddonsAsk, InstalledAddons};
use kubexm_plan::backup::{Archive, BackupAsk, SnapshotFacts};
use kubexm_plan::depot::DepotContent;
use kubexm_plan::etcd_check::{EtcdAnswer, EtcdAsk};
use kubexm_plan::facts::DataFolders;
use kubexm_plan::op::Depots;
use kubexm_plan::{
    ClusterFacts, Facts, ObservedState, Probe, ProbeAnswer, SlotName, SlotProvider, Step, StepDrift, StepId, Survey,
    Texts, Wave, ledger, mesh,
};
use kubexm_spec::{Arch, Digest};
use serde::{Deserialize, Serialize};

pub use super::run_identity::{RunIdentity, Secret};
pub use frame::{Frame, WireError};

/// Version of the messages. Both sides must have the same.
pub const PROTOCOL: u32 = 8;

/// A request of the controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestMessage {
    /// Chosen by the controller, unique on the channel.
    pub id: u64,
    /// The request.
    pub ask: Request,
}

/// A response of the agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResponseMessage {
    /// Id of the request that it answers.
    pub id: u64,
    /// The response.
    pub answer: Response,
}

/// What a controller asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Request {
    /// The first request of every channel.
    Hello {
        /// [`PROTOCOL`] of the controller.
        protocol: u32,
        /// Program version of the controller.
        version: String,
        /// Who will hold the host's lock, for others who find it taken: run id, controller, process.
        holder: String,
    },
    /// Gather facts about the host.
    Facts {
        /// Name in cluster.yaml.
        host: String,
        /// Further folders to look at.
        #[serde(default)]
        folders: DataFolders,
    },
    /// Observe the cluster that the host is a node of.
    ClusterFacts {
        /// Name in cluster.yaml.
        host: String,
    },
    /// Lock the host for the run, as every request that changes something does.
    Hold,
    /// Observe every op of a step.
    Observe {
        step: Box<Step>,
        /// The texts its ops name.
        texts: Texts,
        /// The slots its ops read.
        slots: Secrets,
    },
    /// Observe many steps at once.
    Survey {
        steps: Vec<Step>,
        /// The texts their ops name.
        texts: Texts,
        /// The slots their ops read.
        slots: Secrets,
    },
    /// Compare the host with these steps, without the host's lock.
    Drift {
        steps: Vec<Step>,
        /// The texts their ops name.
        texts: Texts,
        /// The slots their ops read.
        slots: Secrets,
    },
    /// Converge every op of a step that is not satisfied.
    Converge {
        step: Box<Step>,
        /// The texts its ops name.
        texts: Texts,
        /// The slots its ops read.
        slots: Secrets,
        /// Run id, for the ledger.
        run: String,
        /// Number of the ledger record.
        sequence: u64,
        /// The state before the step's first change in this run.
        before: Vec<ObservedState>,
    },
    /// Roll a step back in one wave.
    Undo {
        step: Box<Step>,
        /// The texts its ops name.
        texts: Texts,
        /// Run id, for the ledger.
        run: String,
        /// Number of the ledger record.
        sequence: u64,
        /// The state before the step's first change in this run.
        before: Vec<ObservedState>,
        wave: Wave,
    },
    /// Make a slot's value.
    Provide { provider: SlotProvider },
    /// The records of the node's ledger.
    Ledger,
    /// Fetch blobs from depots.
    Fetch {
        /// Whose rollback ends it.
        step: StepId,
        /// Sizes in bytes.
        blobs: BTreeMap<Digest, u64>,
        /// The depots.
        depots: Depots,
    },
    /// Serve blobs of the node's store to the other hosts of the run, until the agent ends. Asked again it serves these too;
    /// without any it serves none from then on.
    Share {
        /// Where it listens.
        listen: SocketAddr,
        /// What is served.
        blobs: BTreeSet<Digest>,
        /// The host's certificate of the run.
        identity: RunIdentity,
    },
    /// Fetch blobs from another host of the run.
    FetchShared {
        /// Whose rollback ends it.
        step: StepId,
        /// Sizes in bytes.
        blobs: BTreeMap<Digest, u64>,
        /// The other host.
        from: SocketAddr,
        /// This host's certificate of the run.
        identity: RunIdentity,
    },
    /// End whatever fetches one of these blobs: its answer is not waited for.
    EndFetches { blobs: BTreeSet<Digest> },
    /// Listen on these ports, and close all others.
    Listen {
        /// The ports; those in use are left out.
        ports: Vec<mesh::Port>,
    },
    /// Connect to other hosts.
    #[serde(rename = "dial")]
    ConnectionCheck {
        /// The ports to dial.
        dials: Vec<mesh::ConnectionCheck>,
    },
    /// Run a probe once.
    Probe {
        /// The probe.
        probe: Probe,
    },
    /// Which of these blobs the node's store is missing, and how many bytes of each exist.
    StoreMissing {
        /// Sizes in bytes.
        blobs: BTreeMap<Digest, u64>,
    },
    /// The bytes of a blob follow in data frames, on a store channel only.
    StorePut {
        digest: Digest,
        /// Its whole size in bytes.
        size: u64,
        /// Offset of the first byte that follows.
        offset: u64,
    },
    /// A part of a backup.
    Backup {
        /// What.
        what: BackupAsk,
    },
    /// What is installed in the cluster.
    Addons { ask: AddonsAsk },
    /// What the host's depot has.
    Depot,
    /// Ask an etcd of the user's.
    AskEtcd {
        what: EtcdAsk,
        /// Of the client's certificate.
        key: Secret,
    },
    /// Journals and listings.
    Evidence,
    /// kubeadm's admin.conf, for the operator's own kubeconfig.
    AdminKubeconfig,
    /// The log of a step.
    StepLog {
        /// Run id.
        run: String,
        step: Box<Step>,
    },
    /// Answered immediately, whatever else is running.
    Ping,
    /// No more requests will come.
    Bye,
}

/// What an agent answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Response {
    /// To `Hello`.
    Hello {
        /// [`PROTOCOL`] of the agent.
        protocol: u32,
        /// Program version of the agent.
        version: String,
        /// What the agent was built for.
        arch: Option<Arch>,
        /// Process id of the agent.
        pid: u32,
    },
    /// To `Facts`.
    Facts {
        /// Without the clock's offset, which the controller measures.
        facts: Box<Facts>,
    },
    /// To `ClusterFacts`.
    ClusterFacts { facts: Box<ClusterFacts> },
    /// To `Hold`.
    Held,
    /// To `Observe`.
    Observed {
        /// One for each op.
        found: Vec<ObservedState>,
    },
    /// To `Survey`.
    Surveyed {
        /// The steps that are satisfied.
        survey: Survey,
    },
    /// To `Drift`.
    Drift {
        /// The steps that are not satisfied.
        drift: Vec<StepDrift>,
    },
    /// To `Converge`.
    Converged,
    /// To `Undo`.
    Undone,
    /// To `Provide`.
    Provided {
        /// Often a secret; never shown.
        value: Secret,
    },
    /// To `Ledger`.
    Ledger {
        /// In the order they were written.
        records: Vec<ledger::Record>,
    },
    /// To `Share`.
    Sharing,
    /// To `Fetch` and `FetchShared`.
    Fetched {
        /// Blobs that no depot had.
        missing: BTreeMap<Digest, u64>,
        /// Errors of depots, for people.
        reasons: Vec<String>,
        /// The time was over while a good part had come.
        still_coming: bool,
    },
    /// To `EndFetches`, when they have ended.
    FetchesEnded,
    /// To `Listen`.
    Listening,
    /// To `ConnectionCheck`.
    #[serde(rename = "dialed")]
    ConnectionResult {
        /// One for each.
        dialed: Vec<mesh::ConnectionResult>,
    },
    /// To `Probe`.
    Probed {
        /// What was seen.
        answer: ProbeAnswer,
    },
    /// To `StoreMissing`: existing bytes of each incomplete blob.
    Missing {
        /// Blobs that are not listed are complete.
        have: BTreeMap<Digest, u64>,
    },
    /// To `StorePut`, after the blob is complete, verified and synced.
    Stored,
    /// To `StorePut`, if the digest is wrong; the received bytes were deleted.
    Corrupt {
        /// What the bytes hash to.
        found: Digest,
    },
    /// To `Addons`.
    Addons { installed: Box<InstalledAddons> },
    /// To `Depot`.
    Depot { content: Box<DepotContent> },
    /// To `AskEtcd`.
    EtcdAnswered { answer: EtcdAnswer },
    /// To `Backup`.
    BackupMade {
        /// The archive.
        archive: Archive,
        /// The snapshot in it.
        etcd: SnapshotFacts,
    },
    /// To `Backup`.
    BackupBytes {
        /// Encrypted.
        bytes: Secret,
    },
    /// To `Backup`.
    BackupForgotten,
    /// To `Evidence`.
    Evidence {
        /// Text by file name.
        files: Vec<(String, String)>,
    },
    /// To `AdminKubeconfig`.
    AdminKubeconfig {
        /// The file's bytes; a secret.
        file: Secret,
    },
    /// To `StepLog`.
    StepLog {
        /// Text.
        text: String,
    },
    /// To `Ping`.
    Pong {
        /// Milliseconds since 1970 on the node's clock.
        clock_ms: i64,
    },
    /// To `Bye`, after all work has finished.
    Bye,
    /// Another run holds the host.
    Locked {
        holder: String,
        /// Whether its controller is gone, and it only finishes running work.
        finishing: bool,
    },
    /// The request failed.
    Failed {
        /// What, where, how to fix it.
        text: String,
    },
    /// The request was not understood, or is not valid here.
    NotUnderstood { reason: String },
}

/// Slot values in a request. Base64 in JSON; never shown.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secrets(BTreeMap<SlotName, Secret>);

impl Secrets {
    /// From the engine's slot values.
    pub fn new(values: &super::SlotValues) -> Self {
        Self(values.iter().map(|(name, value)| (name.clone(), Secret(value.clone()))).collect())
    }

    /// The engine's slot values.
    pub fn into_values(self) -> super::SlotValues {
        self.0.into_iter().map(|(name, value)| (name, value.0)).collect()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.keys().map(|name| (&name.0, "<secret>"))).finish()
    }
}
