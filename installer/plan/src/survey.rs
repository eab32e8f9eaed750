//! One observation of many steps.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::StepId;

/// The result of observing many steps of a host at once. It only lists the steps that are satisfied; the others are
/// observed again on their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Survey {
    /// Steps whose ops and probe are all satisfied. The probe of a pod's network ([`crate::Probe::PodNetwork`]) was run
    /// from the host, not from inside a pod.
    pub holding: BTreeSet<StepId>,
    /// An opaque value that changes with every record in the host's ledger and with every boot.
    pub past: String,
}
