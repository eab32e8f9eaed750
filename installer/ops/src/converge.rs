//! The contract of an op kind.

pub use kubexm_plan::Wave;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Machine, OpError};

/// One op kind: how its state is seen, when it is enough, how it is made so, and how the old state comes back.
pub trait Converge {
    /// What was found: digests and modes, never secrets.
    type State: Serialize + DeserializeOwned;

    /// Looks, and changes nothing.
    fn observe(&self, machine: &Machine) -> Result<Self::State, OpError>;

    /// Whether what was found is enough ("at least", "valid for", not only "equal").
    fn satisfied(&self, found: &Self::State, machine: &Machine) -> bool;

    /// Files whose bytes the ledger must keep before `converge` may change them.
    fn overwrites(&self, machine: &Machine) -> Vec<String> {
        let _ = machine;
        Vec::new()
    }

    /// Makes it so. Sets, never adds: twice is the same as once.
    fn converge(&self, machine: &Machine) -> Result<(), OpError>;

    /// Brings the state back that `observe` found, in one of the three waves of an undo.
    fn restore(&self, machine: &Machine, before: &Self::State, wave: Wave) -> Result<(), OpError>;
}
