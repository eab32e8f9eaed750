//! Compares hosts with a plan before anything is confirmed or changed.

use kubexm_plan::{Op, Plan, SlotProvider, Step, StepDrift};

use crate::events::EventSink;
use crate::link::LinkError;
use crate::run_context::Links;
use crate::slots::{Given, SlotSource, reads};
use crate::waits;

/// What differs on hosts from a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// The steps that would change something, in the order of the plan.
    pub steps: Vec<StepDrift>,
    /// Number of steps that were compared.
    pub compared: usize,
    /// Number of steps that were not compared, since a value that they need cannot be read now.
    pub skipped: usize,
}

/// Compares every step that has ops with its host; changes nothing on hosts and takes no lock there. With it the errors of hosts that
/// did not answer: their steps count as not compared, and hide nothing of others.
///
/// # Errors
/// A host answered what it was not asked ([`LinkError::Untrusted`]).
pub async fn drift(
    plan: &Plan,
    links: &Links,
    source: &dyn SlotSource,
    events: &dyn EventSink,
) -> Result<(Drift, Vec<LinkError>), LinkError> {
    let hosts = links.iter().map(|(host, link)| {
        let look = async move {
            let (mut steps, mut given, mut skipped): (Vec<&Step>, _, _) = (Vec::new(), Given::default(), 0);
            for step in plan.steps.iter().filter(|step| step.host == *host && !step.ops.is_empty()) {
                match values(step, plan, source, &mut given).await {
                    true => steps.push(step),
                    false => skipped += 1,
                }
            }
            let found = if steps.is_empty() { Ok(Vec::new()) } else { link.drift(plan, &steps, &given.values).await };
            match found {
                Ok(found) => Ok((Drift { steps: found, compared: steps.len(), skipped }, None)),
                Err(error @ LinkError::Untrusted { .. }) => Err(error),
                Err(error) => Ok((Drift { skipped: skipped + steps.len(), ..Drift::default() }, Some(error))),
            }
        };
        (host.clone(), look)
    });
    let (mut all, mut failed) = (Drift::default(), Vec::new());
    for (_, found) in waits::of_hosts(events, "a comparison with the plan", hosts).await {
        let (found, error) = found?;
        failed.extend(error);
        all.steps.extend(found.steps);
        all.compared += found.compared;
        all.skipped += found.skipped;
    }
    let place = |drift: &StepDrift| plan.steps.iter().position(|step| step.id == drift.step);
    all.steps.sort_by_key(place);
    Ok((all, failed))
}

/// Adds the values that a step reads; false if it cannot be compared without one. Hosts are not asked to make values,
/// for which they would have to be locked: an act (a join) is observed without them.
async fn values(step: &Step, plan: &Plan, source: &dyn SlotSource, given: &mut Given) -> bool {
    let acts = step.ops.iter().all(|op| matches!(op, Op::Act(_)));
    for name in reads(step) {
        let Some(provider) = plan.slots.get(name) else { return false };
        let made_on_host = provider.made_on().is_some() && !matches!(provider, SlotProvider::AdminKubeconfig { .. });
        if made_on_host {
            if acts {
                continue;
            }
            return false;
        }
        if given.values.contains_key(name) {
            continue;
        }
        match source.value(name, provider, plan).await {
            Ok(value) => drop(given.values.insert(name.clone(), value)),
            Err(_) => return false,
        }
    }
    true
}
