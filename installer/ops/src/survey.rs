//! Observes many steps in parallel: most of what a second run does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use kubexm_plan::{Op, Probe, Step, StepId, Survey};
use kubexm_spec::Digest;

use crate::ops::image_loaded;
use crate::survey_scope::SurveyScope;
use crate::{Machine, OpError, dispatch, fsio, probe};

/// Steps that are observed in parallel; most of them wait for programs.
const AT_ONCE: usize = 8;

/// Observes these steps in one survey. A step that cannot be observed counts as not satisfied; observing it alone
/// reports the reason.
///
/// Steps with only a probe are checked if all others are satisfied, and otherwise not at all: something will change
/// before their turn, and on an empty host the survey would wait for servers that do not run yet.
pub fn survey(steps: &[Step], machine: &Machine) -> Result<Survey, OpError> {
    let past = past(machine)?;
    let machine = machine.in_survey(scope_of(steps));
    let (probes, mut others): (Vec<&Step>, Vec<&Step>) = steps.iter().partition(|step| step.ops.is_empty());
    // Images come last: their list is requested in the background, and all of them would wait for it.
    let runtime = |step: &Step| {
        step.ops.iter().find_map(|op| if let Op::ImageLoaded(image) = op { Some(image.runtime) } else { None })
    };
    others.sort_by_key(|step| runtime(step).is_some());
    let mut holding = std::thread::scope(|scope| {
        if let Some(runtime) = others.last().and_then(|step| runtime(step)) {
            let machine = &machine;
            scope.spawn(move || image_loaded::in_survey(machine, runtime).is_some());
        }
        held(&others, &machine)
    });
    if holding.len() == others.len() {
        holding.extend(held(&probes, &machine));
    }
    machine.digest_cache().save();
    Ok(Survey { holding, past })
}

/// What the observations of these steps share.
pub(crate) fn scope_of(steps: &[Step]) -> SurveyScope {
    let references = steps.iter().flat_map(|step| &step.ops).filter_map(|op| match op {
        Op::ImageLoaded(image) => Some(image.reference.clone()),
        _ => None,
    });
    SurveyScope::with_images(references.collect())
}

/// The steps that are satisfied.
fn held(steps: &[&Step], machine: &Machine) -> BTreeSet<StepId> {
    side_by_side(steps, |step| holds(step, machine).then(|| step.id.clone())).into_iter().collect()
}

/// Observes steps in parallel; the results are in the order of the steps.
pub(crate) fn side_by_side<T: Send>(steps: &[&Step], look: impl Fn(&Step) -> Option<T> + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(steps.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(step) = steps.get(at) else { return };
                    if let Some(one) = look(step) {
                        found.lock().unwrap_or_else(PoisonError::into_inner).insert(at, one);
                    }
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
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

/// An opaque value that changes with every record in the host's ledger and with every boot.
fn past(machine: &Machine) -> Result<String, OpError> {
    let records = fsio::read(&machine.ledger().records_path())?.unwrap_or_default();
    let boot = fsio::read(&machine.path("/proc/sys/kernel/random/boot_id"))?.unwrap_or_default();
    Ok(Digest::of([boot.as_slice(), b"\n", records.as_slice()].concat()).hex())
}
