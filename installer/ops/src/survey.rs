//! One look at many steps, side by side: what nearly everything of a second run is.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use kubexm_plan::{Op, Probe, Step, StepId, Survey};
use kubexm_spec::Digest;

use crate::ops::image_loaded;
use crate::survey_scope::SurveyScope;
use crate::{Machine, OpError, dispatch, fsio, probe};

/// Steps that are looked at side by side; most wait for programs.
const AT_ONCE: usize = 8;

/// Looks at these steps in one survey. A step that cannot be looked at does not hold: who looks at it alone is told why.
///
/// Steps that have only a probe come when all others hold, and else not at all: something will be done before their turn, and
/// on a host where nothing is yet, a server that does not answer would be waited for.
pub fn survey(steps: &[Step], machine: &Machine) -> Result<Survey, OpError> {
    let past = past(machine)?;
    let references = steps.iter().flat_map(|step| &step.ops).filter_map(|op| match op {
        Op::ImageLoaded(image) => Some(image.reference.clone()),
        _ => None,
    });
    let machine = machine.in_survey(SurveyScope::with_images(references.collect()));
    let (probes, mut others): (Vec<&Step>, Vec<&Step>) = steps.iter().partition(|step| step.ops.is_empty());
    // The images come last: their answer is asked for meanwhile, and would be waited for by all.
    let images = |step: &Step| step.ops.iter().any(|op| matches!(op, Op::ImageLoaded(_)));
    others.sort_by_key(|step| images(step));
    let mut holding = std::thread::scope(|scope| {
        if others.last().is_some_and(|step| images(step)) {
            scope.spawn(|| image_loaded::in_survey(&machine).is_some());
        }
        side_by_side(&others, &machine)
    });
    if holding.len() == others.len() {
        holding.extend(side_by_side(&probes, &machine));
    }
    machine.digest_cache().save();
    Ok(Survey { holding, past })
}

/// Those of the steps that hold.
fn side_by_side(steps: &[&Step], machine: &Machine) -> BTreeSet<StepId> {
    let next = AtomicUsize::new(0);
    let holding = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(steps.len()) {
            scope.spawn(|| {
                while let Some(step) = steps.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if holds(step, machine) {
                        holding.lock().unwrap_or_else(PoisonError::into_inner).insert(step.id.clone());
                    }
                }
            });
        }
    });
    holding.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn holds(step: &Step, machine: &Machine) -> bool {
    let ops = step.ops.iter().all(|op| dispatch::observe(op, machine).is_ok_and(|found| found.satisfied));
    ops && step.probe.as_ref().is_none_or(|timed| probe_holds(&timed.probe, machine))
}

fn probe_holds(wanted: &Probe, machine: &Machine) -> bool {
    match wanted {
        Probe::PodNetwork { name, dns, service, .. } => machine.system().host_network(name, dns, service).is_ok(),
        other => probe::look(other, machine).is_ok_and(|answer| answer.holds),
    }
}

/// What the host has been through: another one after every record of its ledger and after every boot.
fn past(machine: &Machine) -> Result<String, OpError> {
    let records = fsio::read(&machine.ledger().records_path())?.unwrap_or_default();
    let boot = fsio::read(&machine.path("/proc/sys/kernel/random/boot_id"))?.unwrap_or_default();
    Ok(Digest::of([boot.as_slice(), b"\n", records.as_slice()].concat()).hex())
}
