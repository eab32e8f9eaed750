//! What looking at a host answers: the state of an op, and whether a probe holds.

use serde::{Deserialize, Serialize};

/// What one op found: its state (digests, never secrets) and whether that is what the op wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// The op kind's own state, opaque to the engine; journalled before a change.
    pub state: serde_json::Value,
    /// Whether nothing is to be done.
    pub satisfied: bool,
}

/// The answer of a probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeAnswer {
    /// Whether it holds.
    pub holds: bool,
    /// What was seen, for the log and the error when time runs out.
    pub seen: String,
}
