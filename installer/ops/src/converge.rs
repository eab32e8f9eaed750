//! The execution of an op kind on a machine.

use kubexm_plan::OpKind;
pub use kubexm_plan::Wave;

use crate::{Machine, OpError};

/// One op kind on a machine: how its state is observed, when it is satisfied, how it is established, and how the
/// earlier state is restored. Its data is described by [`OpKind`].
pub trait Converge: OpKind {
    /// Observes the state, and changes nothing.
    fn observe(&self, machine: &Machine) -> Result<Self::State, OpError>;

    /// Whether the observed state is sufficient ("at least", "valid for", not only "equal").
    fn satisfied(&self, found: &Self::State, machine: &Machine) -> bool;

    /// Files whose content the ledger must keep before `converge` changes them.
    fn overwrites(&self, machine: &Machine) -> Vec<String>;

    /// Establishes the desired state. Repeating it has no further effect.
    fn converge(&self, machine: &Machine) -> Result<(), OpError>;

    /// Restores the state that `observe` found, in one of the three waves of an undo.
    fn restore(&self, machine: &Machine, before: &Self::State, wave: Wave) -> Result<(), OpError>;
}
