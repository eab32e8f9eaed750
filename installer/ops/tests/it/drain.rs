//! A node is drained and its member of etcd removed, by a control plane that stays.

#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

use kubexm_ops::{Machine, Wave, dispatch, probe, step};
use kubexm_plan::op::{MemberRemove, NodeCordon, NodeDrain, NodeUncordon, Op, Probe};
use kubexm_plan::{Step, Undo};
use serde_json::{Value, json};

use crate::fleet::{Fleet, act, init, satisfied, text_of};

fn fleet() -> Fleet {
    let fleet = Fleet::with_init(3);
    dispatch::converge(&act(2, true), &fleet.ready(2)).expect("a control plane");
    dispatch::converge(&act(3, false), &fleet.ready(3)).expect("a worker");
    fleet
}

fn drain(force: bool) -> Op {
    NodeDrain {
        node: "node3".to_owned(),
        limit_s: 5,
        force,
        unless_kubelet: None,
        unless_packages: None,
        cordoned_by: None,
    }
    .into()
}

fn put(machine: &Machine, name: &str, value: &Value) {
    let path = machine.path(format!("/run/kubexm-double/{name}"));
    std::fs::write(path, value.to_string()).expect("written");
}

fn pod(name: &str, owner: Option<&str>) -> Value {
    let owners = owner.map(|kind| json!([{"kind": kind, "name": "o", "controller": true}]));
    json!({
        "metadata": {"namespace": "shop", "name": name, "labels": {"app": "web"}, "ownerReferences": owners},
        "spec": {"nodeName": "node3"},
    })
}

fn budget() -> Value {
    json!([{
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0},
    }])
}

fn step_of(force: bool) -> Step {
    let undo = Undo::Act { act: NodeUncordon { node: "node3".to_owned(), cordoned_by: None }.into() };
    Step::on("node1", "delete.drain-node3", "Drain").ensure(drain(force)).undo(undo).build()
}

#[test]
fn a_drained_node_is_schedulable_again_after_the_undo() {
    let fleet = fleet();
    let first = &fleet.hosts[0].machine;
    put(first, "workloads.json", &json!([pod("web-1", Some("ReplicaSet")), pod("proxy", Some("DaemonSet"))]));
    let step = step_of(false);
    let before = step::observe(&step, first).expect("observed");
    step::converge(&step, first, "run", 1, &before).expect("drained");
    assert!(satisfied(&drain(false), first));
    assert_eq!(fleet.state()["nodes"]["node3"]["spec"]["unschedulable"], true);
    for wave in Wave::ALL {
        step::undo(&step, first, "run", 1, &before, wave).expect("undone");
    }
    assert_eq!(fleet.state()["nodes"]["node3"]["spec"]["unschedulable"], Value::Null);
}

#[test]
fn a_node_that_somebody_else_had_cordoned_stays_so_after_the_undo() {
    let fleet = fleet();
    let first = &fleet.hosts[0].machine;
    dispatch::converge(&drain(false), first).expect("cordoned");
    put(first, "workloads.json", &json!([pod("web-1", Some("ReplicaSet"))]));
    let step = step_of(false);
    let before = step::observe(&step, first).expect("observed");
    step::converge(&step, first, "run", 1, &before).expect("drained");
    for wave in Wave::ALL {
        step::undo(&step, first, "run", 1, &before, wave).expect("undone");
    }
    assert_eq!(fleet.state()["nodes"]["node3"]["spec"]["unschedulable"], true);
}

