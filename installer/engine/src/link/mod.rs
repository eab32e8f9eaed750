//! A link sends typed requests to the machine where ops run, and nothing else: no shell commands.

pub mod agent;
pub(crate) mod answers;
pub mod known_hosts;
mod link_lost;
mod run_identity;
pub mod ssh;
pub mod wire;

use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use kubexm_plan::addons::{AddonsAsk, InstalledAddons};
use kubexm_plan::backup::{BackupAnswer, BackupAsk};
use kubexm_plan::depot::DepotContent;
use kubexm_plan::etcd_check::{EtcdAnswer, EtcdAsk};
use kubexm_plan::op::Depots;
use kubexm_plan::{ClusterFacts, Facts, Plan, Probe, SlotProvider, Step, StepDrift, StepId, Wave, ledger, mesh};
pub use kubexm_plan::{ObservedState, ProbeAnswer, Survey};
use kubexm_spec::Digest;
pub use link_lost::LinkLost;
pub use run_identity::{RunIdentity, RunKey};

/// Values of slots for one step, sent with the request that needs them and not stored.
pub type SlotValues = std::collections::BTreeMap<kubexm_plan::SlotName, Vec<u8>>;

/// Identifies the change of a run that a request belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Run id.
    pub run: &'a str,
    /// Number of the change in the run; together with the run id it identifies the ledger's record.
    pub sequence: u64,
    /// The state before the step's first change in this run, one entry for each op.
    pub before: &'a [ObservedState],
}

/// The source of missing blobs: the bundle on the controller.
#[async_trait]
pub trait BlobSource: Send + Sync {
    /// Reads a blob from `offset` to its end.
    async fn open(&self, digest: Digest, offset: u64) -> std::io::Result<Box<dyn tokio::io::AsyncRead + Send + Unpin>>;
}

/// Reports delivered bytes: (blob, bytes done, bytes in total).
pub type DeliverProgress<'a> = &'a (dyn Fn(Digest, u64, u64) + Send + Sync);

/// The result of fetching from depots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Blobs that no depot had, with their sizes in bytes: the controller sends them.
    pub missing: Vec<(Digest, u64)>,
    /// Errors of depots, for people. A depot that only does not have a blob has no error.
    pub reasons: Vec<String>,
    /// The time was over while a good part had come: what is missing would have come too, on a line that is slow.
    pub still_coming: bool,
}

/// One host, as seen by the executor. Every call can be repeated after a crash.
#[async_trait]
pub trait Link: Send + Sync {
    /// How long the host has been out of reach; none while it is connected, as far as is known.
    fn lost_for(&self) -> Option<Duration>;

    /// Whether the host is connected; a lost connection is tried again for that long.
    async fn answers(&self, within: Duration) -> bool;

    /// Gathers facts about the host; changes nothing.
    async fn facts(&self) -> Result<Facts, LinkError>;

    /// Observes the cluster that the host is a node of; changes nothing and takes no lock. What does not answer is a
    /// gap.
    async fn cluster_facts(&self) -> Result<ClusterFacts, LinkError>;

    /// Locks the host for the run, until the link is closed; waits a few seconds for another run.
    async fn hold(&self) -> Result<(), LinkError>;

    /// Observes every op of a step.
    async fn observe(&self, plan: &Plan, step: &Step, slots: &SlotValues) -> Result<Vec<ObservedState>, LinkError>;

    /// Observes many steps of the host at once, including probes; changes nothing. Without steps it only returns
    /// [`Survey::past`].
    async fn survey(&self, plan: &Plan, steps: &[&Step], slots: &SlotValues) -> Result<Survey, LinkError>;

    /// Compares the host with many steps at once, without probes, and describes what differs; changes nothing and takes
    /// no lock.
    async fn drift(&self, plan: &Plan, steps: &[&Step], slots: &SlotValues) -> Result<Vec<StepDrift>, LinkError>;

