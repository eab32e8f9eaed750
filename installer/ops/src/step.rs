//! One step on the machine it belongs to: what the local link and the agent both do.

use kubexm_plan::{Found, Step};

use crate::ledger::{Outcome, Record, SCHEMA};
use crate::system::ActContext;
use crate::{Machine, OpError, Wave, dispatch};

/// Observes every op of a step; changes nothing.
pub fn observe(step: &Step, machine: &Machine) -> Result<Vec<Found>, OpError> {
    step.ops.iter().map(|op| dispatch::observe(op, machine)).collect()
}

/// Observes, writes old bytes and before-states to the ledger (fsynced), then converges in order what is not
/// satisfied. Each op is looked at again right before its turn: an earlier one of the step may have changed it.
/// Slot values and texts are those of `machine`.
pub fn converge(step: &Step, machine: &Machine, run: &str, sequence: u64) -> Result<(), OpError> {
    let machine = machine.with_act(ActContext { run: run.to_owned(), step: step.id.0.clone() });
    let before = observe(step, &machine)?;
    for (op, _) in step.ops.iter().zip(&before).filter(|(_, found)| !found.satisfied) {
        dispatch::keep(op, &machine)?;
    }
    let record = |outcome| Record {
        schema: SCHEMA,
        run: run.to_owned(),
        sequence,
        step: step.id.clone(),
        ops: step.ops.clone(),
        before: before.clone(),
        outcome,
    };
    let ledger = machine.ledger();
    ledger.append(&record(Outcome::Begun))?;
    let result = step.ops.iter().try_for_each(|op| {
        if dispatch::observe(op, &machine)?.satisfied {
            return Ok(());
        }
        dispatch::keep(op, &machine)?;
        dispatch::converge(op, &machine)
    });
    let outcome = match &result {
        Ok(()) => Outcome::Done,
        Err(error) => Outcome::Failed { text: error.full() },
    };
    ledger.append(&record(outcome))?;
    result
}

/// Brings back what every op of a step found, in reverse order, in one wave. `before` is as [`observe`] gave it.
pub fn restore(step: &Step, machine: &Machine, before: &[Found], wave: Wave) -> Result<(), OpError> {
    if before.len() != step.ops.len() {
        return Err(OpError::other(format!(
            "{} ops and {} journalled states for step {}: the plan was changed since",
            step.ops.len(),
            before.len(),
            step.id
        )));
    }
    step.ops.iter().zip(before).rev().try_for_each(|(op, found)| dispatch::restore(op, machine, &found.state, wave))
}

/// The log that the step's Act left on the host; empty when it has none.
pub fn log(step: &Step, machine: &Machine, run: &str) -> Result<String, OpError> {
    let act = ActContext { run: run.to_owned(), step: step.id.0.clone() };
    Ok(crate::fsio::read_text(&machine.path(act.log()))?.unwrap_or_default())
}
