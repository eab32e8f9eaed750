//! Values of slots that are made on a node: what a join needs.

use kubexm_plan::SlotProvider;

use crate::{Machine, OpError};

/// Makes the value. A second call makes another one; what an earlier one made runs out by itself.
pub fn value(provider: &SlotProvider, machine: &Machine) -> Result<Vec<u8>, OpError> {
    let _ = machine;
    Err(OpError::other(format!("{provider:?} is not made on a node; this is a fault of the program")))
}
