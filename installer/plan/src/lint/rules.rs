//! The rules, one function each, in one table.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_spec::Digest;
use kubexm_spec::credential::{self, HOLE};

use super::order::Order;
use super::problem::{Problem, Severity};
use crate::id::StepId;
use crate::op::{Act, Content, Op};
use crate::plan::{CONTROLLER, OPERATOR_KUBECONFIG, Plan};
use crate::resource::Resource;
use crate::slot::{SlotName, SlotProvider};
use crate::step::Step;
use crate::undo::Undo;

/// One rule.
pub(super) struct Rule {
    name: &'static str,
    severity: Severity,
    /// Returns what is wrong, and at which step.
    pub(super) run: fn(&Rule, &Plan, &Order) -> Vec<Problem>,
}

pub(super) const RULES: &[Rule] = &[
    Rule { name: "plain-words", severity: Severity::Error, run: plain_words },
    Rule { name: "unique-ids", severity: Severity::Error, run: unique_ids },
    Rule { name: "known-hosts", severity: Severity::Error, run: known_hosts },
    Rule { name: "known-steps", severity: Severity::Error, run: known_steps },
    Rule { name: "no-cycle", severity: Severity::Error, run: no_cycle },
    Rule { name: "steps-in-order", severity: Severity::Error, run: steps_in_order },
    Rule { name: "domain-closed", severity: Severity::Error, run: domain_closed },
    Rule { name: "one-writer", severity: Severity::Error, run: one_writer },
    Rule { name: "slots-provided", severity: Severity::Error, run: slots_provided },
    Rule { name: "slots-used", severity: Severity::Error, run: slots_used },
    Rule { name: "slots-can-be-made", severity: Severity::Error, run: slots_can_be_made },
    Rule { name: "slots-in-texts", severity: Severity::Error, run: slots_in_texts },
    Rule { name: "slots-in-secrets", severity: Severity::Error, run: slots_in_secrets },
    Rule { name: "blobs-delivered", severity: Severity::Error, run: blobs_delivered },
    Rule { name: "texts-there", severity: Severity::Error, run: texts_there },
    Rule { name: "no-secret", severity: Severity::Error, run: no_secret },
    Rule { name: "time-for-the-probe", severity: Severity::Error, run: time_for_the_probe },
    Rule { name: "controller-limited", severity: Severity::Error, run: controller_limited },
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

/// They are shown before the question, where nothing may begin a line of its own.
fn plain_words(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let is_plain = |text: &str| kubexm_spec::on_one_line(text) == text;
    let wrong = plan.steps.iter().filter(|step| !is_plain(&step.id.0) || !is_plain(&step.title));
    wrong.map(|step| rule.problem(None, format!("the id or title of {:?} has control characters", step.id.0))).collect()
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
    let hosts = plan.hosts.iter().map(|h| h.name.as_str());
    let known: BTreeSet<&str> = hosts.chain([CONTROLLER]).collect();
    let named = plan.steps.iter().flat_map(|step| {
        let domain = step.domain.iter().map(|domain| ("belongs to", domain));
        let asked = step.probe.iter().flat_map(|timed| timed.probe.hosts()).map(|host| ("asks", host));
        std::iter::once(("runs on", &step.host)).chain(domain).chain(asked).map(move |(what, host)| (step, what, host))
    });
    named
        .filter(|(_, _, host)| !known.contains(host.as_str()))
        .map(|(step, what, host)| rule.at(step, format!("{} {what} {host}, which is no host of the plan", step.id)))
        .collect()
}

fn known_steps(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let known: BTreeSet<&StepId> = plan.steps.iter().map(|s| &s.id).collect();
    let named = plan.steps.iter().flat_map(|step| {
        let parent = match &step.undo {
            Undo::WithParent { step } => Some(step),
            _ => None,
        };
        step.after.iter().chain(&step.after_end).chain(parent).map(move |name| (step, name))
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
        let late = step.after.iter().chain(&step.after_end).filter(|id| known.contains(id) && !seen.contains(id));
        problems.extend(late.map(|id| rule.at(step, format!("{} is before {id}, which it waits for", step.id))));
        seen.insert(&step.id);
    }
    problems
}

/// A step of another host must not depend on the success of an optional host's step, only on its end: when the optional
/// host fails, only its own steps fail.
fn domain_closed(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let optional: BTreeSet<&str> = plan.hosts.iter().filter(|h| h.optional).map(|h| h.name.as_str()).collect();
    let domains: BTreeMap<&StepId, &str> = plan.steps.iter().map(|s| (&s.id, s.domain())).collect();
    let mut problems = Vec::new();
    for step in &plan.steps {
        let parent = match &step.undo {
            Undo::WithParent { step } => Some(step),
            _ => None,
        };
        for name in step.after.iter().chain(parent) {
            let Some(domain) = domains.get(name).filter(|domain| optional.contains(**domain)) else { continue };
            if *domain != step.domain() {
                let text = format!("{} needs {name}, which is left out with {domain} when that host fails", step.id);
                problems.push(rule.at(step, text));
            }
        }
    }
    problems
}

fn one_writer(rule: &Rule, plan: &Plan, order: &Order) -> Vec<Problem> {
    let mut touched: BTreeMap<&str, Vec<(usize, Vec<Resource>)>> = BTreeMap::new();
    for (position, step) in plan.steps.iter().enumerate() {
        let resources = step.ops.iter().flat_map(Op::alone).collect();
        touched.entry(&step.host).or_default().push((position, resources));
    }
    let mut problems = Vec::new();
    for steps in touched.values() {
        for (index, (one, resources)) in steps.iter().enumerate() {
            // What one of them changes is compared with what those change alone that it has no order with: one step of a reset may change all
            // that a host says of itself.
            let in_no_order = |other: usize| !order.is_earlier(*one, other) && !order.is_earlier(other, *one);
            let beside: Vec<_> = steps[index + 1..].iter().filter(|(other, _)| in_no_order(*other)).collect();
            for resource in resources {
                for (other, others) in &beside {
                    let (one, other) = (&plan.steps[*one], &plan.steps[*other]);
                    problems.extend(others.iter().filter(|other| resource.overlaps(other)).map(|_| {
                        rule.at(one, format!("{} and {} both change {resource}, in no order", one.id, other.id))
                    }));
                }
            }
        }
    }
    problems
}

fn slots_provided(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let mut problems = Vec::new();
    for step in &plan.steps {
        let read: BTreeSet<&SlotName> = step.ops.iter().flat_map(Op::slots).collect();
        let missing = read.into_iter().filter(|slot| !plan.slots.contains_key(slot));
        problems.extend(missing.map(|slot| rule.at(step, unprovided(&step.id.0, slot))));
    }
    for (name, provider) in &plan.slots {
        let missing = provider.needs().filter(|slot| !plan.slots.contains_key(slot));
        problems.extend(missing.map(|slot| rule.problem(None, unprovided(&name.0, slot))));
    }
    problems
}

/// A slot that no step reads would be fetched and distributed for nothing.
fn slots_used(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let read: BTreeSet<&SlotName> = plan.steps.iter().flat_map(|step| &step.ops).flat_map(Op::slots).collect();
    let needed: BTreeSet<&SlotName> = plan.slots.values().filter_map(SlotProvider::needs).collect();
    let idle = plan.slots.keys().filter(|slot| !read.contains(slot) && !needed.contains(slot));
    idle.map(|slot| rule.problem(None, format!("slot {} is provided, and no step reads it", slot.0))).collect()
}

fn unprovided(reader: &str, slot: &SlotName) -> String {
    format!("{reader} reads slot {}, which nothing provides", slot.0)
}

/// A slot whose value a control plane makes may be read only after that control plane exists: if the plan creates it,
/// after that step.
fn slots_can_be_made(rule: &Rule, plan: &Plan, order: &Order) -> Vec<Problem> {
    let makes = |op: &Op| op.changes(&Resource::ControlPlane);
    let mut problems = Vec::new();
    for (position, step) in plan.steps.iter().enumerate() {
        for slot in step.ops.iter().flat_map(Op::slots) {
            let Some(host) = plan.slots.get(slot).and_then(SlotProvider::made_on) else { continue };
            let mut made = plan.steps.iter().enumerate().filter(|(_, s)| s.host == host && s.ops.iter().any(makes));
            if let Some((_, maker)) = made.find(|(at, _)| !order.is_before(*at, position)) {
                let text = format!("{} reads slot {}, made on {host} once {} holds", step.id, slot.0, maker.id);
                problems.push(rule.at(step, text + ", and does not come after it"));
            }
        }
    }
    problems
}

/// A text is filled from the slots that its op names: each placeholder has a slot, and each slot a placeholder.
fn slots_in_texts(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let mut problems = Vec::new();
    for step in &plan.steps {
        for op in &step.ops {
            let needs = op.needs();
            // Texts without slots are written unchanged: a user's text may contain anything.
            let is_filled = |op: &Op| match op {
                Op::File(file) => matches!(file.content, Content::Filled { .. }),
                op => matches!(op, Op::Act(Act::KubeadmJoin(_))),
            };
            let filled = !needs.slots.is_empty() || is_filled(op);
            let Some(text) = needs.text.and_then(|d| plan.texts.get(&d)).filter(|_| filled) else { continue };
            let slots = needs.slots;
            let holes = text.matches(HOLE).count();
            let filled: usize = slots.iter().map(|slot| text.matches(slot.placeholder().as_str()).count()).sum();
            let unused = slots.iter().filter(|slot| !text.contains(&slot.placeholder()));
            problems
                .extend(unused.map(|s| {
                    rule.at(step, format!("{} lists slot {}, which its text does not contain", step.id, s.0))
                }));
            if holes != filled {
                problems.push(rule.at(step, format!("{} does not list {} slots of its text", step.id, holes - filled)));
            }
        }
    }
    problems
}

/// Of the objects of the cluster, only Secrets may contain values of slots: more users may read ConfigMaps.
fn slots_in_secrets(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let mut problems = Vec::new();
    for step in &plan.steps {
        let objects = step.ops.iter().filter_map(|op| match op {
            Op::KubeObject(objects) if !objects.slots.is_empty() => plan.texts.get(&objects.text),
            Op::Manifests(objects) if !objects.slots.is_empty() => plan.texts.get(&objects.blob),
            _ => None,
        });
        let documents = objects.flat_map(|text| text.split(DOCUMENTS));
        let wrong = documents.filter(|document| document.contains(HOLE) && !is_secret_of_slots(document));
        let text = || format!("{} uses a slot outside of the data of a Secret", step.id);
        problems.extend(wrong.map(|_| rule.at(step, text())));
    }
    problems
}

/// The separator between two YAML documents.
const DOCUMENTS: &str = "\n---";
const SECRET: &str = "kind: Secret";

/// Top-level fields of a Secret (`v1`) that may be in a plan: `stringData` is not among them.
const SECRET_FIELDS: [&str; 6] = ["apiVersion", "kind", "metadata", "type", "immutable", "data"];

/// Whether a document is a Secret in block style whose `data` has placeholders of slots and nothing else, one on each line.
fn is_secret_of_slots(document: &str) -> bool {
    let is_place = |line: &str| {
        let quoted = |value: &str| value.trim().trim_matches(['"', '\'']).to_owned();
        let value = line.split_once(": ").map(|(_, value)| quoted(value));
        let value = value.as_deref().and_then(|value| value.strip_prefix(HOLE)?.strip_suffix("}}"));
        value.is_some_and(|name| !name.contains('}'))
    };
    let mut in_data = false;
    let mut lines = document.lines().filter(|line| !line.trim().is_empty() && *line != "---");
    let sound = lines.all(|line| match line.split_once(':') {
        _ if line.starts_with(' ') && in_data => is_place(line),
        _ if line.starts_with(' ') => !line.contains(HOLE),
        Some((field, value)) => {
            in_data = field == "data";
            SECRET_FIELDS.contains(&field) && !value.contains(HOLE) && (!in_data || value.trim().is_empty())
        }
        None => false,
    });
    sound && document.lines().any(|line| line.trim_end() == SECRET)
}

/// Programs, and images that no registry serves, come from the node's own store: an earlier step or op must have put
/// the blob there.
fn blobs_delivered(rule: &Rule, plan: &Plan, order: &Order) -> Vec<Problem> {
    let mut delivered: BTreeMap<(&str, Digest), Vec<(usize, usize)>> = BTreeMap::new();
    for (position, step) in plan.steps.iter().enumerate() {
        for (number, op) in step.ops.iter().enumerate() {
            for change in op.resource_changes() {
                if let Resource::Blob(digest) = change.resource {
                    delivered.entry((&step.host, digest)).or_default().push((position, number));
                }
            }
        }
    }
    let mut problems = Vec::new();
    for (position, step) in plan.steps.iter().enumerate() {
        for (number, op) in step.ops.iter().enumerate() {
            let there = |blob: &Digest| {
                delivered.get(&(step.host.as_str(), *blob)).is_some_and(|places| {
                    places.iter().any(|(p, n)| order.is_before(*p, position) || (*p == position && *n < number))
                })
            };
            problems.extend(op.blobs().iter().filter(|blob| !there(blob)).map(|blob| {
                rule.at(step, format!("{} takes blob {blob}, which no earlier step brings to {}", step.id, step.host))
            }));
        }
    }
    problems
}

fn texts_there(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let named = plan.steps.iter().flat_map(|step| step.ops.iter().filter_map(Op::text).map(move |text| (step, text)));
    named
        .filter(|(_, digest)| plan.texts.get(digest).is_none_or(|text| Digest::of(text) != *digest))
        .map(|(step, digest)| rule.at(step, format!("{} names text {digest}, which is not there or changed", step.id)))
        .collect()
}

fn no_secret(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let rest = |text: &str| -> String {
        let documents = text.split(DOCUMENTS).map(|document| match is_secret_of_slots(document) {
            true => document.replace(SECRET, ""),
            false => document.to_owned(),
        });
        // What stands in the place of a secret is none: `"auth": "{{slot:…}}"`.
        let rest = documents.collect::<Vec<_>>().join(DOCUMENTS);
        plan.slots.keys().fold(rest, |rest, slot| rest.replace(&slot.placeholder(), HOLE))
    };
    let found =
        plan.texts.iter().filter_map(|(digest, text)| credential::in_text(&rest(text)).map(|what| (digest, what)));
    let text = |(digest, what)| format!("text {digest} seems to contain {what}; secrets must be slots");
    found.map(|found| rule.problem(None, text(found))).collect()
}

fn time_for_the_probe(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let within = |step: &&Step| step.probe.as_ref().is_some_and(|timed| timed.within_s >= step.timeout_s);
    let short = plan.steps.iter().filter(within);
    short.map(|s| rule.at(s, format!("{} ends after {} s, before its probe may", s.id, s.timeout_s))).collect()
}

/// On the controller, which is the operator's own machine, a plan writes the operator's kubeconfig and nothing else. Its content is what
/// [`SlotProvider::AdminKubeconfig`] gives, which has only been let through after every field of it was checked.
fn controller_limited(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let is_kubeconfig = |op: &Op| match op {
        Op::File(file) if file.path == OPERATOR_KUBECONFIG => match &file.content {
            Content::Slot { slot } => matches!(plan.slots.get(slot), Some(SlotProvider::AdminKubeconfig { .. })),
            _ => false,
        },
        _ => false,
    };
    let on_controller = plan.steps.iter().filter(|step| step.host == CONTROLLER);
    let is_undone = |undo: &Undo| matches!(undo, Undo::RestoreBefore | Undo::Nothing);
    let is_right = |step: &Step| step.probe.is_none() && is_undone(&step.undo) && step.ops.iter().all(is_kubeconfig);
    let wrong = on_controller.filter(|step| !is_right(step));
    let text = |step: &Step| {
        format!("{} does more on the machine of kubexm-install than write the operator's kubeconfig", step.id)
    };
    wrong.map(|step| rule.at(step, text(step))).collect()
}

/// A step that is removed with its parent must come after that parent.
fn parent_before(rule: &Rule, plan: &Plan, order: &Order) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (position, step) in plan.steps.iter().enumerate() {
        let Undo::WithParent { step: parent } = &step.undo else { continue };
        let at = plan.steps.iter().position(|s| s.id == *parent);
        if at.is_some_and(|at| !order.is_before(at, position)) {
            problems
                .push(rule.at(step, format!("{} is rolled back with {parent} and does not come after it", step.id)));
        }
    }
    problems
}

/// Irreversible steps are shown before the operator confirms.
fn irreversible(rule: &Rule, plan: &Plan, _: &Order) -> Vec<Problem> {
    let why = |step: &Step| match &step.undo {
        Undo::Irreversible { why } => Some(why.clone()),
        _ => None,
    };
    let steps = plan.steps.iter().filter_map(|step| why(step).map(|why| (step, why)));
    steps.map(|(step, why)| rule.at(step, format!("{} cannot be rolled back: {why}", step.id))).collect()
}
