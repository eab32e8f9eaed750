//! Each rule of the lint is made to fail by one change to a plan that passes.

mod fleet;

use std::collections::BTreeMap;

use kubexm_plan::op::{Act, Binary, Blobs, Content, File, KubeObject, KubeadmReset, Packages, Unit, WantedPackage};
use kubexm_plan::{Op, Plan, PlanHost, Probe, Problem, Severity, SlotName, SlotProvider, Step, StepId, Undo, lint};
use kubexm_spec::{Digest, Family};

fn good() -> Plan {
    let mut plan = Plan {
        schema: kubexm_plan::SCHEMA,
        pipeline: kubexm_plan::Pipeline::Create,
        cluster_name: "demo".to_owned(),
        cluster_id: None,
        cluster: Digest::of("cluster"),
        bundle: Some(Digest::of("bundle")),
        hosts: vec![PlanHost { name: "a".to_owned(), roles: Vec::new(), optional: false }],
        fleet_concurrency: 1,
        host_concurrency: 1,
        slots: BTreeMap::new(),
        texts: BTreeMap::new(),
        steps: Vec::new(),
    };
    plan.slots.insert(slot("ca"), SlotProvider::REGISTRY_CA);
    let text = plan.text("one = 1\n");
    let blob = Digest::of("program");
    let fill = Step::on("a", "store.fill", "Fill")
        .ensure(Blobs { blobs: [(blob, 7)].into(), depots: None, shared_at: None })
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
        .ensure(Unit {
            name: "x.service".to_owned(),
            enabled: true,
            running: Some(true),
            loaded: Vec::new(),
            reloaded: Vec::new(),
        })
        .probe(Probe::NodeReady { node: "a".to_owned(), kubelet: None }, 60)
        .undo(Undo::RestoreBefore)
        .build();
    let apply = Step::on("a", "x.apply", "Apply")
        .after(&run.id)
        .ensure(KubeObject::new("x", text))
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
fn a_correct_plan_has_no_finding() {
    assert_eq!(broken(|_| ()), Vec::new());
}

#[test]
fn a_title_or_an_id_that_begins_a_line_of_its_own_is_refused() {
    breaks("plain-words", |plan| plan.steps[0].title.push_str("\n   the bundle is signed"));
    breaks("plain-words", |plan| plan.steps[0].id = id("a/\u{1b}[2J"));
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
fn being_rolled_back_with_a_step_that_does_not_exist_is_refused() {
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
        let unit = Unit {
            name: "x.service".to_owned(),
            enabled: false,
            running: None,
            loaded: Vec::new(),
            reloaded: Vec::new(),
        };
        plan.steps.push(Step::on("a", "y.stop", "Stop").ensure(unit).undo(Undo::RestoreBefore).build());
    });
}

/// A step with one package of this blob.
fn packages(step: &str, name: &str, blob: Digest) -> Step {
    let package = WantedPackage {
        version: "1".to_owned(),
        arch: "amd64".to_owned(),
        file: format!("{name}_1_amd64.deb"),
        blob,
        upgrade: false,
    };
    let packages = Packages {
        family: Family::Deb,
        repository: "/var/lib/kubexm/repos/x".to_owned(),
        source: "/var/lib/kubexm/repos/x/kubexm.list".to_owned(),
        packages: BTreeMap::from([(name.to_owned(), package)]),
        replaced: BTreeMap::new(),
    };
    Step::on("a", step, "Install").after(&id("a/store.fill")).ensure(packages).undo(Undo::RestoreBefore).build()
}

#[test]
fn two_unordered_steps_with_packages_are_refused_whatever_their_names() {
    let blob = Digest::of("program");
    breaks("one-writer", |plan| {
        plan.steps.extend([packages("p.one", "socat", blob), packages("p.two", "ipset", blob)])
    });
    assert_eq!(broken(|plan| plan.steps.push(packages("p.one", "socat", blob))), Vec::new());
}

#[test]
fn a_package_that_no_step_brings_to_its_host_is_refused() {
    breaks("blobs-delivered", |plan| plan.steps.push(packages("p.one", "socat", Digest::of("another"))));
}

#[test]
fn a_slot_that_nobody_fills_is_refused() {
    breaks("slots-provided", |plan| plan.slots.clear());
    breaks("slots-provided", |plan| {
        plan.slots.insert(slot("key"), SlotProvider::CertificateKey { cert: slot("cert") });
    });
}

#[test]
fn a_slot_of_an_object_stands_in_a_secret() {
    let with = |kind: &str| {
        let document = format!("kind: {kind}\ndata:\n  token: {}\n", slot("ca").placeholder());
        move |plan: &mut Plan| {
            let text = plan.text(format!("kind: ConfigMap\ndata:\n  a: b\n---\n{document}"));
            let object = KubeObject { name: "x".to_owned(), text, slots: vec![slot("ca")] };
            plan.steps[3].ops = vec![object.into()];
        }
    };
    breaks("slots-in-secrets", with("ConfigMap"));
    assert_eq!(broken(with("Secret")), Vec::new());
    let elsewhere = format!("metadata:\n  annotations:\n    note: x{}\n", slot("ca").placeholder());
    for more in [
        "  other: aHVudGVyMg==\n",
        "stringData:\n  other: hunter2\n",
        "\"stringData\": {other: hunter2}\n",
        "data: {other: aHVudGVyMg==}\n",
        &elsewhere,
    ] {
        let change = |plan: &mut Plan| {
            with("Secret")(plan);
            let text = plan.texts.values().find(|text| text.contains("kind: Secret")).cloned().unwrap_or_default();
            let text = plan.text(text + more);
            let Some(Op::KubeObject(object)) = plan.steps[3].ops.first_mut() else { return };
            object.text = text;
        };
        breaks("slots-in-secrets", change);
        breaks("no-secret", change);
    }
    breaks("slots-in-texts", |plan| {
        with("Secret")(plan);
        let Some(Op::KubeObject(object)) = plan.steps[3].ops.first_mut() else { return };
        object.slots.push(slot("other"));
    });
}

