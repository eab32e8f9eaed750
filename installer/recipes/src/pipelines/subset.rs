//! Some of the steps of a plan, as a plan of their own: what the others would do is there already.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::cluster_facts::applied;
use kubexm_plan::{Op, Plan, SlotProvider, Step, StepId, Undo};

use crate::modules::dns;

/// The wanted steps in their order, with only the texts and slots that they read.
pub(super) fn only(mut plan: Plan, wanted: impl Fn(&Step) -> bool) -> Plan {
    let mut dropped: BTreeMap<StepId, Step> = BTreeMap::new();
    let mut kept: Vec<Step> = Vec::new();
    for mut step in std::mem::take(&mut plan.steps) {
        skip_dropped(&mut step, &dropped);
        if wanted(&step) {
            kept.push(step);
        } else {
            dropped.insert(step.id.clone(), step);
        }
    }
    for step in &mut kept {
        if matches!(&step.undo, Undo::WithParent { step } if dropped.contains_key(step)) {
            // These objects every cluster has, and their earlier content is kept.
            let had = |op: &Op| matches!(op, Op::KubeObject(object) if [applied::CONFIG_MAP, dns::COREDNS].contains(&object.name.as_str()));
            step.undo = match step.ops.iter().all(had) {
                true => Undo::RestoreBefore,
                false => Undo::Irreversible { why: "it belongs to the whole cluster, which stays".to_owned() },
            };
        }
    }
    let ops = || kept.iter().flat_map(|step| &step.ops);
    let mut slots: BTreeSet<_> = ops().flat_map(Op::slots).cloned().collect();
    let needed: Vec<_> = slots.iter().filter_map(|slot| plan.slots.get(slot)).filter_map(SlotProvider::needs).collect();
    let needed: Vec<_> = needed.into_iter().cloned().collect();
    slots.extend(needed);
    let texts: BTreeSet<_> = ops().filter_map(Op::text).collect();
    plan.slots.retain(|slot, _| slots.contains(slot));
    plan.texts.retain(|digest, _| texts.contains(digest));
    plan.steps = kept;
    plan
}

/// Replaces dependencies on dropped steps by the dependencies of those, which are resolved already.
fn skip_dropped(step: &mut Step, dropped: &BTreeMap<StepId, Step>) {
    let (mut after, mut after_end) = (Vec::new(), Vec::new());
    for id in std::mem::take(&mut step.after) {
        match dropped.get(&id) {
            Some(earlier) => {
                after.extend(earlier.after.iter().cloned());
                after_end.extend(earlier.after_end.iter().cloned());
            }
            None => after.push(id),
        }
    }
    for id in std::mem::take(&mut step.after_end) {
        match dropped.get(&id) {
            Some(earlier) => after_end.extend(earlier.after.iter().chain(&earlier.after_end).cloned()),
            None => after_end.push(id),
        }
    }
    let mut seen = BTreeSet::new();
    step.after = after.into_iter().filter(|id| seen.insert(id.clone())).collect();
    step.after_end = after_end.into_iter().filter(|id| seen.insert(id.clone())).collect();
}
