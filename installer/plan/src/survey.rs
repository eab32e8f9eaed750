//! One look at many steps.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::StepId;

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
