//! Objects that were there before come back as they were, and hold nothing else up.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use crate::common::Host;
use kubexm_ops::{Wave, dispatch};
use kubexm_plan::ObservedState;
use kubexm_plan::Op;
use kubexm_plan::op::{KubeObject, KubeadmInit};
use serde_json::{Value, json};

const SOCKET: &str = "unix:///run/containerd/containerd.sock";

fn cluster() -> Host {
    let host = Host::fresh();
    host.ready_for_init();
    let init = KubeadmInit { config: "/etc/kubexm/kubeadm.yaml".into(), cri_socket: SOCKET.into(), ignore: vec![] };
    dispatch::converge(&init.into(), &host.machine).expect("kubeadm init");
    host
}

fn object(kind: &str, name: &str, data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "kube-system"}, "data": {"a": data}})
}

fn apply(host: &mut Host, objects: &[Value]) -> Op {
    let text: Vec<String> = objects.iter().map(Value::to_string).collect();
    let text = host.text(&text.join("\n---\n"));
    KubeObject { name: "objects".into(), text }.into()
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
    assert_eq!(dispatch::observe(&new, &host.machine).expect("a look").raw(), &json!("absent"));
}

#[test]
fn what_a_secret_says_is_in_no_state_and_its_undo_ends() {
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
    assert!(holds(&mut host, &[object("Secret", "token", "ours")]), "nobody has the old one: it must not be deleted");
}

#[test]
fn a_state_of_an_older_program_that_kept_no_content_holds_up_no_wave() {
    let mut host = cluster();
    let op = apply(&mut host, &[object("ConfigMap", "coredns", "ours")]);
    dispatch::converge(&op, &host.machine).expect("applied");
    for wave in Wave::ALL {
        dispatch::restore(&op, &host.machine, &ObservedState::opaque(json!("different"), false), wave)
            .expect("it continues");
    }
}
