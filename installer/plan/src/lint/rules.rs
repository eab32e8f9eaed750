//! The rules, one function each, in one table.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_spec::Digest;

use super::{Order, Problem, Severity};
use crate::op::{Content, Op};
use crate::touch::same;
use crate::{Plan, SlotName, SlotProvider, Step, StepId, Undo};

/// One rule.
pub(super) struct Rule {
    name: &'static str,
    severity: Severity,
    /// What is wrong, and at which step.
    pub(super) run: fn(&Rule, &Plan, &Order) -> Vec<Problem>,
}

pub(super) const RULES: &[Rule] = &[
    Rule { name: "unique-ids", severity: Severity::Error, run: unique_ids },
    Rule { name: "known-hosts", severity: Severity::Error, run: known_hosts },
    Rule { name: "known-steps", severity: Severity::Error, run: known_steps },
    Rule { name: "no-cycle", severity: Severity::Error, run: no_cycle },
    Rule { name: "steps-in-order", severity: Severity::Error, run: steps_in_order },
    Rule { name: "one-writer", severity: Severity::Error, run: one_writer },
    Rule { name: "slots-provided", severity: Severity::Error, run: slots_provided },
    Rule { name: "blobs-delivered", severity: Severity::Error, run: blobs_delivered },
    Rule { name: "texts-there", severity: Severity::Error, run: texts_there },
    Rule { name: "no-secret", severity: Severity::Error, run: no_secret },
    Rule { name: "time-for-the-probe", severity: Severity::Error, run: time_for_the_probe },
    Rule { name: "parent-before", severity: Severity::Error, run: parent_before },
    Rule { name: "irreversible", severity: Severity::Warning, run: irreversible },
];

impl Rule {
    fn at(&self, step: &Step, text: impl Into<String>) -> Problem {
        self.problem(Some(step.id.clone()), text)
    }

    fn problem(&self, step: Option<StepId>, text: impl Into<String>) -> Problem {
        let mut text = text.into();
        if self.severity == Severity::Error {
            text.push_str("; this is a fault of the recipe, or plan.json was changed");
        }
        Problem { severity: self.severity, rule: self.name, step, text }
    }
}

fn unique_ids(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let mut seen = BTreeMap::new();
    for step in &plan.steps {
        *seen.entry(&step.id).or_insert(0) += 1;
    }
    seen.into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(id, count)| rule.problem(Some(id.clone()), format!("{count} steps have the id {id}")))
        .collect()
}

fn known_hosts(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let known: BTreeSet<&str> = plan.hosts.iter().map(|h| h.name.as_str()).collect();
    let strange = plan.steps.iter().filter(|s| !known.contains(s.host.as_str()));
    strange.map(|s| rule.at(s, format!("{} runs on {}, which is no host of the plan", s.id, s.host))).collect()
}

fn known_steps(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let known: BTreeSet<&StepId> = plan.steps.iter().map(|s| &s.id).collect();
    let named = plan.steps.iter().flat_map(|step| {
        let parent = match &step.undo {
            Undo::WithParent { step } => Some(step),
            _ => None,
        };
        step.after.iter().chain(parent).map(move |name| (step, name))
    });
    named
        .filter(|(_, name)| !known.contains(name))
        .map(|(step, name)| rule.at(step, format!("{} names {name}, which is no step of the plan", step.id)))
        .collect()
}

fn no_cycle(rule: &Rule, plan: &Plan, order: &Order) -> Vec<Problem> {
    let step = order.cycle().and_then(|position| plan.steps.get(position));
    step.map(|step| rule.at(step, format!("{} waits for itself", step.id))).into_iter().collect()
}

fn steps_in_order(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let mut seen: BTreeSet<&StepId> = BTreeSet::new();
    let known: BTreeSet<&StepId> = plan.steps.iter().map(|s| &s.id).collect();
    let mut problems = Vec::new();
    for step in &plan.steps {
        let late = step.after.iter().filter(|id| known.contains(id) && !seen.contains(id));
        problems.extend(late.map(|id| rule.at(step, format!("{} stands before {id}, which it waits for", step.id))));
        seen.insert(&step.id);
    }
    problems
}

fn one_writer(rule: &Rule, plan: &Plan, order: &Order) -> Vec<Problem> {
    let mut touched: BTreeMap<&str, Vec<(usize, String)>> = BTreeMap::new();
    for (position, step) in plan.steps.iter().enumerate() {
        let things = step.ops.iter().flat_map(Op::touches).map(|thing| (position, thing));
        touched.entry(&step.host).or_default().extend(things);
    }
    let mut problems = Vec::new();
    for things in touched.values() {
        for (index, (one, thing)) in things.iter().enumerate() {
            for (other, _) in things[index + 1..].iter().filter(|(_, other)| same(thing, other)) {
                if one != other && !order.is_before(*one, *other) && !order.is_before(*other, *one) {
                    let (one, other) = (&plan.steps[*one], &plan.steps[*other]);
                    problems
                        .push(rule.at(one, format!("{} and {} both change {thing}, in no order", one.id, other.id)));
                }
            }
        }
    }
    problems
}

