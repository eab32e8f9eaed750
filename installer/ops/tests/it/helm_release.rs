//! A release is what its op says, or what it was before; nothing half, nothing of somebody else's, and no data are touched.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use crate::common::Host;
use kubexm_ops::{Wave, dispatch};
use kubexm_plan::op::{HelmRelease, KubeObject, KubeadmInit, Released};
use kubexm_plan::{ObservedState, Op, SlotName};
use kubexm_spec::Digest;
use serde_json::{Value, json};

const SOCKET: &str = "unix:///run/containerd/containerd.sock";
const STATE: &str = "/run/kubexm-double/state.json";

fn cluster() -> Host {
    let host = Host::fresh();
    host.ready_for_init();
    host.put("/usr/local/bin/helm", "#!/bin/true\n");
    let init = KubeadmInit {
        config: "/etc/kubexm/kubeadm.yaml".into(),
        cri_socket: SOCKET.into(),
        ignore: vec![],
        backup: None,
    };
    dispatch::converge(&init.into(), &host.machine).expect("kubeadm init");
    host
}

fn release(host: &mut Host, values: Value) -> Op {
    with_images(host, values, &[])
}

fn with_images(host: &mut Host, values: Value, images: &[&str]) -> Op {
    let input = host.text(&json!({"values": values, "images": images}).to_string());
    let (name, namespace, chart) = ("web".to_owned(), "apps".to_owned(), host.blob("a chart"));
    HelmRelease { name, namespace, chart, input, slots: Vec::new(), wait_s: 10 }.into()
}

fn look(host: &Host, op: &Op) -> ObservedState {
    dispatch::observe(op, &host.machine).unwrap_or_else(|error| panic!("{}", error.full()))
}

fn found(host: &Host, op: &Op) -> Released {
    look(host, op).state::<HelmRelease>().expect("its state")
}

fn revision(host: &Host, op: &Op) -> (u32, String) {
    match found(host, op) {
        Released::There(found) => (found.revision, found.status),
        other => panic!("{other:?}"),
    }
}

fn converge(host: &Host, op: &Op) {
    dispatch::converge(op, &host.machine).unwrap_or_else(|error| panic!("{}", error.full()));
    assert!(look(host, op).satisfied, "{}", look(host, op).raw());
}

fn refused(host: &Host, op: &Op) -> String {
    dispatch::converge(op, &host.machine).expect_err("a refusal").full()
}

fn restore(host: &Host, op: &Op, before: &ObservedState) {
    for wave in [Wave::Stop, Wave::Stop, Wave::Data, Wave::Start] {
        dispatch::restore(op, &host.machine, before, wave).unwrap_or_else(|error| panic!("{}", error.full()));
    }
}

fn objects(host: &Host) -> BTreeMap<String, String> {
    let state: Value = serde_json::from_str(&host.read(STATE)).expect("the fake's state");
    serde_json::from_value(state["objects"].clone()).expect("objects")
}

fn edit_state(host: &Host, edit: impl Fn(&mut Value)) {
    let mut state: Value = serde_json::from_str(&host.read(STATE)).expect("the fake's state");
    edit(&mut state);
    host.put(STATE, state.to_string());
}

#[test]
fn a_release_is_installed_once_and_upgraded_when_its_values_change() {
    let mut host = cluster();
    let first = release(&mut host, json!({"replicas": 1}));
    assert_eq!(found(&host, &first), Released::Absent { namespace: false });
    converge(&host, &first);
    converge(&host, &first);
    let second = release(&mut host, json!({"replicas": 2}));
    let before = look(&host, &second);
    assert!(!before.satisfied);
    converge(&host, &second);
    let number = revision(&host, &second).0;
    restore(&host, &second, &before);
    assert!(look(&host, &first).satisfied, "{}", look(&host, &first).raw());
    assert_eq!(
        revision(&host, &first).0,
        number + 1,
        "a rollback of helm is a new revision, and the second changes nothing"
    );
    assert!(second.is_back(&look(&host, &second), &before).expect("a state"));
}