#[test]
fn only_a_node_with_the_mark_of_its_drain_is_made_schedulable_again() {
    let by = || Some("7f3a".to_owned());
    let drain = || -> Op {
        NodeDrain {
            node: "node3".to_owned(),
            limit_s: 5,
            force: false,
            unless_kubelet: None,
            unless_packages: None,
            cordoned_by: by(),
        }
        .into()
    };
    let uncordon = || -> Op { NodeUncordon { node: "node3".to_owned(), cordoned_by: by() }.into() };
    let state = |fleet: &Fleet| {
        let node = fleet.state()["nodes"]["node3"].clone();
        (node["spec"]["unschedulable"].clone(), node["metadata"]["annotations"]["kubexm.io/cordoned-by"].clone())
    };
    let fleet = fleet();
    let first = &fleet.hosts[0].machine;
    // Ours, and interrupted before the last pod was gone: what a later run finds.
    put(first, "workloads.json", &json!([pod("web-1", Some("ReplicaSet"))]));
    put(first, "budgets.json", &budget());
    dispatch::converge(&drain(), first).expect_err("held by its budget");
    assert_eq!(state(&fleet), (true.into(), "7f3a".into()));
    assert!(!satisfied(&uncordon(), first));
    dispatch::converge(&uncordon(), first).expect("schedulable");
    assert_eq!(state(&fleet), (Value::Null, Value::Null));
    assert!(satisfied(&uncordon(), first));

    // Somebody else's.
    put(first, "budgets.json", &json!([]));
    dispatch::converge(&self::drain(false), first).expect("cordoned without a mark");
    dispatch::converge(&drain(), first).expect("drained");
    assert_eq!(state(&fleet), (true.into(), Value::Null));
    assert!(satisfied(&uncordon(), first));
    dispatch::converge(&uncordon(), first).expect("nothing to do");
    assert_eq!(state(&fleet), (true.into(), Value::Null));
}

/// As a deletion of several hosts does it: all are cordoned, and then drained one after the other.
#[test]
fn a_node_that_was_cordoned_before_its_drain_is_schedulable_again_after_either_undo() {
    let by = || "a deletion".to_owned();
    let undo = || Undo::Act { act: NodeUncordon { node: "node3".to_owned(), cordoned_by: Some(by()) }.into() };
    let cordon = || NodeCordon { node: "node3".to_owned(), cordoned_by: by() };
    let cordon = Step::on("node1", "delete.cordon-node3", "Cordon").ensure(cordon()).undo(undo()).build();
    let Op::Act(kubexm_plan::op::Act::NodeDrain(plain)) = drain(false) else { unreachable!("a drain") };
    let drain_by = NodeDrain { cordoned_by: Some(by()), ..plain };
    let drain_by = Step::on("node1", "delete.drain-node3", "Drain").ensure(drain_by).undo(undo()).build();
    for (steps, held) in [(vec![&cordon], false), (vec![&cordon, &drain_by], false), (vec![&cordon, &drain_by], true)] {
        let fleet = fleet();
        let first = &fleet.hosts[0].machine;
        put(first, "workloads.json", &json!([pod("web-1", Some("ReplicaSet"))]));
        if held {
            put(first, "budgets.json", &budget());
        }
        let mut changed = Vec::new();
        for (sequence, step) in (1..).zip(steps) {
            let before = step::observe(step, first).expect("observed");
            let ended = step::converge(step, first, "run", sequence, &before);
            assert_eq!(ended.is_err(), held && step.id.0.contains("drain"), "{}", step.id);
            assert_eq!(fleet.state()["nodes"]["node3"]["spec"]["unschedulable"], true);
            changed.push((step, sequence, before));
        }
        for (step, sequence, before) in changed.iter().rev() {
            for wave in Wave::ALL {
                step::undo(step, first, "run", *sequence, before, wave).expect("undone");
            }
        }
        let node = &fleet.state()["nodes"]["node3"];
        assert_eq!(node["spec"]["unschedulable"], Value::Null);
        assert_eq!(node["metadata"]["annotations"]["kubexm.io/cordoned-by"], Value::Null);
    }
}

#[test]
fn what_somebody_has_cordoned_stays_his_through_a_deletion_that_is_rolled_back() {
    let fleet = fleet();
    let first = &fleet.hosts[0].machine;
    dispatch::converge(&drain(false), first).expect("cordoned");
    let act = NodeCordon { node: "node3".to_owned(), cordoned_by: "a deletion".to_owned() };
    assert!(satisfied(&act.clone().into(), first));
    dispatch::converge(&act.into(), first).expect("nothing to do");
    let undo: Op = NodeUncordon { node: "node3".to_owned(), cordoned_by: Some("a deletion".to_owned()) }.into();
    dispatch::converge(&undo, first).expect("nothing to do");
    assert_eq!(fleet.state()["nodes"]["node3"]["spec"]["unschedulable"], true);
}

