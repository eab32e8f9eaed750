//! The three waves of a rollback of a whole run.

use serde::{Deserialize, Serialize};

/// A wave covers all steps of a run, in reverse topological order, before the next wave starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Wave {
    /// Services are stopped and acts are undone.
    Stop,
    /// Files are restored.
    Data,
    /// Services are started again.
    Start,
}

impl Wave {
    /// All waves, in their order.
    pub const ALL: [Self; 3] = [Self::Stop, Self::Data, Self::Start];
}
