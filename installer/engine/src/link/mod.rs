//! A link carries typed requests to the machine where ops run, and nothing else: no shell text.

pub mod agent;
pub(crate) mod answers;
pub mod known_hosts;
mod link_lost;
pub mod ssh;
pub mod wire;

use async_trait::async_trait;
use kubexm_plan::op::Depots;
use kubexm_plan::{ClusterFacts, Facts, Plan, Probe, SlotProvider, Step, Wave, ledger, mesh};
pub use kubexm_plan::{ObservedState, ProbeAnswer, Survey};
use kubexm_spec::Digest;
pub use link_lost::LinkLost;

/// Values of slots for one step, sent with the request that needs them and forgotten afterwards.
pub type SlotValues = std::collections::BTreeMap<kubexm_plan::SlotName, Vec<u8>>;

/// Which change of a run a request belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Run id.
    pub run: &'a str,
    /// Number of the change in the run; with the run it names the ledger's record.
    pub sequence: u64,
    /// What the step's first change in this run found, one an op.
    pub before: &'a [ObservedState],
}

/// Where missing blobs come from: the bundle on the controller.
#[async_trait]
pub trait BlobSource: Send + Sync {
    /// Reads a blob from `offset`; the reader ends with the blob.
    async fn open(&self, digest: Digest, offset: u64) -> std::io::Result<Box<dyn tokio::io::AsyncRead + Send + Unpin>>;
}

/// Reports bytes delivered: (blob, bytes done, bytes in all).
pub type DeliverProgress<'a> = &'a (dyn Fn(Digest, u64, u64) + Send + Sync);

/// What came of asking depots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// What none of them gave, with its size in bytes: for the controller to send.
    pub missing: Vec<(Digest, u64)>,
    /// What each depot did that failed, for people. One that merely lacks a blob did not fail.
    pub reasons: Vec<String>,
}

/// One host, as the executor sees it. Every call can be made again after a crash.
#[async_trait]
pub trait Link: Send + Sync {
    /// Looks at the host; changes nothing.
    async fn facts(&self) -> Result<Facts, LinkError>;

    /// Looks at the cluster that the host is a node of; changes nothing, and takes no lock. What does not answer is a gap.
    async fn cluster_facts(&self) -> Result<ClusterFacts, LinkError>;

    /// Observes every op of a step.
    async fn observe(&self, plan: &Plan, step: &Step, slots: &SlotValues) -> Result<Vec<ObservedState>, LinkError>;

    /// Looks at many steps of the host in one moment, probes included; changes nothing. With no steps it tells what the
    /// host has been through.
    async fn survey(&self, plan: &Plan, steps: &[&Step], slots: &SlotValues) -> Result<Survey, LinkError>;

    /// Writes the before-states and old bytes to the node's ledger (fsynced), then converges every op that is not
    /// satisfied, in order.
    async fn converge(&self, plan: &Plan, step: &Step, slots: &SlotValues, change: Change<'_>)
    -> Result<(), LinkError>;

    /// Rolls a step back in one wave, by its undo, to the state before its first change. Twice is the same as once.
    async fn undo(&self, plan: &Plan, step: &Step, change: Change<'_>, wave: Wave) -> Result<(), LinkError>;

    /// Makes the value of a slot whose provider makes it on a host ([`SlotProvider::made_on`]); often a secret.
    async fn provide(&self, provider: &SlotProvider) -> Result<Vec<u8>, LinkError>;

    /// The records of the node's ledger, in the order they were written.
    async fn ledger(&self) -> Result<Vec<ledger::Record>, LinkError>;

    /// Has the node take blobs from depots. A depot that does not answer is no error.
    async fn fetch(
        &self,
        blobs: &[(Digest, u64)],
        depots: &Depots,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError>;

    /// Listens on those of these ports that are free, until it is asked again (with none: no more). Answers dials.
    async fn listen(&self, ports: &[mesh::Port]) -> Result<(), LinkError>;

    /// Dials ports of other hosts, all at once.
    async fn dial(&self, dials: &[mesh::Dial]) -> Result<Vec<mesh::Dialed>, LinkError>;

    /// Looks once.
    async fn probe(&self, probe: &Probe) -> Result<ProbeAnswer, LinkError>;

    /// Puts blobs into the node's content store, resuming what a cut connection left; present ones are skipped.
    async fn deliver(
        &self,
        blobs: &[(Digest, u64)],
        source: &dyn BlobSource,
        progress: DeliverProgress<'_>,
    ) -> Result<(), LinkError>;

    /// Text of journals and listings for `runs/<id>/evidence`, by file name; what cannot be obtained is left out.
    async fn evidence(&self) -> Result<Vec<(String, String)>, LinkError>;

    /// Log text of a step that ran on this host, for `logs/<host>/<step>.log`.
    async fn step_log(&self, run: &str, step: &Step) -> Result<String, LinkError>;
}

/// What goes wrong between controller and host. The kind decides the exit code.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No TCP, no SSH banner, or the connection broke and would not come back.
    #[error("cannot reach {host} ({address}): {reason}; check network, firewall and sshd")]
    Unreachable {
        /// Host name.
        host: String,
        /// Address and port.
        address: String,
        /// The operating system's error.
        reason: String,
    },
    /// Host key unknown or changed, or our key refused.
    #[error("{host} ({address}): {reason}")]
    Denied {
        /// Host name.
        host: String,
        /// Address and port.
        address: String,
        /// What, and how to fix it.
        reason: String,
    },
    /// The user cannot become root.
    #[error("{user} cannot sudo on {host}: {reason}")]
    NoSudo {
        /// Host name.
        host: String,
        /// SSH user.
        user: String,
        /// sudo's error, and how to fix it.
        reason: String,
    },
    /// Another run holds the host.
    #[error("{host} is held by another run ({holder}); wait for it, or look with `kubexm-install status`")]
    Locked {
        /// Host name.
        host: String,
        /// Run id and process, when known.
        holder: String,
    },
    /// An op failed on the host.
    #[error("{host}: {text}")]
    Op {
        /// Host name.
        host: String,
        /// What, where, how to fix it.
        text: String,
    },
    /// The agent speaks another version, or nonsense.
    #[error(
        "{host}: the agent does not understand this program: {reason}; remove /usr/local/bin/kubexm-install there and \
         run again"
    )]
    Protocol {
        /// Host name.
        host: String,
        /// What was seen.
        reason: String,
    },
    /// The host answered something that is not accepted from a host: it is damaged or hostile.
    #[error("{host}: {reason}; the answer was discarded. Find out who changed that host before you continue")]
    Untrusted {
        /// Host name.
        host: String,
        /// What was answered.
        reason: String,
    },
    /// A blob could not be read on this side.
    #[error("cannot read blob {digest} from the bundle: {reason}")]
    Source { digest: Digest, reason: String },
}
