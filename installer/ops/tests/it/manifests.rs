//! Objects of an add-on are what their file says, or what they were before: with what an earlier version had, and without what
//! holds data of others.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use crate::common::Host;
use kubexm_ops::{Wave, dispatch};
use kubexm_plan::op::{FoundManifests, KubeObject, KubeadmInit, Manifests};
use kubexm_plan::{ObservedState, Op, SlotName};
use serde_json::{Value, json};

const SOCKET: &str = "unix:///run/containerd/containerd.sock";
const RECORD: &str = "ConfigMap/kubexm-addon-site";

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
    json!({"apiVersion": if kind == "Deployment" { "apps/v1" } else { "v1" }, "kind": kind, "metadata": {"name": name}, "data": {"a": data}})
}

fn addon(host: &Host, objects: &[Value]) -> Op {
    let text: Vec<String> = objects.iter().map(Value::to_string).collect();
    let blob = host.blob(text.join("\n---\n"));
    Manifests { name: "site".into(), namespace: "apps".into(), blob, in_plan: false, slots: Vec::new(), wait_s: 5 }
        .into()
}

fn look(host: &Host, op: &Op) -> ObservedState {
    dispatch::observe(op, &host.machine).unwrap_or_else(|error| panic!("{}", error.full()))
}

fn converge(host: &Host, op: &Op) {
    dispatch::converge(op, &host.machine).unwrap_or_else(|error| panic!("{}", error.full()));
    assert!(look(host, op).satisfied, "{}", look(host, op).raw());
}

fn restore(host: &Host, op: &Op, before: &ObservedState) {
    for wave in [Wave::Stop, Wave::Stop, Wave::Data, Wave::Start] {
        dispatch::restore(op, &host.machine, before, wave).unwrap_or_else(|error| panic!("{}", error.full()));
    }
}

fn objects(host: &Host) -> BTreeMap<String, String> {
    let state: Value = serde_json::from_str(&host.read("/run/kubexm-double/state.json")).expect("the fake's state");
    serde_json::from_value(state["objects"].clone()).expect("objects")
}

fn names(host: &Host) -> Vec<String> {
    let own = |key: &String| ["one", "two", "three", "data"].iter().any(|name| key.ends_with(&format!("/{name}")));
    objects(host).into_keys().filter(own).collect()
}

#[test]
fn what_a_later_version_dropped_is_removed_and_comes_back_with_a_rollback() {
    let host = cluster();
    let first = addon(&host, &[object("ConfigMap", "one", "1"), object("ConfigMap", "two", "1")]);
    let before = look(&host, &first);
    assert_eq!(before.raw(), json!({"found": "absent", "namespace": false}));
    converge(&host, &first);
    converge(&host, &first);
    assert_eq!(names(&host), ["ConfigMap/one", "ConfigMap/two"]);
    let installed = objects(&host);
    let second = addon(&host, &[object("ConfigMap", "one", "2"), object("Deployment", "three", "2")]);
    let earlier = look(&host, &second);
    converge(&host, &second);
    assert_eq!(names(&host), ["ConfigMap/one", "Deployment/three"]);
    restore(&host, &second, &earlier);
    assert!(look(&host, &first).satisfied, "{}", look(&host, &first).raw());
    assert_eq!(names(&host), ["ConfigMap/one", "ConfigMap/two"]);
    assert_eq!(objects(&host).keys().collect::<Vec<_>>(), installed.keys().collect::<Vec<_>>());
    restore(&host, &first, &before);
    assert!(names(&host).is_empty() && !objects(&host).contains_key(RECORD));
}

#[test]
fn data_stay_whether_a_version_drops_them_or_the_add_on_goes() {
    let host = cluster();
    let first = addon(&host, &[object("PersistentVolumeClaim", "data", "1"), object("ConfigMap", "one", "1")]);
    let before = look(&host, &first);
    converge(&host, &first);
    restore(&host, &first, &before);
    assert_eq!(names(&host), ["PersistentVolumeClaim/data"]);
    converge(&host, &first);
    converge(&host, &addon(&host, &[object("ConfigMap", "one", "1")]));
    assert_eq!(names(&host), ["ConfigMap/one", "PersistentVolumeClaim/data"]);
}

#[test]
fn an_object_that_was_there_before_comes_back_as_it_was() {
    let mut host = cluster();
    let theirs = object("ConfigMap", "one", "theirs");
    let text = host.text(&theirs.to_string());
    dispatch::converge(&KubeObject::new("theirs", text).into(), &host.machine).expect("applied");
    let op = addon(&host, &[object("ConfigMap", "one", "ours")]);
    let before = look(&host, &op);
    assert!(before.raw().to_string().contains("theirs"), "{}", before.raw());
    converge(&host, &op);
    restore(&host, &op, &before);
    let now: Value = serde_json::from_str(&objects(&host)["ConfigMap/one"]).expect("an object");
    assert_eq!(now["data"], theirs["data"]);
}