fn slots_provided(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let mut problems = Vec::new();
    for step in &plan.steps {
        let read = step.ops.iter().filter_map(|op| match op {
            Op::File(file) => match &file.content {
                Content::Slot { slot } => Some(slot),
                Content::Text { .. } => None,
            },
            _ => None,
        });
        let missing = read.filter(|slot| !plan.slots.contains_key(slot));
        problems.extend(missing.map(|slot| rule.at(step, unprovided(&step.id.0, slot))));
    }
    for (name, provider) in &plan.slots {
        if let SlotProvider::RegistryKey { cert } = provider
            && !plan.slots.contains_key(cert)
        {
            problems.push(rule.problem(None, unprovided(&name.0, cert)));
        }
    }
    problems
}

fn unprovided(reader: &str, slot: &SlotName) -> String {
    format!("{reader} reads slot {}, which nothing provides", slot.0)
}

/// Programs come from the node's own store: an earlier step (or an earlier op) must have put the blob there.
fn blobs_delivered(rule: &Rule, plan: &Plan, order: &Order) -> Vec<Problem> {
    let mut delivered: BTreeMap<(&str, Digest), Vec<(usize, usize)>> = BTreeMap::new();
    for (position, step) in plan.steps.iter().enumerate() {
        for (number, op) in step.ops.iter().enumerate() {
            if let Op::Blobs(blobs) = op {
                for digest in blobs.blobs.keys() {
                    delivered.entry((&step.host, *digest)).or_default().push((position, number));
                }
            }
        }
    }
    let mut problems = Vec::new();
    for (position, step) in plan.steps.iter().enumerate() {
        for (number, op) in step.ops.iter().enumerate() {
            let blob = match op {
                Op::Binary(binary) => binary.blob,
                Op::Unpacked(unpacked) => unpacked.blob,
                _ => continue,
            };
            let there = delivered.get(&(step.host.as_str(), blob)).is_some_and(|places| {
                places.iter().any(|(p, n)| order.is_before(*p, position) || (*p == position && *n < number))
            });
            if !there {
                let text = format!("{} takes blob {blob}, which no earlier step brings to {}", step.id, step.host);
                problems.push(rule.at(step, text));
            }
        }
    }
    problems
}

fn texts_there(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let named = plan.steps.iter().flat_map(|step| {
        step.ops.iter().filter_map(move |op| match op {
            Op::File(file) => match &file.content {
                Content::Text { digest } => Some((step, digest)),
                Content::Slot { .. } => None,
            },
            Op::KubeObject(object) => Some((step, &object.text)),
            _ => None,
        })
    });
    named
        .filter(|(_, digest)| plan.texts.get(digest).is_none_or(|text| Digest::of(text) != **digest))
        .map(|(step, digest)| rule.at(step, format!("{} names text {digest}, which is not there or changed", step.id)))
        .collect()
}

/// What a file with a secret would show. Secrets are slots.
const SECRETS: [&str; 6] = [
    "PRIVATE KEY-----",
    "client-key-data:",
    "kind: Secret",
    "\"kind\":\"Secret\"",
    "bootstrapTokens:",
    "certificateKey:",
];

fn no_secret(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (digest, text) in &plan.texts {
        for mark in SECRETS.into_iter().filter(|mark| text.contains(mark)) {
            let text = format!("text {digest} looks like it holds a secret ({mark:?}); secrets are slots");
            problems.push(rule.problem(None, text));
        }
    }
    problems
}

fn time_for_the_probe(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let within = |step: &&Step| step.probe.as_ref().is_some_and(|timed| timed.within_s >= step.timeout_s);
    let short = plan.steps.iter().filter(within);
    short.map(|s| rule.at(s, format!("{} ends after {} s, before its probe may", s.id, s.timeout_s))).collect()
}

/// What is taken back with another step must have been made after it.
fn parent_before(rule: &Rule, plan: &Plan, order: &Order) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (position, step) in plan.steps.iter().enumerate() {
        let Undo::WithParent { step: parent } = &step.undo else { continue };
        let at = plan.steps.iter().position(|s| s.id == *parent);
        if at.is_some_and(|at| !order.is_before(at, position)) {
            problems.push(rule.at(step, format!("{} is taken back with {parent} and does not come after it", step.id)));
        }
    }
    problems
}

/// Shown before the operator says yes.
fn irreversible(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let why = |step: &Step| match &step.undo {
        Undo::Irreversible { why } => Some(why.clone()),
        _ => None,
    };
    let steps = plan.steps.iter().filter_map(|step| why(step).map(|why| (step, why)));
    steps.map(|(step, why)| rule.at(step, format!("{} cannot be taken back: {why}", step.id))).collect()
}
