//! Ops taken back to what they found long ago, as the node's ledger has it.
//!
//! A mark (`/var/lib/kubexm/reverted`) says that all of it was done: some ops leave what somebody else needs by now (a
//! module in use, a folder that others put files in), and would be taken back in every run.

use kubexm_plan::touch::same;
use kubexm_plan::{Found, Op};
use kubexm_spec::Digest;
use serde::Deserialize;
use serde_json::Value;

use super::Traces;
use crate::fsio::{self, Access};
use crate::place::{Entry, Place};
use crate::{Converge, Machine, OpError, Wave, dispatch, paths};

const MARK: &str = "reverted";

pub(super) fn observe(machine: &Machine, ops: &[Op], before: &[Found]) -> Result<Traces, OpError> {
    paired(ops, before.len())?;
    let mut states = Vec::new();
    let mut back = true;
    for (number, (op, then)) in ops.iter().zip(before).enumerate() {
        let now = dispatch::observe(op, machine)?;
        // Of several that changed one thing, the oldest (the last here) says how it was.
        let decides = !ops[number + 1..].iter().any(|older| overlap(op, older));
        back = back && (!decides || is_back(machine, op, &now, then)?);
        states.push(now.state);
    }
    back = back || fsio::read_text(&mark_path(machine))?.is_some_and(|mark| mark.trim() == mark_of(ops));
    Ok(Traces::States { states, back })
}

pub(super) fn revert(machine: &Machine, ops: &[Op], before: &[Found]) -> Result<(), OpError> {
    paired(ops, before.len())?;
    for wave in Wave::ALL {
        for (op, then) in ops.iter().zip(before) {
            dispatch::restore(op, machine, &then.state, wave)?;
        }
    }
    fsio::write(machine, &format!("{}/{MARK}", paths::STATE), mark_of(ops).as_bytes(), Access::mode(0o600))
}

/// Back to what the reset found: the oldest first, as they were made.
pub(super) fn restore(machine: &Machine, ops: &[Op], states: &[Value], wave: Wave) -> Result<(), OpError> {
    paired(ops, states.len())?;
    if wave == Wave::Stop {
        fsio::remove(&mark_path(machine))?;
    }
    ops.iter().zip(states).rev().try_for_each(|(op, state)| match op {
        // Its files are the store's blobs: no copies of them are kept, they are placed again.
        Op::RegistryLayout(layout) if wave == Wave::Data && was_whole(state) => layout.converge(machine),
        _ => dispatch::restore(op, machine, state, wave),
    })
}

/// Nothing of a registry's layout was missing or another's.
fn was_whole(state: &Value) -> bool {
    ["missing", "changed"].iter().all(|key| state.get(key).and_then(Value::as_array).is_some_and(Vec::is_empty))
}

fn paired(ops: &[Op], states: usize) -> Result<(), OpError> {
    if ops.len() == states {
        return Ok(());
    }
    Err(OpError::other(format!("{} ops and {states} states to take back: plan or journal were changed", ops.len())))
}

fn mark_path(machine: &Machine) -> std::path::PathBuf {
    machine.path(format!("{}/{MARK}", paths::STATE))
}

fn mark_of(ops: &[Op]) -> String {
    Digest::of(serde_json::to_vec(ops).unwrap_or_default()).to_string()
}

fn overlap(one: &Op, other: &Op) -> bool {
    let others = other.touches();
    one.touches().iter().any(|thing| others.iter().any(|other| same(thing, other)))
}

/// Every file that the op had looked at is as it was, and so is what is no file.
fn is_back(machine: &Machine, op: &Op, now: &Found, then: &Found) -> Result<bool, OpError> {
    for place in places(&then.state) {
        let found = Entry::look(machine, &place.path)?;
        // A folder in which others put something by now stays.
        let others = place.entry == Entry::Absent && matches!(found, Entry::Directory { .. });
        if found != place.entry && !others {
            return Ok(false);
        }
    }
    let word = |state: &Value, key: &str| state.get(key).and_then(Value::as_bool).unwrap_or(false);
    Ok(match op {
        Op::Unit(_) => ["enabled", "active"].iter().all(|key| word(&now.state, key) == word(&then.state, key)),
        _ => now.satisfied == then.satisfied || !places(&then.state).is_empty(),
    })
}

/// Places anywhere in a state, whatever its kind.
fn places(state: &Value) -> Vec<Place> {
    match Place::deserialize(state) {
        Ok(place) => vec![place],
        Err(_) => match state {
            Value::Array(values) => values.iter().flat_map(places).collect(),
            Value::Object(values) => values.values().flat_map(places).collect(),
            _ => Vec::new(),
        },
    }
}