#[test]
fn another_chart_with_the_same_values_is_another_release() {
    let mut host = cluster();
    let op = release(&mut host, json!({}));
    converge(&host, &op);
    let Op::HelmRelease(mut other) = op else { panic!("another op") };
    other.chart = host.blob("another chart");
    let other = other.into();
    assert!(!look(&host, &other).satisfied);
    converge(&host, &other);
}

#[test]
fn a_release_of_somebody_else_is_refused_by_name_and_left() {
    let mut host = cluster();
    let op = release(&mut host, json!({"a": 1}));
    converge(&host, &op);
    edit_state(&host, |state| {
        let labels = state["releases"]["apps/web"][0]["metadata"]["labels"].as_object_mut().expect("labels");
        labels.remove("kubexm.io/chart");
    });
    let before = look(&host, &op);
    assert!(!before.satisfied);
    let error = refused(&host, &op);
    for part in ["release web in namespace apps", "web-1.0.0", "revision 1", "helm uninstall web --namespace apps"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    restore(&host, &op, &before);
    let absent = ObservedState::new::<HelmRelease>(&Released::Absent { namespace: true }, false).expect("a state");
    restore(&host, &op, &absent);
    assert_eq!(look(&host, &op), before);
}

#[test]
fn an_image_that_the_bundle_lacks_is_refused_by_name_before_anything_is_applied() {
    let mut host = cluster();
    let image = json!({"image": "quay.io/a/b:1"});
    let op = with_images(&mut host, image.clone(), &["quay.io/a/b:2"]);
    let error = refused(&host, &op);
    assert!(error.contains("quay.io/a/b:1 (Deployment web: spec.template.spec.containers[0].image)"), "{error}");
    assert_eq!(found(&host, &op), Released::Absent { namespace: false });
    let op = with_images(&mut host, image, &["quay.io/a/b:1"]);
    converge(&host, &op);
}

#[test]
fn what_helm_test_alone_runs_may_have_other_images_and_a_hook_of_an_install_may_not() {
    let mut host = cluster();
    for events in ["test,pre-install", "post-upgrade,test"] {
        let op = release(&mut host, json!({"test": events}));
        let error = refused(&host, &op);
        assert!(error.contains("test.example/x:1 (Pod try: spec.containers[0].image)"), "{events}: {error}");
        assert_eq!(found(&host, &op), Released::Absent { namespace: false }, "{events}");
    }
    // Neither its rendering nor what helm has stored of it.
    let op = release(&mut host, json!({"test": "test"}));
    converge(&host, &op);
}

#[test]
fn a_first_install_whose_hook_fails_leaves_nothing_and_its_log_is_in_the_error() {
    let mut host = cluster();
    let before = objects(&host);
    let op = release(&mut host, json!({"hook": "fails"}));
    let error = refused(&host, &op);
    for part in [
        "release apps/web",
        "BackoffLimitExceeded",
        "hook Job web-check",
        "the check found nothing",
        "nothing of it was left",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(found(&host, &op), Released::Absent { namespace: false });
    assert_eq!(objects(&host), before);
}

#[test]
fn an_upgrade_whose_hook_fails_goes_back_to_the_revision_before() {
    let mut host = cluster();
    let good = release(&mut host, json!({"replicas": 1}));
    converge(&host, &good);
    let before = objects(&host);
    let bad = release(&mut host, json!({"replicas": 2, "hook": "fails"}));
    let error = refused(&host, &bad);
    assert!(error.contains("revision 1 was restored") && error.contains("the check found nothing"), "{error}");
    assert!(look(&host, &good).satisfied, "{}", look(&host, &good).raw());
    assert_eq!(objects(&host), before, "the failed hook is gone, too");
}

#[test]
fn what_a_killed_run_has_left_is_undone_first() {
    for (status, installed_before) in [("pending-install", false), ("pending-upgrade", true), ("failed", false)] {
        let mut host = cluster();
        let good = release(&mut host, json!({"replicas": 1}));
        converge(&host, &good);
        let next = release(&mut host, json!({"replicas": 2}));
        if installed_before {
            converge(&host, &next);
        }
        edit_state(&host, |state| {
            let last = state["releases"]["apps/web"].as_array_mut().and_then(|all| all.last_mut()).expect("a revision");
            last["metadata"]["labels"]["status"] = status.into();
            if let Some(first) = state["releases"]["apps/web"].as_array_mut().filter(|all| all.len() > 1) {
                first[0]["metadata"]["labels"]["status"] = "deployed".into();
            }
        });
        assert!(!look(&host, &next).satisfied, "{status}");
        converge(&host, &next);
        assert_eq!(revision(&host, &next).1, "deployed", "{status}");
    }
}

#[test]
fn data_and_what_others_use_stay_when_a_release_goes() {
    let mut host = cluster();
    let op = release(&mut host, json!({"claim": true}));
    let before = look(&host, &op);
    converge(&host, &op);
    assert!(objects(&host).contains_key("PersistentVolumeClaim/web"));
    restore(&host, &op, &before);
    assert!(matches!(found(&host, &op), Released::Absent { .. }));
    let left: Vec<String> = objects(&host).into_keys().filter(|key| key.ends_with("/web")).collect();
    assert_eq!(left, ["PersistentVolumeClaim/web"]);
}

#[test]
fn an_object_that_somebody_changed_is_drift_and_one_that_the_chart_changes_is_not() {
    let mut host = cluster();
    let op = release(&mut host, json!({"a": 1}));
    converge(&host, &op);
    let changed =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"values": "others"}});
    let text = host.text(&changed.to_string());
    dispatch::converge(&KubeObject::new("others", text).into(), &host.machine).expect("applied");
    match found(&host, &op) {
        Released::There(found) => assert_eq!(found.drifted, ["v1.ConfigMap.apps.web"]),
        other => panic!("{other:?}"),
    }
    converge(&host, &op);
    let op = release(&mut host, json!({"moves": true}));
    converge(&host, &op);
}

