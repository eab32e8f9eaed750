//! What is asked before hosts are connected to or changed.

use async_trait::async_trait;
use kubexm_plan::Plan;

use crate::bundle::trust::Provenance;

/// Answers questions: a person at a terminal, a flag, a policy of a server.
#[async_trait]
pub trait Confirm: Send + Sync {
    /// Whether the cluster.yaml of a bundle that nobody trusted has signed may be used: its hosts connected to, its secrets used.
    /// Asked before anything that it names is read or connected to.
    fn trust_cluster(&self, question: &UnsignedCluster) -> Answer;

    /// Whether hosts may be changed. Whoever answers shows what is asked.
    async fn confirm(&self, question: Question<'_>) -> Answer;
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Continue.
    Yes,
    /// Nothing is done.
    No,
    /// Nobody is there to answer: the same as `No`, with another message.
    Nobody,
}

/// What an unsigned cluster.yaml asks for.
#[derive(Debug)]
pub struct UnsignedCluster {
    /// The bundle, and why nobody vouches for it; escaped, on one line.
    pub bundle: String,
    /// Hosts and secrets, a line each; escaped.
    pub wanted: Vec<String>,
}

/// A change of hosts.
#[derive(Debug)]
pub struct Question<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// Who vouches for the bundle, where one takes part.
    pub provenance: Option<&'a Provenance>,
    /// What would be done.
    pub change: Change<'a>,
}

/// What would be done.
#[derive(Debug)]
pub enum Change<'a> {
    /// A plan is executed.
    Run {
        /// The plan.
        plan: &'a Plan,
    },
    /// A cluster is removed from its hosts, with its data.
    Reset {
        /// The plan.
        plan: &'a Plan,
        /// Hosts that cannot be reached, and stay as they are.
        missing: &'a [String],
    },
    /// A run is rolled back.
    Rollback {
        /// Its id.
        run: &'a str,
        /// Its plan.
        plan: &'a Plan,
        /// How many steps have changed something.
        changed: usize,
    },
}