    /// Writes the before-states and old contents to the node's ledger (fsynced), then converges every op that is not
    /// satisfied, in order.
    async fn converge(&self, plan: &Plan, step: &Step, slots: &SlotValues, change: Change<'_>)
    -> Result<(), LinkError>;

    /// Rolls a step back in one wave, by its undo, to the state before its first change. Repeating it has no further
    /// effect.
    async fn undo(&self, plan: &Plan, step: &Step, change: Change<'_>, wave: Wave) -> Result<(), LinkError>;

    /// Makes the value of a slot that a host provides ([`SlotProvider::made_on`]); often a secret.
    async fn provide(&self, provider: &SlotProvider) -> Result<Vec<u8>, LinkError>;

    /// The records of the node's ledger, in the order they were written.
    async fn ledger(&self) -> Result<Vec<ledger::Record>, LinkError>;

    /// Lets the node fetch blobs from depots, for a step. A depot that does not answer is not an error. Who drops the future does not
    /// want them any more: what still runs on the node is ended before it is asked for one of them again.
    async fn fetch(
        &self,
        step: &StepId,
        blobs: &[(Digest, u64)],
        depots: &Depots,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError>;

    /// Lets the host serve blobs of its store to the other hosts of the run, until the link is closed. Asked again it serves
    /// these too; without any it serves none from then on.
    async fn share(&self, _: SocketAddr, _: &[Digest], _: &RunIdentity) -> Result<(), LinkError> {
        let (host, text) = ("@".to_owned(), "nothing is served to other hosts over this link".to_owned());
        Err(LinkError::Op { host, text })
    }

    /// Lets the host fetch blobs from another host of the run, as [`Link::fetch`] does. One that does not answer, or sends wrong
    /// bytes, is not an error.
    async fn fetch_shared(
        &self,
        _: &StepId,
        blobs: &[(Digest, u64)],
        _from: SocketAddr,
        _: &RunIdentity,
        _: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        let reasons = vec!["nothing is fetched from other hosts over this link".to_owned()];
        Ok(Fetched { missing: blobs.to_vec(), reasons, still_coming: false })
    }

    /// Listens on those of these ports that are free, and on no others. Answers dials.
    async fn listen(&self, ports: &[mesh::Port]) -> Result<(), LinkError>;

    /// Dials ports of other hosts in parallel.
    async fn dial(&self, dials: &[mesh::ConnectionCheck]) -> Result<Vec<mesh::ConnectionResult>, LinkError>;

    /// Runs a probe once.
    async fn probe(&self, probe: &Probe) -> Result<ProbeAnswer, LinkError>;

    /// Sends blobs to the node's content store, resuming interrupted transfers; existing blobs are skipped.
    async fn deliver(
        &self,
        blobs: &[(Digest, u64)],
        source: &dyn BlobSource,
        progress: DeliverProgress<'_>,
    ) -> Result<(), LinkError>;

    /// A part of a backup of the cluster, made on this control plane.
    async fn backup(&self, _: &BackupAsk) -> Result<BackupAnswer, LinkError> {
        let (host, text) = ("@".to_owned(), "no backup can be made over this link".to_owned());
        Err(LinkError::Op { host, text })
    }

    /// What is installed in the cluster, by this control plane; changes nothing and takes no lock.
    async fn addons(&self, _: &AddonsAsk) -> Result<InstalledAddons, LinkError> {
        let (host, text) = ("@".to_owned(), "no add-ons can be looked up over this link".to_owned());
        Err(LinkError::Op { host, text })
    }

    /// What the depot of this host has; changes nothing and takes no lock.
    async fn depot(&self) -> Result<DepotContent, LinkError> {
        let (host, text) = ("@".to_owned(), "no depot can be looked at over this link".to_owned());
        Err(LinkError::Op { host, text })
    }

    /// Asks an etcd of the user's from this host, with this key of the client's certificate; changes nothing.
    async fn ask_etcd(&self, _: &EtcdAsk, _key: &[u8]) -> Result<EtcdAnswer, LinkError> {
        let (host, text) = ("@".to_owned(), "no etcd can be asked over this link".to_owned());
        Err(LinkError::Op { host, text })
    }

    /// Texts of journals and listings for `runs/<id>/evidence`, by file name; what cannot be read is left out.
    async fn evidence(&self) -> Result<Vec<(String, String)>, LinkError>;

    /// Log text of a step that ran on this host, for `logs/<host>/<step>.log`.
    async fn step_log(&self, run: &str, step: &Step) -> Result<String, LinkError>;
}

/// Errors between controller and host. The variant determines the exit code.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No TCP connection, no SSH banner, or a lost connection that could not be restored.
    #[error("cannot reach {host} ({address}): {reason}; check network, firewall and sshd")]
    Unreachable {
        /// Host name.
        host: String,
        /// Address and port.
        address: String,
        /// The operating system's error.
        reason: String,
    },
    /// The host key is unknown or changed, or the login was refused.
    #[error("{host} ({address}): {reason}")]
    Denied {
        /// Host name.
        host: String,
        /// Address and port.
        address: String,
        /// The reason, and how to fix it.
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
    #[error("{host} is held by another run ({holder}); start again when that has ended, or end it there")]
    Locked {
        /// Host name.
        host: String,
        /// User, machine and process, and since when, as far as known.
        holder: String,
        /// Whether the holder's controller is gone, and it only finishes running work.
        finishing: bool,
    },
    /// An op failed on the host.
    #[error("{host}: {text}")]
    Op {
        /// Host name.
        host: String,
        /// What, where, how to fix it.
        text: String,
    },
    /// The agent has another version, or its messages are invalid.
    #[error(
        "{host}: the agent does not understand this program: {reason}; remove /usr/local/bin/kubexm-install there and \
         run again"
    )]
    Protocol {
        /// Host name.
        host: String,
        /// What is wrong.
        reason: String,
    },
    /// The host sent an answer that is not accepted: it is damaged or hostile.
    #[error("{host}: {reason}; the answer was discarded. Find out who changed that host before you continue")]
    Untrusted {
        /// Host name.
        host: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// A blob could not be read on the controller.
    #[error("cannot read blob {digest} from the bundle: {reason}")]
    Source { digest: Digest, reason: String },
}