#[test]
fn a_secret_goes_into_a_string_of_the_values_and_can_break_out_of_nothing() {
    let mut host = cluster();
    let slot = SlotName("password".to_owned());
    let input = json!({"values": {"auth": {"password": slot.placeholder()}}, "images": []}).to_string();
    let input = host.text(&input);
    let (name, namespace, chart) = ("web".to_owned(), "apps".to_owned(), host.blob("a chart"));
    let op: Op = HelmRelease { name, namespace, chart, input, slots: vec![slot.clone()], wait_s: 10 }.into();
    assert!(!look(&host, &op).satisfied, "without its value it is not known to hold");
    let secret = b"x\", \"admin\": \"yes".to_vec();
    host.machine = host.machine.with_slots(BTreeMap::from([(slot, secret.clone())]));
    converge(&host, &op);
    let state = look(&host, &op).raw().to_string();
    assert!(!state.contains("admin"), "{state}");
    let values = objects(&host)["ConfigMap/web"].clone();
    let values: Value = serde_json::from_str(&values).expect("an object");
    let values: Value = serde_json::from_str(values["data"]["values"].as_str().expect("values")).expect("values");
    assert_eq!(values, json!({"auth": {"password": String::from_utf8(secret).expect("text")}}));
}

#[test]
fn without_a_cluster_nothing_is_known_and_a_restore_does_nothing() {
    let mut host = Host::fresh();
    let op = release(&mut host, json!({}));
    assert_eq!(found(&host, &op), Released::Unknown);
    restore(&host, &op, &look(&host, &op));
    let gone = json!({"found": "there", "revision": 1, "status": "deployed", "chart": "a-1", "values": Digest::of("a"), "objects": Digest::of("b")});
    let state: Released = serde_json::from_value(gone).expect("a state as it is written");
    restore(&host, &op, &ObservedState::new::<HelmRelease>(&state, false).expect("a state"));
}

