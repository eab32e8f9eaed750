//! Dispatches an op to the implementation of its kind. The kinds are listed in [`kubexm_plan::each_op`].

use kubexm_plan::{ObservedState, Op, each_op};

use crate::fault::FaultPoint;
use crate::{Converge, Machine, OpError, Wave};

/// Observes the state of one op; changes nothing.
pub fn observe(op: &Op, machine: &Machine) -> Result<ObservedState, OpError> {
    fn with<C: Converge>(op: &C, machine: &Machine) -> Result<ObservedState, OpError> {
        let state = op.observe(machine)?;
        let satisfied = op.satisfied(&state, machine);
        ObservedState::new::<C>(&state, satisfied)
            .map_err(|error| OpError::other(format!("a state cannot be written as JSON: {error}")))
    }
    each_op!(op, kind => with(kind, machine))
}

/// Files whose content a converge would overwrite.
pub(crate) fn overwrites(op: &Op, machine: &Machine) -> Vec<String> {
    each_op!(op, kind => Converge::overwrites(kind, machine))
}

/// Saves the content that a converge would overwrite in the node's ledger.
pub fn keep(op: &Op, machine: &Machine) -> Result<(), OpError> {
    let ledger = machine.ledger();
    overwrites(op, machine)
        .iter()
        .try_for_each(|path| ledger.keep(&machine.path(path), machine.digest_cache()).map(drop))
}

/// Establishes the desired state. [`keep`] must have been called before, otherwise there is no rollback.
pub fn converge(op: &Op, machine: &Machine) -> Result<(), OpError> {
    let run = || each_op!(op, kind => Converge::converge(kind, machine));
    let Some(faults) = machine.faults() else { return run() };
    let number = faults.next();
    faults.strike(FaultPoint::Before(number))?;
    run()?;
    faults.strike(FaultPoint::After(number))
}

/// Converges as a part of another op; counted for injected faults.
pub(crate) fn make(op: &Op, machine: &Machine) -> Result<(), OpError> {
    each_op!(op, kind => Converge::converge(kind, machine))
}

/// Restores the state that [`observe`] found.
pub fn restore(op: &Op, machine: &Machine, before: &ObservedState, wave: Wave) -> Result<(), OpError> {
    fn with<C: Converge>(op: &C, machine: &Machine, before: &ObservedState, wave: Wave) -> Result<(), OpError> {
        op.restore(machine, &before.state::<C>()?, wave)
    }
    each_op!(op, kind => with(kind, machine, before, wave))
}
