//! The contract of an op kind on a machine.

use kubexm_plan::OpKind;
pub use kubexm_plan::Wave;

use crate::{Machine, OpError};

/// One op kind on a machine: how its state is seen, when it is enough, how it is made so, and how the old state comes
/// back. What the kind is as data, [`OpKind`] says.
pub trait Converge: OpKind {
    /// Looks, and changes nothing.
    fn observe(&self, machine: &Machine) -> Result<Self::State, OpError>;

    /// Whether what was found is enough ("at least", "valid for", not only "equal").
    fn satisfied(&self, found: &Self::State, machine: &Machine) -> bool;

    /// Files whose bytes the ledger must keep before `converge` may change them.
    fn overwrites(&self, machine: &Machine) -> Vec<String>;

    /// Makes it so. Sets, never adds: twice is the same as once.
    fn converge(&self, machine: &Machine) -> Result<(), OpError>;

    /// Brings the state back that `observe` found, in one of the three waves of an undo.
    fn restore(&self, machine: &Machine, before: &Self::State, wave: Wave) -> Result<(), OpError>;
}
