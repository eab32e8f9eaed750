//! Ops: observe and converge one thing, on the machine this code runs on.

pub mod machine;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use machine::Machine;

/// One op kind: how its state is seen, when it is enough, how it is made so, and how the old state comes back.
pub trait Converge {
    /// What was found: digests and modes, never secrets.
    type State: Serialize + DeserializeOwned;

    /// Looks, and changes nothing.
    fn observe(&self, machine: &Machine) -> Result<Self::State, OpError>;
    /// Whether what was found is enough ("at least", "valid for", not only "equal").
    fn satisfied(&self, found: &Self::State, machine: &Machine) -> bool;
    /// Makes it so. Sets, never adds: twice is the same as once.
    fn converge(&self, machine: &Machine) -> Result<(), OpError>;
    /// Brings the state back that `observe` found, in one of the three waves of an undo.
    fn restore(&self, machine: &Machine, before: &Self::State, wave: Wave) -> Result<(), OpError>;
}

/// The three waves of an undo over a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Wave {
    /// Services stop, Acts are undone.
    Stop,
    /// Files come back.
    Data,
    /// Services start again.
    Start,
}

/// Why an op could not do its work: what, where, how to mend it.
#[derive(Debug, thiserror::Error)]
pub enum OpError {
    /// A system call on a path failed.
    #[error("cannot {action} {path}")]
    Path {
        /// `write`, `read`, `remove` …
        action: &'static str,
        /// On the host.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A program ended with an error.
    #[error("`{program}` failed ({status}): {stderr}")]
    Program {
        /// With its arguments; no secret is ever an argument.
        program: String,
        /// Exit status.
        status: String,
        /// The last lines it wrote.
        stderr: String,
    },
    /// Anything else, in one sentence with the way to mend it.
    #[error("{0}")]
    Other(String),
}