#[test]
fn what_keeps_a_node_from_being_drained_is_named() {
    let fleet = fleet();
    let first = &fleet.hosts[0].machine;
    put(first, "workloads.json", &json!([pod("web-1", Some("ReplicaSet")), pod("proxy", Some("DaemonSet"))]));
    put(first, "budgets.json", &budget());
    let text = text_of(dispatch::converge(&drain(false), first));
    let wanted = "pod shop/web-1 may not be evicted: the PodDisruptionBudget shop/web allows no disruption";
    assert!(text.contains(wanted) && text.contains("--drain-timeout") && !text.contains("proxy"), "{text}");
    let asked = probe::look(
        &Probe::NodeDrained { node: "node3".to_owned(), unless_kubelet: None, unless_packages: None },
        first,
    )
    .expect("an answer");
    assert_eq!((asked.holds, asked.seen.as_str()), (false, wanted));
}

/// Whoever may make pods in a namespace can have them on any node, as many and as long as he likes.
#[test]
fn pods_are_asked_for_in_pages_and_those_that_have_ended_not_at_all() {
    let fleet = fleet();
    let first = &fleet.hosts[0].machine;
    let mut pods: Vec<Value> = (0..20).map(|number| pod(&format!("web-{number}"), Some("ReplicaSet"))).collect();
    let mut ended = pod("job", Some("Job"));
    ended["status"] = json!({"phase": "Failed"});
    pods.push(ended);
    put(first, "workloads.json", &json!(pods));
    let asked = probe::look(
        &Probe::NodeDrained { node: "node3".to_owned(), unless_kubelet: None, unless_packages: None },
        first,
    )
    .expect("an answer");
    assert!(!asked.holds && asked.seen.contains("; and 15 more") && !asked.seen.contains("job"), "{}", asked.seen);
}

#[test]
fn a_pod_without_a_controller_is_refused_before_the_node_is_cordoned_unless_it_is_forced() {
    let fleet = fleet();
    let first = &fleet.hosts[0].machine;
    put(first, "workloads.json", &json!([pod("debug", None), pod("web-1", Some("ReplicaSet"))]));
    let text = text_of(dispatch::converge(&drain(false), first));
    assert!(text.contains("shop/debug") && text.contains("--force") && !text.contains("web-1"), "{text}");
    assert_eq!(fleet.state()["nodes"]["node3"]["spec"]["unschedulable"], Value::Null);
    dispatch::converge(&drain(true), first).expect("forced");
    assert!(satisfied(&drain(true), first));
}

fn remove() -> Op {
    MemberRemove { name: "node2".to_owned(), peers: vec!["https://10.0.0.2:2380".to_owned()] }.into()
}

#[test]
fn a_member_is_removed_once_and_by_its_address_where_it_has_no_name() {
    let fleet = fleet();
    let first = &fleet.hosts[0].machine;
    assert!(!satisfied(&remove(), first));
    let unnamed = MemberRemove { name: "never".to_owned(), peers: vec!["https://10.0.0.2:2380".to_owned()] };
    dispatch::converge(&unnamed.into(), first).expect("removed");
    assert_eq!(fleet.members(), ["node1"]);
    assert!(satisfied(&remove(), first));
    dispatch::converge(&remove(), first).expect("twice");
}

#[test]
fn a_member_stays_while_the_others_would_have_no_quorum() {
    let fleet = Fleet::with_init(3);
    for number in [2, 3] {
        dispatch::converge(&act(number, true), &fleet.ready(number)).expect("a control plane");
    }
    fleet.systems[2].kill_member("node3").expect("dead");
    let text = text_of(dispatch::converge(&remove(), &fleet.hosts[0].machine));
    assert!(text.contains("no quorum") && text.contains("do not answer: node3"), "{text}");
    assert_eq!(fleet.members().len(), 3);
}

#[test]
fn a_control_plane_that_joined_needs_no_init_when_the_first_one_has_left() {
    let fleet = fleet();
    assert!(satisfied(&init(), &fleet.hosts[1].machine));
    // A worker has no control plane, whatever it has joined.
    assert!(!satisfied(&init(), &fleet.hosts[2].machine));
}
