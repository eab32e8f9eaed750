//! Each rule of the lint is made to fail by one change to a plan that passes.

use std::collections::BTreeMap;

use kubexm_plan::op::{Act, Binary, Blobs, Content, File, KubeObject, Unit};
use kubexm_plan::{Plan, PlanHost, Probe, Problem, Severity, SlotName, SlotProvider, Step, StepId, Undo, lint};
use kubexm_spec::Digest;

fn good() -> Plan {
    let mut plan = Plan {
        schema: kubexm_plan::SCHEMA,
        pipeline: "create".to_owned(),
        cluster_name: "demo".to_owned(),
        cluster: Digest::of("cluster"),
        bundle: Some(Digest::of("bundle")),
        hosts: vec![PlanHost { name: "a".to_owned(), roles: Vec::new(), expendable: false }],
        fleet_concurrency: 1,
        host_concurrency: 1,
        slots: BTreeMap::new(),
        texts: BTreeMap::new(),
        steps: Vec::new(),
    };
    plan.slots.insert(slot("ca"), SlotProvider::RegistryCa);
    let text = plan.text("one = 1\n");
    let blob = Digest::of("program");
    let fill = Step::on("a", "store.fill", "Fill")
        .ensure(Blobs { blobs: [(blob, 7)].into(), depots: None })
        .undo(Undo::RestoreBefore)
        .build();
    let install = Step::on("a", "x.install", "Install")
        .after(&fill.id)
        .ensure(Binary { path: "/usr/local/bin/x".to_owned(), blob, mode: 0o755 })
        .ensure(file("/etc/x.conf", Content::Text { digest: text }))
        .ensure(file("/etc/x.ca", Content::Slot { slot: slot("ca") }))
        .undo(Undo::RestoreBefore)
        .build();
    let run = Step::on("a", "x.run", "Run")
        .after(&install.id)
        .ensure(Unit { name: "x.service".to_owned(), enabled: true, running: Some(true), loaded: Vec::new() })
        .probe(Probe::NodeReady { node: "a".to_owned() }, 60)
        .undo(Undo::RestoreBefore)
        .build();
    let apply = Step::on("a", "x.apply", "Apply")
        .after(&run.id)
        .ensure(KubeObject { name: "x".to_owned(), text })
        .undo(Undo::WithParent { step: run.id.clone() })
        .build();
    plan.steps.extend([fill, install, run, apply]);
    plan
}

fn slot(name: &str) -> SlotName {
    SlotName(name.to_owned())
}

fn id(name: &str) -> StepId {
    StepId(name.to_owned())
}

fn file(path: &str, content: Content) -> File {
    File { path: path.to_owned(), content, mode: 0o644 }
}

/// The rules that a changed plan breaks.
fn broken(change: impl FnOnce(&mut Plan)) -> Vec<Problem> {
    let mut plan = good();
    change(&mut plan);
    match lint::check(plan) {
        Ok((_, warnings)) => warnings,
        Err(problems) => problems,
    }
}

#[track_caller]
fn breaks(rule: &str, change: impl FnOnce(&mut Plan)) {
    let problems = broken(change);
    assert!(problems.iter().any(|p| p.rule == rule && p.severity == Severity::Error), "{problems:#?}");
}

#[test]
fn a_plan_without_fault_passes_in_silence() {
    assert_eq!(broken(|_| ()), Vec::new());
}

#[test]
fn two_steps_of_one_name_are_refused() {
    breaks("unique-ids", |plan| plan.steps.push(plan.steps[0].clone()));
}

#[test]
fn a_step_on_a_host_that_is_not_in_the_plan_is_refused() {
    breaks("known-hosts", |plan| plan.steps[3].host = "b".to_owned());
}

#[test]
fn waiting_for_a_step_that_does_not_exist_is_refused() {
    breaks("known-steps", |plan| plan.steps[1].after.push(id("a/nothing")));
}

#[test]
fn being_taken_back_with_a_step_that_does_not_exist_is_refused() {
    breaks("known-steps", |plan| plan.steps[3].undo = Undo::WithParent { step: id("a/nothing") });
}

