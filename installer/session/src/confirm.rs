//! Questions that are asked before hosts are connected to or changed.

use async_trait::async_trait;
use kubexm_engine::LostHost;
use kubexm_engine::backup::{BackupAbout, SnapshotName};
use kubexm_engine::drift::Drift;
use kubexm_plan::Plan;
use kubexm_spec::Digest;

use crate::bundle::trust::Provenance;

/// Answers questions: a person at a terminal, an option, a server's policy.
#[async_trait]
pub trait Confirm: Send + Sync {
    /// Whether the cluster.yaml of a bundle without a trusted signature may be used: its hosts contacted, its secrets
    /// read. Asked before either happens.
    fn trust_cluster(&self, question: &UnsignedCluster) -> Answer;

    /// Whether hosts may be changed. The implementation shows the question.
    async fn confirm(&self, question: Question<'_>) -> Answer;

    /// What becomes of a run that failed since a host is out of reach that it cannot continue without. Where nobody can
    /// be asked it is kept.
    async fn out_of_reach(&self, question: &OutOfReach<'_>) -> WithoutThem;
}

/// What becomes of a run whose hosts are out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutThem {
    /// Everything stays as it is, to be resumed.
    Keep,
    /// The hosts that can be reached are rolled back; the run stays stuck until the others are, too.
    RollBack,
}

/// A run that failed since hosts are out of reach.
#[derive(Debug)]
pub struct OutOfReach<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// The run's id.
    pub run: &'a str,
    /// Its plan.
    pub plan: &'a Plan,
    /// The hosts that are out of reach.
    pub lost: &'a [LostHost],
    /// The other hosts of the plan, with the number of steps that the run has changed there: those would be undone.
    pub others: Vec<(&'a str, usize)>,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Continue.
    Yes,
    /// Nothing is done.
    No,
    /// Nobody can answer: like `No`, with another message.
    Nobody,
}

/// What an unsigned cluster.yaml asks for.
#[derive(Debug)]
pub struct UnsignedCluster {
    /// The bundle, and why its signature is not trusted; escaped, on one line.
    pub bundle: String,
    /// Hosts and secrets, one line each; escaped.
    pub wanted: Vec<String>,
}

/// A change of hosts that needs confirmation.
#[derive(Debug)]
pub struct Question<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// The result of checking the bundle's signatures, if a bundle is used.
    pub provenance: Option<&'a Provenance>,
    /// The digest of the file that the plan is from, which no signature covers; none if the plan was made from the bundle just now.
    pub plan_file: Option<Digest>,
    /// The change.
    pub change: Change<'a>,
}

/// A backup that is restored.
#[derive(Clone, Copy, Debug)]
pub struct RestoredBackup<'a> {
    /// What it is.
    pub about: &'a BackupAbout,
    /// Why it is not known who made it, if that was allowed.
    pub unauthenticated: Option<&'a str>,
    /// What the name of a snapshot of etcd says, if it is one and no backup.
    pub snapshot: Option<&'a SnapshotName>,
}

/// A kind of change.
#[derive(Debug)]
pub enum Change<'a> {
    /// A plan is executed.
    Run {
        /// The plan.
        plan: &'a Plan,
        /// If every host is in the cluster already: what the plan would change there.
        drift: Option<&'a Drift>,
        /// Hosts that cannot be reached, and are left as they are.
        missing: &'a [String],
        /// The backup, if one is restored.
        backup: Option<RestoredBackup<'a>>,
    },
    /// A run is rolled back.
    Rollback {
        /// Its id.
        run: &'a str,
        /// Its plan.
        plan: &'a Plan,
        /// Number of steps that have changed something.
        changed: usize,
    },
}