#[test]
fn a_file_with_placeholders_lists_their_slots_and_every_slot_is_used() {
    breaks("slots-used", |plan| {
        plan.slots.insert(slot("idle"), SlotProvider::Secret { field: "spec.a".to_owned() });
    });
    let with = |plan: &mut Plan, slots: Vec<SlotName>| {
        let digest = plan.text(slot("ca").placeholder());
        let Some(Op::File(file)) =
            plan.steps.iter_mut().flat_map(|step| &mut step.ops).find(|op| op.slots().contains(&slot("ca")))
        else {
            panic!("no file reads the slot");
        };
        file.content = Content::Filled { digest, slots };
    };
    breaks("slots-in-texts", |plan| with(plan, Vec::new()));
    breaks("slots-in-texts", |plan| {
        plan.slots.insert(slot("other"), SlotProvider::REGISTRY_CA);
        with(plan, vec![slot("ca"), slot("other")]);
    });
    assert_eq!(broken(|plan| with(plan, vec![slot("ca")])), Vec::new());
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
fn a_token_or_key_that_is_no_placeholder_is_refused() {
    for secret in ["a:\n  token: hunter2\n", "certificateKey: 0a1b\n", "- abcdef.0123456789abcdef\n"] {
        breaks("no-secret", |plan| {
            plan.text(secret);
        });
    }
    let problems = broken(|plan| {
        plan.text("certificateKey: \"{{slot:key}}\"\nhost: master.internalnetworks\n");
    });
    assert_eq!(problems, Vec::new());
}

#[test]
fn a_probe_that_outlasts_its_step_is_refused() {
    breaks("time-for-the-probe", |plan| plan.steps[2].timeout_s = 60);
}

#[test]
fn being_rolled_back_with_a_step_that_comes_later_is_refused() {
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
fn a_rendered_plan_says_what_each_step_does_and_how_it_is_rolled_back() {
    let mut plan = good();
    plan.steps[3].undo = Undo::Act { act: KubeadmReset { cri_socket: "unix:///x".to_owned() }.into() };
    let text = plan.render();
    for wanted in ["a/x.install: Install", "after a/store.fill", "program /usr/local/bin/x", "undo: act kubeadm reset"]
    {
        assert!(text.contains(wanted), "{wanted} in:\n{text}");
    }
}

/// A plan with a step on the controller: the operator's kubeconfig, changed.
fn on_controller(plan: &mut Plan, change: impl FnOnce(&mut File, &mut SlotProvider)) {
    let mut provider = SlotProvider::AdminKubeconfig { host: "a".to_owned() };
    let mut file = file("/kubeconfig", Content::Slot { slot: slot("kubeconfig") });
    change(&mut file, &mut provider);
    plan.slots.insert(slot("kubeconfig"), provider);
    let step = Step::on("@controller", "kubeconfig.operator", "Write").ensure(file).undo(Undo::RestoreBefore);
    plan.steps.push(step.build());
}

#[test]
fn on_the_controller_a_plan_writes_nothing_but_the_operators_kubeconfig() {
    let unchanged = broken(|plan| on_controller(plan, |_, _| {}));
    assert!(unchanged.iter().all(|problem| problem.rule != "controller-limited"), "{unchanged:#?}");
    let rule = "controller-limited";
    for path in ["/../../.ssh/authorized_keys", "/pki/registry-ca.pem", "/kubeconfig/../known_hosts", "kubeconfig"] {
        breaks(rule, |plan| on_controller(plan, |file, _| file.path = path.to_owned()));
    }
    // Its own text could have an `exec`, and a secret could be written where others read it.
    breaks(rule, |plan| {
        let digest = plan.text("users: []\n");
        on_controller(plan, |file, _| file.content = Content::Text { digest });
    });
    breaks(rule, |plan| on_controller(plan, |_, provider| *provider = SlotProvider::REGISTRY_CA));
    let unit = Unit {
        name: "x.service".to_owned(),
        enabled: true,
        running: Some(true),
        loaded: Vec::new(),
        reloaded: Vec::new(),
    };
    let reset = || Act::from(KubeadmReset { cri_socket: "unix:///x".to_owned() });
    for op in [Op::from(unit), Op::Act(reset())] {
        breaks(rule, |plan| {
            let mut step = Step::on("@controller", "x", "Run").undo(Undo::Nothing).build();
            step.ops.push(op);
            plan.steps.push(step);
        });
    }
    breaks(rule, |plan| {
        let probe = Probe::NodeReady { node: "a".to_owned(), kubelet: None };
        plan.steps.push(Step::on("@controller", "x", "Wait").probe(probe, 60).undo(Undo::Nothing).build());
    });
    breaks(rule, |plan| {
        on_controller(plan, |_, _| {});
        let last = plan.steps.last_mut().expect("the step");
        last.undo = Undo::Act { act: reset() };
    });
}