#[test]
fn what_a_secret_says_is_in_no_state_and_comes_back() {
    let host = cluster();
    let first = addon(&host, &[object("Secret", "one", "hunter2")]);
    converge(&host, &first);
    let second = addon(&host, &[object("Secret", "one", "changed")]);
    let before = look(&host, &second);
    assert!(!before.raw().to_string().contains("hunter2"), "{}", before.raw());
    converge(&host, &second);
    restore(&host, &second, &before);
    assert!(objects(&host)["Secret/one"].contains("hunter2"));
    assert!(!objects(&host)[RECORD].contains("hunter2"), "the record has names alone");
}

#[test]
fn somebodys_change_is_mended() {
    let mut host = cluster();
    let op = addon(&host, &[object("ConfigMap", "one", "ours")]);
    converge(&host, &op);
    let text = host.text(&object("ConfigMap", "one", "others").to_string());
    dispatch::converge(&KubeObject::new("others", text).into(), &host.machine).expect("applied");
    assert!(!look(&host, &op).satisfied);
    converge(&host, &op);
}

#[test]
fn objects_of_the_plan_are_applied_as_those_of_the_store() {
    let mut host = cluster();
    let blob = host.text(&object("ConfigMap", "one", "1").to_string());
    let op: Op = Manifests {
        name: "network.x".into(),
        namespace: "apps".into(),
        blob,
        in_plan: true,
        slots: Vec::new(),
        wait_s: 5,
    }
    .into();
    let before = look(&host, &op);
    assert_eq!(op.text(), Some(blob));
    converge(&host, &op);
    assert_eq!(names(&host).len(), 1);
    restore(&host, &op, &before);
    assert_eq!(names(&host), [""; 0]);
}

/// The value is in the Secret and in nothing that is written down; another value is applied, and a Secret that is left out goes.
#[test]
fn values_of_slots_are_in_secrets_and_follow_their_source() {
    let mut host = cluster();
    let slot = SlotName("addons.site/login/password".into());
    let secret = |name: &str, value: &str| {
        format!("---\napiVersion: v1\ndata:\n  password: '{value}'\nkind: Secret\nmetadata:\n  name: {name}\n")
    };
    let mut op = |texts: &[String]| -> Op {
        let (name, namespace, blob) = ("site.secrets".into(), "apps".into(), host.text(&texts.concat()));
        Manifests { name, namespace, blob, in_plan: true, slots: vec![slot.clone()], wait_s: 5 }.into()
    };
    let login = secret("one", &slot.placeholder());
    let (both, one) = (op(&[login.clone(), secret("two", "b2xk")]), op(&[login]));
    let with = |value: &str| host.machine.with_slots([(slot.clone(), value.as_bytes().to_vec())].into());
    let found = dispatch::observe(&both, &host.machine).expect("a look");
    assert!(!found.satisfied, "without its value nothing can be compared");
    dispatch::converge(&both, &with("hunter2")).expect("applied");
    assert!(dispatch::observe(&both, &with("hunter2")).expect("a look").satisfied);
    for (machine, value) in [(&host.machine, "no value"), (&with("hunter3"), "another")] {
        let found = dispatch::observe(&both, machine).expect("a look");
        assert!(!found.satisfied, "{value}");
        assert!(!found.raw().to_string().contains("aHVudGVy"), "{}", found.raw());
    }
    dispatch::converge(&one, &with("hunter3")).expect("applied");
    assert!(dispatch::observe(&one, &with("hunter3")).expect("a look").satisfied);
    let state = host.read(&format!("{}/state.json", kubexm_ops::fake::FOLDER));
    assert!(state.contains("aHVudGVyMw==") && !state.contains("b2xk"), "{state}");
    for wave in Wave::ALL {
        dispatch::restore(&one, &host.machine, &found, wave).expect("its undo needs no value");
    }
    assert_eq!(names(&host), [""; 0]);
}

#[test]
fn without_a_cluster_or_without_their_file_nothing_is_known() {
    let host = cluster();
    let op: Op = Manifests {
        name: "site".into(),
        namespace: "apps".into(),
        blob: kubexm_spec::Digest::of("not there"),
        in_plan: false,
        slots: Vec::new(),
        wait_s: 5,
    }
    .into();
    assert_eq!(look(&host, &op).state::<Manifests>().expect("a state"), FoundManifests::Unknown);
    let error = dispatch::converge(&op, &host.machine).expect_err("no file").full();
    assert!(error.contains("add-on site is not in the node's store"), "{error}");
    let fresh = Host::fresh();
    let op = addon(&fresh, &[]);
    assert_eq!(look(&fresh, &op).state::<Manifests>().expect("a state"), FoundManifests::Unknown);
}
