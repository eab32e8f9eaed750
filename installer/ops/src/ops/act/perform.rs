//! The execution of an act on a machine.

use kubexm_plan::op::{ActKind, Progress};

use crate::{Machine, OpError};

/// One act on a machine.
pub(crate) trait Perform: ActKind {
    /// Its progress; changes nothing.
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError>;

    /// Executes it, and cleans up after an interrupted attempt.
    fn perform(&self, machine: &Machine) -> Result<(), OpError>;
}
