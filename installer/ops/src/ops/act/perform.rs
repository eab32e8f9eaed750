//! The contract of an act on a machine.

use kubexm_plan::op::{ActKind, Progress};

use crate::{Machine, OpError};

/// One act on a machine.
pub(crate) trait Perform: ActKind {
    /// How far it has come; changes nothing.
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError>;

    /// Does it, and clears what a kill in the middle of an earlier try left.
    fn perform(&self, machine: &Machine) -> Result<(), OpError>;
}
