//! What cluster.yaml sets on a node object, and what of it is removed when cluster.yaml no longer has it.

#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

use kubexm_ops::{Machine, Wave, dispatch};
use kubexm_plan::op::{NodeAnnotation, NodeApplied, NodeLabel, NodePruned, NodeTainted, Op};
use serde_json::{Value, json};

use crate::fleet::{Fleet, act};

fn node() -> String {
    "node2".to_owned()
}

fn label(key: &str) -> Op {
    NodeLabel { node: node(), key: key.to_owned(), value: "a".to_owned() }.into()
}

fn taint(key: &str) -> Op {
    NodeTainted { node: node(), key: key.to_owned(), value: String::new(), effect: "NoExecute".to_owned() }.into()
}

fn annotation(key: &str) -> Op {
    NodeAnnotation { node: node(), key: key.to_owned(), value: "team a, \"x\"".to_owned() }.into()
}

/// Nothing but these names are cluster.yaml's.
fn pruned(name: Option<&str>) -> Op {
    let applied = name.map_or_else(NodeApplied::default, |name| NodeApplied {
        labels: [name.to_owned()].into(),
        annotations: [name.to_owned()].into(),
        taints: [NodeApplied::taint(name, "NoExecute")].into(),
    });
    NodePruned { node: node(), applied }.into()
}

fn converge(machine: &Machine, ops: &[Op]) {
    ops.iter().for_each(|op| dispatch::converge(op, machine).expect("converged"));
}

/// Keys of labels and annotations, and of taints, of those that the tests set.
fn there(fleet: &Fleet) -> [Vec<String>; 3] {
    let node = fleet.state()["nodes"]["node2"].clone();
    let ours = |key: &String| ["ours", "theirs"].contains(&key.as_str());
    let keys = |at: &str| {
        let all = node.pointer(at).and_then(Value::as_object).into_iter().flat_map(|all| all.keys());
        all.filter(|key| ours(key)).cloned().collect()
    };
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let taints = taints.filter_map(|taint| taint["key"].as_str().map(str::to_owned)).filter(ours).collect();
    [keys("/metadata/labels"), keys("/metadata/annotations"), taints]
}

fn record(fleet: &Fleet) -> Value {
    let object = fleet.state()["objects"]["ConfigMap/kubexm-node-node2"].clone();
    let object: Value = object.as_str().map_or(Value::Null, |text| serde_json::from_str(text).expect("JSON"));
    object["data"]["applied"].clone()
}

#[test]
fn what_cluster_yaml_no_longer_sets_is_removed_and_what_others_have_set_stays() {
    let fleet = Fleet::with_init(2);
    dispatch::converge(&act(2, false), &fleet.ready(2)).expect("join");
    let first = &fleet.hosts[0].machine;
    converge(first, &[pruned(Some("ours")), label("ours"), annotation("ours"), taint("ours")]);
    converge(first, &[label("theirs"), annotation("theirs"), taint("theirs")]);
    let both = || ["ours", "theirs"].map(str::to_owned).to_vec();
    assert_eq!(there(&fleet), [both(), both(), both()]);
    assert!(dispatch::observe(&pruned(Some("ours")), first).expect("a look").satisfied);

    let none = pruned(None);
    let before = dispatch::observe(&none, first).expect("a look");
    assert!(!before.satisfied);
    converge(first, std::slice::from_ref(&none));
    let theirs = || vec!["theirs".to_owned()];
    assert_eq!(there(&fleet), [theirs(), theirs(), theirs()]);
    assert_eq!(record(&fleet), Value::Null);
    assert!(dispatch::observe(&none, first).expect("a look").satisfied);

    dispatch::restore(&none, first, &before, Wave::Stop).expect("restored");
    let mut taints = there(&fleet);
    taints[2].sort();
    assert_eq!(taints, [both(), both(), both()], "with their values, and with their owner");
    assert_eq!(dispatch::observe(&none, first).expect("a look").raw()["recorded"], before.raw()["recorded"]);
}

#[test]
fn a_node_has_no_say_in_what_is_removed_from_it() {
    let fleet = Fleet::with_init(2);
    dispatch::converge(&act(2, false), &fleet.ready(2)).expect("join");
    let first = &fleet.hosts[0].machine;
    converge(first, &[label("theirs"), taint("theirs")]);
    // A kubelet may write its node's annotations, and not its taints.
    let value = json!({"labels": ["theirs"], "annotations": [], "taints": ["theirs:NoExecute"]}).to_string();
    let edited = NodeAnnotation { node: node(), key: "kubexm.io/applied".to_owned(), value };
    converge(first, &[edited.into()]);
    assert!(dispatch::observe(&pruned(None), first).expect("a look").satisfied);
    converge(first, &[pruned(Some("ours"))]);
    assert_eq!(
        (&there(&fleet)[0][..], &there(&fleet)[2][..]),
        (&["theirs".to_owned()][..], &["theirs".to_owned()][..])
    );
    let text = record(&fleet).as_str().expect("a record").to_owned();
    let record: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(record, json!({"labels": ["ours"], "annotations": ["ours"], "taints": ["ours:NoExecute"]}));
}

#[test]
fn a_record_of_another_object_of_that_name_or_one_that_cannot_be_read_removes_nothing() {
    let fleet = Fleet::with_init(2);
    dispatch::converge(&act(2, false), &fleet.ready(2)).expect("join");
    let first = &fleet.hosts[0].machine;
    converge(first, &[label("theirs")]);
    for (owner, text) in
        [(json!([{"uid": "that of a node that was deleted"}]), "{\"labels\":[\"theirs\"]}"), (Value::Null, "{theirs")]
    {
        let metadata = json!({"name": "kubexm-node-node2", "ownerReferences": owner});
        let object = json!({"kind": "ConfigMap", "metadata": metadata, "data": {"applied": text}});
        fleet.change_state(|state| state["objects"]["ConfigMap/kubexm-node-node2"] = object.to_string().into());
        converge(first, &[pruned(None)]);
        assert_eq!(there(&fleet)[0], ["theirs"]);
    }
}