#[test]
fn a_hook_that_only_the_later_revision_has_goes_with_it() {
    let mut host = cluster();
    let first = release(&mut host, json!({"replicas": 1}));
    converge(&host, &first);
    let before = objects(&host);
    let second = release(&mut host, json!({"replicas": 1, "hook": "runs"}));
    let found = look(&host, &second);
    converge(&host, &second);
    assert!(objects(&host).contains_key("Job/web-check"));
    restore(&host, &second, &found);
    assert_eq!(objects(&host), before);
}

#[test]
fn a_release_that_no_revision_of_is_deployed_but_once_was_is_never_uninstalled() {
    for statuses in [vec!["superseded", "superseded", "failed"], vec!["superseded", "superseded", "pending-upgrade"]] {
        let mut host = cluster();
        for replicas in 1..=3 {
            let op = release(&mut host, json!({"replicas": replicas}));
            converge(&host, &op);
        }
        edit_state(&host, |state| {
            let all = state["releases"]["apps/web"].as_array_mut().expect("revisions");
            for (secret, status) in all.iter_mut().zip(&statuses) {
                secret["metadata"]["labels"]["status"] = (*status).into();
            }
        });
        let next = release(&mut host, json!({"replicas": 4}));
        converge(&host, &next);
        assert!(revision(&host, &next).0 >= 4, "{statuses:?}: its history is there, so it was not uninstalled");
    }
}

#[test]
fn a_custom_resource_that_somebody_changed_is_set_back_and_not_taken_for_the_charts_own_change() {
    let mut host = cluster();
    let op = release(&mut host, json!({"custom": true}));
    converge(&host, &op);
    let changed =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "web"}, "spec": {"size": 9}});
    let text = host.text(&changed.to_string());
    dispatch::converge(&KubeObject::new("others", text).into(), &host.machine).expect("applied");
    assert!(!look(&host, &op).satisfied);
    converge(&host, &op);
    assert!(objects(&host)["Widget/web"].contains("\"size\":1"), "{}", objects(&host)["Widget/web"]);
}

#[test]
fn an_image_that_only_the_install_renders_is_refused_and_the_revision_before_is_back() {
    let mut host = cluster();
    let good = release(&mut host, json!({"replicas": 1}));
    converge(&host, &good);
    let before = objects(&host);
    let bad = release(&mut host, json!({"replicas": 1, "sneaks": true}));
    let error = refused(&host, &bad);
    assert!(error.contains("evil.example/x:1") && error.contains("revision 1 was restored"), "{error}");
    assert_eq!(objects(&host), before);
}

#[test]
fn what_helm_has_installed_and_reads_otherwise_does_not_stay() {
    let mut host = cluster();
    let good = release(&mut host, json!({"replicas": 1}));
    converge(&host, &good);
    let before = objects(&host);
    let bad = release(&mut host, json!({"replicas": 1, "sneaks": "merged"}));
    let error = refused(&host, &bad);
    assert!(error.contains("merge key") && error.contains("revision 1 was restored"), "{error}");
    assert_eq!(objects(&host), before);
}

#[test]
fn an_aggregated_api_that_is_down_hinders_neither_an_install_nor_its_undo() {
    let mut host = cluster();
    host.put("/run/kubexm-double/incomplete-apis", "true");
    let op = release(&mut host, json!({"replicas": 1}));
    converge(&host, &op);
    let bad = release(&mut host, json!({"hook": "fails"}));
    let error = refused(&host, &bad);
    assert!(error.contains("revision 1 was restored"), "{error}");
    let absent = ObservedState::new::<HelmRelease>(&Released::Absent { namespace: false }, false).expect("a state");
    restore(&host, &op, &absent);
    assert!(objects(&host).contains_key("Namespace/apps"), "nobody knows whether something is in it");
}
