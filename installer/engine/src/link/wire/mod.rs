//! What controller and agent say to each other: typed messages in length-prefixed frames.
//!
//! The agent begins with one magic line; whatever a login shell printed before it is skipped. Then both sides send
//! frames ([`frame`]). A request carries an id, its response the same id; several may be on their way at once.
//! Slot values travel only inside frames, and nothing here prints them.

pub mod frame;

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_plan::op::Depots;
use kubexm_plan::{
    ClusterFacts, Facts, ObservedState, Probe, ProbeAnswer, SlotName, SlotProvider, Step, Survey, Texts, Wave, ledger,
    mesh,
};
use kubexm_spec::{Arch, Digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use frame::{Frame, WireError};

/// Version of these messages. Both sides must have the same.
pub const PROTOCOL: u32 = 4;

/// A request of the controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestMessage {
    /// Chosen by the controller, unique on the channel.
    pub id: u64,
    /// What is asked.
    pub ask: Request,
}

/// A response of the agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResponseMessage {
    /// Id of the request that it answers.
    pub id: u64,
    /// What is answered.
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
        /// Who will hold the host, for the one that finds it held: run id, controller, process.
        holder: String,
    },
    /// Look at the host.
    Facts {
        /// Name in cluster.yaml.
        host: String,
    },
    /// Look at the cluster that the host is a node of.
    ClusterFacts {
        /// Name in cluster.yaml.
        host: String,
    },
    /// Observe every op of a step.
    Observe {
        step: Box<Step>,
        /// The texts its ops name.
        texts: Texts,
        /// The slots its ops read.
        slots: Secrets,
    },
    /// Look at many steps in one moment.
    Survey {
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
        /// What the step's first change in this run found.
        before: Vec<ObservedState>,
    },
    /// Take a step back in one wave.
    Undo {
        step: Box<Step>,
        /// The texts its ops name.
        texts: Texts,
        /// Run id, for the ledger.
        run: String,
        /// Number of the ledger record.
        sequence: u64,
        /// What the step's first change in this run found.
        before: Vec<ObservedState>,
        wave: Wave,
    },
    /// Make a slot's value.
    Provide { provider: SlotProvider },
    /// The records of the node's ledger.
    Ledger,
    /// Take blobs from depots.
    Fetch {
        /// Sizes in bytes.
        blobs: BTreeMap<Digest, u64>,
        /// Where they may be.
        depots: Depots,
    },
    /// Listen on these ports, and on no others any more.
    Listen {
        /// Which; taken ones are left out.
        ports: Vec<mesh::Port>,
    },
    /// Dial other hosts.
    Dial {
        /// Whom.
        dials: Vec<mesh::Dial>,
    },
    /// Look once.
    Probe {
        /// At what.
        probe: Probe,
    },
    /// Which of these blobs the node's store lacks, and how much of each is there.
    StoreMissing {
        /// Sizes in bytes.
        blobs: BTreeMap<Digest, u64>,
    },
    /// The bytes of a blob follow in data frames, on a store channel only.
    StorePut {
        digest: Digest,
        /// Its whole size in bytes.
        size: u64,
        /// Where the bytes that follow begin.
        offset: u64,
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
    /// Answered at once, whatever else is continuing.
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
    /// To `Observe`.
    Observed {
        /// One for each op.
        found: Vec<ObservedState>,
    },
    /// To `Survey`.
    Surveyed {
        /// Which of them hold.
        survey: Survey,
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
    /// To `Fetch`.
    Fetched {
        /// What no depot gave.
        missing: BTreeMap<Digest, u64>,
        /// What each depot that failed did, for people.
        reasons: Vec<String>,
    },
    /// To `Listen`.
    Listening,
    /// To `Dial`.
    Dialed {
        /// One for each.
        dialed: Vec<mesh::Dialed>,
    },
    /// To `Probe`.
    Probed {
        /// What was seen.
        answer: ProbeAnswer,
    },
    /// To `StoreMissing`: bytes that are there of each blob that is not whole.
    Missing {
        /// Absent digests are whole.
        have: BTreeMap<Digest, u64>,
    },
    /// To `StorePut`, once the blob is whole, verified and safe on disk.
    Stored,
    /// To `StorePut`, when the bytes are not those of the digest; what was there is gone.
    Corrupt {
        /// What the bytes hash to.
        found: Digest,
    },
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
    /// To `Bye`, when nothing runs any more.
    Bye,
    /// Another run holds the host.
    Locked { holder: String },
    /// What was asked could not be done.
    Failed {
        /// What, where, how to fix it.
        text: String,
    },
    /// The request was not understood, or makes no sense here.
    NotUnderstood { reason: String },
}

/// Slot values on their way to one step. Base64 in JSON; never shown.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secrets(BTreeMap<SlotName, Secret>);

/// Bytes that are never shown. Base64 in JSON.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

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

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // The error says nothing of the text.
        BASE64.decode(text).map(Self).map_err(|_| serde::de::Error::custom("a slot value is not base64"))
    }
}
