//! What looking at a host answers: the state of an op, and whether a probe holds.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::StepId;

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

/// What one look at many steps of a host gave. It says of a step only that it holds; what was found of the others is for
/// a look of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Survey {
    /// Steps all of whose ops hold, and whose probe holds: that of a pod's network ([`crate::Probe::PodNetwork`]) was
    /// asked from the host, not from inside a pod.
    pub holding: BTreeSet<StepId>,
    /// What the host has been through, opaque: another one after every record of its ledger and after every boot.
    pub past: String,
}
