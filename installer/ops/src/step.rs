//! Executes one step on its machine, for the local link and for the agent.

use kubexm_plan::op::{Act, Stamp};
use kubexm_plan::{ObservedState, Op, PathEntry, Step, Undo};

use crate::ledger::{Outcome, Record, SCHEMA};
use crate::ops::packages;
use crate::system::ActContext;
use crate::teardown::mounts;
use crate::{Machine, OpError, Wave, adopted, backup, dispatch, own_state, paths, transient};

/// Observes every op of a step; changes nothing.
pub fn observe(step: &Step, machine: &Machine) -> Result<Vec<ObservedState>, OpError> {
    let found = step.ops.iter().map(|op| dispatch::observe(op, machine)).collect();
    machine.digest_cache().save();
    found
}

/// Observes, writes old content and before-states to the ledger (fsynced), then converges in order every op that is not
/// satisfied. Each op is observed again right before its turn, since an earlier one of the step may have changed it.
/// `before` is the state before the step's first change in this run: an undo restores that, and not what a half-done
/// attempt has left. `machine` has the slot values and texts.
pub fn converge(
    step: &Step,
    machine: &Machine,
    run: &str,
    sequence: u64,
    before: &[ObservedState],
) -> Result<(), OpError> {
    adopted::check(step, machine)?;
    let machine = machine.with_act(ActContext { run: run.to_owned(), step: step.id.0.clone() });
    let found = observe(step, &machine)?;
    for (op, _) in step.ops.iter().zip(&found).filter(|(_, found)| !found.satisfied) {
        dispatch::keep(op, &machine)?;
    }
    let ledger = machine.ledger();
    // A step that removes the ledger must not create it again.
    let forgets = step.ops.iter().any(|op| matches!(op, Op::Reset(reset) if reset.forgets()));
    if !forgets {
        ledger.append(&record(step, run, sequence, before, Outcome::Begun))?;
    }
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
    if !forgets {
        ledger.append(&record(step, run, sequence, before, outcome))?;
    }
    result
}

fn record(step: &Step, run: &str, sequence: u64, before: &[ObservedState], outcome: Outcome) -> Record {
    Record {
        schema: SCHEMA,
        run: run.to_owned(),
        sequence,
        step: step.id.clone(),
        ops: step.ops.clone(),
        undo: step.undo.clone(),
        before: before.to_vec(),
        outcome,
    }
}

/// Rolls a step back in one wave, by its undo. `before` is the state before its first change. After the last wave the
/// ledger has the step as restored; with the step that stamped the host, the ledger and everything else of kubexm are
/// removed.
pub fn undo(
    step: &Step,
    machine: &Machine,
    run: &str,
    sequence: u64,
    before: &[ObservedState],
    wave: Wave,
) -> Result<(), OpError> {
    adopted::check(step, machine)?;
    let machine = machine.with_act(ActContext { run: run.to_owned(), step: format!("{}.undo", step.id.0) });
    match &step.undo {
        Undo::RestoreBefore => restore(step, &machine, before, wave)?,
        Undo::Act { act } => {
            let act = Op::Act(act.clone());
            if wave == Wave::Stop && is_ours(step, before)? && !dispatch::observe(&act, &machine)?.satisfied {
                dispatch::converge(&act, &machine)?;
            }
            let own = step.ops.iter().zip(before).rev().filter(|(op, _)| !matches!(op, Op::Act(_)));
            for (op, found) in own {
                dispatch::restore(op, &machine, found, wave)?;
            }
        }
        // Upgrades are kept, but the temporary policy that stops services from starting is removed.
        Undo::Irreversible { .. } if step.ops.iter().any(|op| matches!(op, Op::Packages(_))) => {
            packages::let_go(&machine, &step.ops, before, wave)?;
        }
        Undo::WithParent { .. } | Undo::Irreversible { .. } | Undo::Nothing => {}
    }
    if wave == Wave::Start && step.ops.iter().any(|op| matches!(op, Op::Act(_) | Op::Packages(_))) {
        transient::forget_ended(&machine, Some(&ActContext { run: run.to_owned(), step: step.id.0.clone() }))?;
    }
    // If a separate disk is mounted below, it is kept with the ledger.
    if wave == Wave::Start && marked_the_host(step, before)? && mounts::below(&machine, paths::STATE)?.is_empty() {
        // This was the run's first step, which stamped the host, and is rolled back last: the earlier state was
        // restored from the ledger, and nothing of kubexm is left that the ledger would describe.
        backup::leave(&machine)?;
        return own_state::remove(&machine);
    }
    if wave == Wave::Start {
        machine.ledger().append(&record(step, run, sequence, before, Outcome::Restored))?;
    }
    Ok(())
}

/// Whether the host had no stamp before this step.
fn marked_the_host(step: &Step, before: &[ObservedState]) -> Result<bool, OpError> {
    let mut stamps = step.ops.iter().zip(before).filter(|(op, _)| matches!(op, Op::Stamp(_)));
    if step.undo != Undo::RestoreBefore {
        return Ok(false);
    }
    stamps.try_fold(false, |marked, (_, found)| Ok(marked || found.state::<Stamp>()?.place.entry == PathEntry::Absent))
}

/// Whether kubexm has created the result of the step's acts and may remove it: not if it existed before, intact or
/// damaged, and not if somebody else created it and the step was refused for that.
fn is_ours(step: &Step, before: &[ObservedState]) -> Result<bool, OpError> {
    let acts = step.ops.iter().zip(before).filter(|(op, _)| matches!(op, Op::Act(_)));
    for (_, found) in acts {
        if !found.state::<Act>()?.may_be_undone() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Restores the state before every op of a step, in reverse order, in one wave. `before` is from [`observe`].
pub fn restore(step: &Step, machine: &Machine, before: &[ObservedState], wave: Wave) -> Result<(), OpError> {
    if before.len() != step.ops.len() {
        return Err(OpError::other(format!(
            "{} recorded states for the {} ops of step {}: plan or journal were changed by hand; put the originals back, then run again",
            before.len(),
            step.ops.len(),
            step.id
        )));
    }
    step.ops.iter().zip(before).rev().try_for_each(|(op, found)| dispatch::restore(op, machine, found, wave))
}

/// The log of the step's act on the host; empty if there is none.
pub fn log(step: &Step, machine: &Machine, run: &str) -> Result<String, OpError> {
    let act = ActContext { run: run.to_owned(), step: step.id.0.clone() };
    Ok(crate::fsio::read_text(&machine.path(act.log()))?.unwrap_or_default())
}
