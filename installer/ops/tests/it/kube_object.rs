//! Objects that were there before come back as they were, and hold nothing else up.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use crate::common::Host;
use kubexm_ops::{Wave, dispatch};
use kubexm_plan::op::{KubeObject, KubeadmInit};
use kubexm_plan::{ObservedState, Op, SlotName};
use serde_json::{Value, json};

const SOCKET: &str = "unix:///run/containerd/containerd.sock";

fn cluster() -> Host {
    let host = Host::fresh();
    host.ready_for_init();
    let init = KubeadmInit {
        config: "/etc/kubexm/kubeadm.yaml".into(),
        cri_socket: SOCKET.into(),
        ignore: vec![],
        backup: None,
    };
    dispatch::converge(&init.into(), &host.machine).expect("kubeadm init");
    host
}

fn object(kind: &str, name: &str, data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "kube-system"}, "data": {"a": data}})
}

fn apply(host: &mut Host, objects: &[Value]) -> Op {
    let text: Vec<String> = objects.iter().map(Value::to_string).collect();
    let text = host.text(&text.join("\n---\n"));
    KubeObject::new("objects", text).into()
}

fn holds(host: &mut Host, objects: &[Value]) -> bool {
    let op = apply(host, objects);
    dispatch::observe(&op, &host.machine).expect("a look").satisfied
}

#[test]
fn an_object_with_other_content_comes_back_and_a_new_one_goes() {
    let mut host = cluster();
    let old = object("ConfigMap", "coredns", "kubeadm's");
    let first = apply(&mut host, std::slice::from_ref(&old));
    dispatch::converge(&first, &host.machine).expect("applied");
    let wanted = [object("ConfigMap", "coredns", "ours"), object("ConfigMap", "new", "ours")];
    let op = apply(&mut host, &wanted);
    let found = dispatch::observe(&op, &host.machine).expect("a look");
    let state = found.raw().to_string();
    assert!(state.contains("kubeadm's"), "{state}");
    assert!(!state.contains("of the server") && !state.contains("managedFields"), "{state}");
    dispatch::converge(&op, &host.machine).expect("applied");
    assert!(holds(&mut host, &wanted));
    for wave in [Wave::Stop, Wave::Stop, Wave::Data, Wave::Start] {
        dispatch::restore(&op, &host.machine, &found, wave).unwrap_or_else(|error| panic!("{}", error.full()));
    }
    assert!(holds(&mut host, &[old]));
    let new = apply(&mut host, &[object("ConfigMap", "new", "ours")]);
    assert_eq!(dispatch::observe(&new, &host.machine).expect("a look").raw(), json!("absent"));
}

#[test]
fn what_a_secret_says_is_in_no_state_and_comes_back() {
    let mut host = cluster();
    let first = apply(&mut host, &[object("Secret", "token", "hunter2")]);
    dispatch::converge(&first, &host.machine).expect("applied");
    let op = apply(&mut host, &[object("Secret", "token", "ours"), object("ConfigMap", "new", "ours")]);
    let found = dispatch::observe(&op, &host.machine).expect("a look");
    assert!(!found.raw().to_string().contains("hunter2"), "{}", found.raw());
    dispatch::converge(&op, &host.machine).expect("applied");
    for wave in Wave::ALL {
        dispatch::restore(&op, &host.machine, &found, wave).unwrap_or_else(|error| panic!("{}", error.full()));
    }
    assert!(holds(&mut host, &[object("Secret", "token", "hunter2")]));
    assert_eq!(observe_new(&mut host), json!("absent"));
}

fn observe_new(host: &mut Host) -> Value {
    let new = apply(host, &[object("ConfigMap", "new", "ours")]);
    dispatch::observe(&new, &host.machine).expect("a look").raw()
}

/// A Secret with a slot: in YAML, as recipes write it.
fn with_slot(host: &mut Host) -> (Op, SlotName) {
    let slot = SlotName("password".into());
    let text = host.text(&format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\ndata:\n  password: {}\n",
        slot.placeholder()
    ));
    (KubeObject { name: "login".into(), text, slots: vec![slot.clone()] }.into(), slot)
}

#[test]
fn a_step_that_failed_before_it_changed_a_secret_is_rolled_back() {
    let mut host = cluster();
    let old = object("Secret", "token", "hunter2");
    let first = apply(&mut host, std::slice::from_ref(&old));
    dispatch::converge(&first, &host.machine).expect("applied");
    let op = apply(&mut host, &[object("Secret", "token", "hunter3")]);
    let found = dispatch::observe(&op, &host.machine).expect("a look");
    for wave in Wave::ALL {
        dispatch::restore(&op, &host.machine, &found, wave).unwrap_or_else(|error| panic!("{}", error.full()));
    }
    assert!(holds(&mut host, &[old]));
}

#[test]
fn the_value_of_a_slot_is_in_the_secret_in_base64_and_in_nothing_that_is_written_down() {
    let mut host = cluster();
    let (op, slot) = with_slot(&mut host);
    // Without its value nothing can be compared; but what a rollback has to restore is known.
    let found = dispatch::observe(&op, &host.machine).expect("a look");
    assert_eq!((found.raw(), found.satisfied), (json!("absent"), false));
    // What would end a field of YAML ends none.
    let value = "hunter2: \"}\nkind: Evil\n---\n";
    let machine = host.machine.with_slots([(slot, value.as_bytes().to_vec())].into());
    assert_eq!(dispatch::observe(&op, &machine).expect("a look").raw(), json!("absent"));
    dispatch::converge(&op, &machine).expect("applied");
    let after = dispatch::observe(&op, &machine).expect("a look");
    assert!(after.satisfied, "{}", after.raw());
    let found = dispatch::observe(&op, &host.machine).expect("a look");
    assert!(!found.satisfied && found.raw().to_string().contains("secrets"), "{}", found.raw());
    assert!(!found.raw().to_string().contains("aHVudGVy"), "{}", found.raw());
    let cluster = host.read(&format!("{}/state.json", kubexm_ops::fake::FOLDER));
    assert!(cluster.contains("password: aHVudGVyMjogIn0Ka2luZDogRXZpbAotLS0K"), "{cluster}");
    let absent = ObservedState::opaque(&json!("absent"), false);
    for wave in Wave::ALL {
        dispatch::restore(&op, &host.machine, &absent, wave).expect("its undo needs no value");
    }
    assert_eq!(dispatch::observe(&op, &machine).expect("a look").raw(), json!("absent"));
}

#[test]
fn a_state_without_content_from_an_older_program_does_not_stop_a_rollback() {
    let mut host = cluster();
    let op = apply(&mut host, &[object("ConfigMap", "coredns", "ours")]);
    dispatch::converge(&op, &host.machine).expect("applied");
    for wave in Wave::ALL {
        dispatch::restore(&op, &host.machine, &ObservedState::opaque(&json!("different"), false), wave)
            .expect("it continues");
    }
}
