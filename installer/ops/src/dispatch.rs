//! From the closed enum of ops to the implementation of each kind.

use kubexm_plan::{Found, Op};
use serde::Deserialize;
use serde_json::Value;

use crate::fault::FaultPoint;
use crate::{Converge, Machine, OpError, Wave};

macro_rules! each {
    ($op:expr, $kind:ident => $then:expr) => {
        match $op {
            Op::File($kind) => $then,
            Op::Dir($kind) => $then,
            Op::StateDir($kind) => $then,
            Op::MoveAside($kind) => $then,
            Op::Link($kind) => $then,
            Op::Blobs($kind) => $then,
            Op::Binary($kind) => $then,
            Op::Unpacked($kind) => $then,
            Op::RegistryLayout($kind) => $then,
            Op::Packages($kind) => $then,
            Op::Unit($kind) => $then,
            Op::Sysctl($kind) => $then,
            Op::KernelModule($kind) => $then,
            Op::SwapOff($kind) => $then,
            Op::HostsBlock($kind) => $then,
            Op::Resolver($kind) => $then,
            Op::SelinuxMode($kind) => $then,
            Op::Hostname($kind) => $then,
            Op::ImageLoaded($kind) => $then,
            Op::Kubeconfig($kind) => $then,
            Op::KubeObject($kind) => $then,
            Op::NodeUntainted($kind) => $then,
            Op::NodeLabel($kind) => $then,
            Op::Stamp($kind) => $then,
            Op::Act($kind) => $then,
            Op::Reset($kind) => $then,
        }
    };
}

/// Looks at one op's state; changes nothing.
pub fn observe(op: &Op, machine: &Machine) -> Result<Found, OpError> {
    fn with<C: Converge>(op: &C, machine: &Machine) -> Result<Found, OpError> {
        let state = op.observe(machine)?;
        let satisfied = op.satisfied(&state, machine);
        let state = serde_json::to_value(state)
            .map_err(|error| OpError::other(format!("a state cannot be written as JSON: {error}")))?;
        Ok(Found { state, satisfied })
    }
    each!(op, kind => with(kind, machine))
}

/// Files whose bytes a converge would overwrite.
pub(crate) fn overwrites(op: &Op, machine: &Machine) -> Vec<String> {
    each!(op, kind => Converge::overwrites(kind, machine))
}

/// Puts the bytes that a converge would overwrite into the node's ledger.
pub fn keep(op: &Op, machine: &Machine) -> Result<(), OpError> {
    let ledger = machine.ledger();
    overwrites(op, machine).iter().try_for_each(|path| ledger.keep(&machine.path(path)).map(drop))
}

/// Makes it so. [`keep`] must have been called before, or there is no way back.
pub fn converge(op: &Op, machine: &Machine) -> Result<(), OpError> {
    let run = || each!(op, kind => Converge::converge(kind, machine));
    let Some(faults) = machine.faults() else { return run() };
    let number = faults.next();
    faults.strike(FaultPoint::Before(number))?;
    run()?;
    faults.strike(FaultPoint::After(number))
}

/// Makes it so as a part of another op, which faults are counted for.
pub(crate) fn make(op: &Op, machine: &Machine) -> Result<(), OpError> {
    each!(op, kind => Converge::converge(kind, machine))
}

/// Brings back the state that [`observe`] found.
pub fn restore(op: &Op, machine: &Machine, before: &Value, wave: Wave) -> Result<(), OpError> {
    fn with<C: Converge>(op: &C, machine: &Machine, before: &Value, wave: Wave) -> Result<(), OpError> {
        let before = C::State::deserialize(before).map_err(|error| {
            OpError::other(format!(
                "the journalled state of an op cannot be read: {error}; was it written by another version?"
            ))
        })?;
        op.restore(machine, &before, wave)
    }
    each!(op, kind => with(kind, machine, before, wave))
}