#[test]
fn steps_that_wait_for_each_other_are_refused() {
    breaks("no-cycle", |plan| plan.steps[0].after.push(id("a/x.apply")));
}

#[test]
fn a_step_listed_before_what_it_waits_for_is_refused() {
    breaks("steps-in-order", |plan| plan.steps.reverse());
}

#[test]
fn two_unordered_writers_of_a_path_are_refused_and_ordered_ones_are_not() {
    let second = |plan: &mut Plan| {
        let text = plan.text("two\n");
        let step =
            Step::on("a", "y.configure", "Configure").ensure(file("/etc/x.conf", Content::Text { digest: text }));
        step.undo(Undo::RestoreBefore).build()
    };
    breaks("one-writer", |plan| {
        let step = second(plan);
        plan.steps.push(step);
    });
    let problems = broken(|plan| {
        let mut step = second(plan);
        step.after.push(id("a/x.install"));
        plan.steps.push(step);
    });
    assert_eq!(problems, Vec::new());
}

#[test]
fn two_unordered_steps_on_a_unit_are_refused() {
    breaks("one-writer", |plan| {
        let unit = Unit { name: "x.service".to_owned(), enabled: false, running: None, loaded: Vec::new() };
        plan.steps.push(Step::on("a", "y.stop", "Stop").ensure(unit).undo(Undo::RestoreBefore).build());
    });
}

#[test]
fn a_slot_that_nobody_fills_is_refused() {
    breaks("slots-provided", |plan| plan.slots.clear());
    breaks("slots-provided", |plan| {
        plan.slots.insert(slot("key"), SlotProvider::RegistryKey { cert: slot("cert") });
    });
}

#[test]
fn a_program_whose_blob_nobody_brings_is_refused() {
    breaks("blobs-delivered", |plan| plan.steps[1].after.clear());
}

#[test]
fn a_text_that_is_missing_or_was_changed_is_refused() {
    breaks("texts-there", |plan| plan.texts.clear());
    breaks("texts-there", |plan| plan.texts.values_mut().for_each(|text| text.push('!')));
}

#[test]
fn a_private_key_in_a_text_is_refused() {
    breaks("no-secret", |plan| {
        plan.text("-----BEGIN EC PRIVATE KEY-----\n");
    });
}

#[test]
fn a_probe_that_outlasts_its_step_is_refused() {
    breaks("time-for-the-probe", |plan| plan.steps[2].timeout_s = 60);
}

#[test]
fn being_taken_back_with_a_step_that_comes_later_is_refused() {
    breaks("parent-before", |plan| plan.steps[1].undo = Undo::WithParent { step: id("a/x.apply") });
}

#[test]
fn an_irreversible_step_is_shown_and_passes() {
    let problems = broken(|plan| plan.steps[3].undo = Undo::Irreversible { why: "it is gone".to_owned() });
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert_eq!((problems[0].rule, problems[0].severity), ("irreversible", Severity::Warning));
}

#[test]
fn all_problems_are_returned_at_once() {
    let problems = broken(|plan| {
        plan.slots.clear();
        plan.texts.clear();
        plan.steps[3].host = "b".to_owned();
    });
    let rules: std::collections::BTreeSet<_> = problems.iter().map(|p| p.rule).collect();
    assert!(rules.is_superset(&["slots-provided", "texts-there", "known-hosts"].into()), "{rules:?}");
}

#[test]
fn a_rendered_plan_says_what_each_step_does_and_how_it_is_taken_back() {
    let mut plan = good();
    plan.steps[3].undo = Undo::Act { act: Act::KubeadmReset { cri_socket: "unix:///x".to_owned() } };
    let text = plan.render();
    for wanted in ["a/x.install: Install", "after a/store.fill", "program /usr/local/bin/x", "undo: act kubeadm reset"]
    {
        assert!(text.contains(wanted), "{wanted} in:\n{text}");
    }
}
