//! A plan with a joining worker: failure domains, ends of steps, slots that a control plane makes.

use std::collections::BTreeSet;
use std::time::Instant;

use kubexm_plan::balancer::MovedBy;
use kubexm_plan::op::{Act, Content, KubeadmInit, KubeadmJoin, Sysctl};
use kubexm_plan::step::TimedProbe;
use kubexm_plan::{Op, Plan, PlanHost, Probe, SlotName, SlotProvider, Step, Undo};

use crate::{breaks, broken, file, id, slot};

/// The plan with a worker `w` that joins: `a` makes the slots, labels the node and looks at the whole in the end.
fn fleet(plan: &mut Plan) {
    plan.hosts.push(PlanHost { name: "w".to_owned(), roles: Vec::new(), optional: true });
    plan.slots.insert(slot("token"), SlotProvider::JoinToken { host: "a".to_owned() });
    let config = plan.text("token: \"{{slot:token}}\"\n");
    let init = Step::on("a", "k.init", "Init").ensure(KubeadmInit {
        config: "/etc/x.conf".to_owned(),
        cri_socket: "unix:///x".to_owned(),
        ignore: Vec::new(),
        backup: None,
    });
    let join = Step::on("w", "k.join", "Join").after(&id("a/k.init")).ensure(KubeadmJoin {
        config,
        slots: vec![slot("token")],
        cri_socket: "unix:///x".to_owned(),
        control_plane: false,
        external_etcd: false,
        ignore: Vec::new(),
    });
    let ready = Step::on("a", "k.ready-w", "Wait").domain("w").after(&id("w/k.join"));
    let check = Step::on("a", "k.check", "Check").after_end(&id("a/k.ready-w"));
    let steps = [init, join, ready, check];
    plan.steps.extend(steps.map(|step| step.undo(Undo::Nothing).build()));
}

/// A plan with a joining worker, changed.
#[track_caller]
fn fleet_breaks(rule: &str, change: impl FnOnce(&mut Plan)) {
    breaks(rule, |plan| {
        fleet(plan);
        change(plan);
    });
}

#[test]
fn a_plan_with_a_joining_worker_has_no_finding() {
    assert_eq!(broken(fleet), Vec::new());
}

#[test]
fn needing_a_step_that_is_left_out_with_a_worker_is_refused() {
    fleet_breaks("domain-closed", |plan| plan.steps[7].after.push(id("a/k.ready-w")));
    fleet_breaks("domain-closed", |plan| plan.steps[6].domain = None);
    fleet_breaks("domain-closed", |plan| plan.steps[7].undo = Undo::WithParent { step: id("w/k.join") });
}

#[test]
fn a_failure_domain_that_is_no_host_of_the_plan_is_refused() {
    fleet_breaks("known-hosts", |plan| plan.steps[6].domain = Some("x".to_owned()));
}

#[test]
fn asking_a_host_that_is_no_host_of_the_plan_is_refused() {
    fleet_breaks("known-hosts", |plan| {
        let (address, hosts) = ([10, 0, 0, 100].into(), vec!["a".to_owned(), "x".to_owned()]);
        let probe = Probe::OneHasAddress { address, hosts, moved_by: MovedBy::Keepalived, looks: 1 };
        plan.steps[6].probe = Some(TimedProbe { probe, within_s: 1 });
    });
}

#[test]
fn waiting_for_the_end_of_what_does_not_exist_or_comes_later_is_refused() {
    fleet_breaks("known-steps", |plan| plan.steps[7].after_end.push(id("w/nothing")));
    fleet_breaks("no-cycle", |plan| plan.steps[4].after_end.push(id("a/k.check")));
    fleet_breaks("steps-in-order", |plan| plan.steps.swap(6, 7));
}

#[test]
fn waiting_for_the_end_of_a_step_orders_writers_and_does_not_imply_its_success() {
    let writer = |plan: &mut Plan, name: &str| {
        let text = plan.text("one = 1\n");
        let file = file("/etc/y.conf", Content::Text { digest: text });
        plan.steps.push(Step::on("a", name, "Write").ensure(file).undo(Undo::RestoreBefore).build());
    };
    let two = |plan: &mut Plan| {
        fleet(plan);
        writer(plan, "y.one");
        writer(plan, "y.two");
    };
    breaks("one-writer", two);
    let problems = broken(|plan| {
        two(plan);
        plan.steps[9].after_end.push(id("a/y.one"));
    });
    assert_eq!(problems, Vec::new());
    breaks("parent-before", |plan| {
        two(plan);
        plan.steps[9].after_end.push(id("a/y.one"));
        plan.steps[9].undo = Undo::WithParent { step: id("a/y.one") };
    });
}

#[test]
fn reading_a_slot_of_a_control_plane_before_its_init_is_refused() {
    fleet_breaks("slots-can-be-made", |plan| plan.steps[5].after.clear());
    let problems = broken(|plan| {
        // A cluster that was made before: nothing here makes the control plane.
        fleet(plan);
        plan.steps[5].after.clear();
        plan.steps[4].ops.clear();
    });
    assert_eq!(problems, Vec::new());
}

#[test]
fn a_join_whose_slots_are_not_those_of_its_text_is_refused() {
    fleet_breaks("slots-provided", |plan| {
        plan.slots.remove(&slot("token"));
    });
    let with = |plan: &mut Plan, wanted: Vec<SlotName>| {
        let Some(Op::Act(Act::KubeadmJoin(KubeadmJoin { slots, .. }))) = plan.steps[5].ops.first_mut() else { return };
        *slots = wanted;
    };
    fleet_breaks("slots-in-texts", |plan| with(plan, Vec::new()));
    fleet_breaks("slots-in-texts", |plan| with(plan, vec![slot("token"), slot("ca")]));
    fleet_breaks("texts-there", |plan| plan.texts.retain(|_, text| !text.contains("slot:")));
}

/// One step of a reset changes all that the ledger of its host names.
#[test]
fn what_steps_change_that_have_an_order_is_not_compared_one_by_one() {
    let many = |step: &str, after: &str| {
        let values = (0..120_000).map(|at| (format!("a{at}"), "1".to_owned())).collect();
        let op = Sysctl { path: "/etc/sysctl.d/x.conf".to_owned(), values, remembered: BTreeSet::new() };
        Step::on("a", step, "Set").after(&id(after)).ensure(op).undo(Undo::RestoreBefore).build()
    };
    let begun = Instant::now();
    let problems = broken(|plan| plan.steps.extend([many("y.one", "a/x.apply"), many("y.two", "a/y.one")]));
    assert_eq!(problems, Vec::new());
    // 14,400 million comparisons.
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}
