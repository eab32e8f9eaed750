//! The three waves of an undo over a whole run.

use serde::{Deserialize, Serialize};

/// A wave goes over all steps of a run, in reverse topological order, before the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Wave {
    /// Services stop, Acts are undone.
    Stop,
    /// Files come back.
    Data,
    /// Services start again.
    Start,
}

impl Wave {
    /// In the order of an undo.
    pub const ALL: [Self; 3] = [Self::Stop, Self::Data, Self::Start];
}
