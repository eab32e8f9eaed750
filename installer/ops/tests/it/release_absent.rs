//! A release that nobody wants any more goes, without data and without what is somebody else's, and comes back with a rollback. What
//! the cluster has of add-ons is listed.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use crate::common::Host;
use kubexm_ops::{Wave, dispatch, installed_addons};
use kubexm_plan::addons::{AddonsAsk, InstalledAddon, InstalledKind};
use kubexm_plan::op::{FoundToRemove, HelmRelease, KubeadmInit, Manifests, NOTHING, ReleaseAbsent};
use kubexm_plan::{ObservedState, Op};
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

fn installed(host: &mut Host, values: Value) -> Op {
    let input = host.text(&json!({"values": values, "images": []}).to_string());
    let (name, namespace, chart) = ("web".to_owned(), "apps".to_owned(), host.blob("a chart"));
    let op = HelmRelease { name, namespace, chart, input, slots: Vec::new(), wait_s: 10 }.into();
    converge(host, &op);
    op
}

fn absent() -> Op {
    ReleaseAbsent { name: "web".to_owned(), namespace: "apps".to_owned(), wait_s: 10 }.into()
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

fn state(host: &Host) -> Value {
    serde_json::from_str(&host.read(STATE)).expect("the fake's state")
}

fn objects(host: &Host) -> BTreeMap<String, String> {
    serde_json::from_value(state(host)["objects"].clone()).expect("objects")
}

fn list(host: &Host, ask: &AddonsAsk) -> Vec<InstalledAddon> {
    installed_addons::look(&host.machine, ask).unwrap_or_else(|error| panic!("{}", error.full())).addons
}

#[test]
fn a_removed_release_leaves_its_claims_and_comes_back_with_a_rollback() {
    let mut host = cluster();
    let op = installed(&mut host, json!({"claim": true, "hook": "runs", "replicas": 2}));
    let before = look(&host, &absent());
    assert!(!before.satisfied);
    assert!(!before.raw().to_string().contains("replicas"), "values may be secret: {}", before.raw());
    converge(&host, &absent());
    converge(&host, &absent());
    let left: Vec<String> = objects(&host).into_keys().filter(|key| key.contains("web")).collect();
    assert_eq!(left, ["PersistentVolumeClaim/web"], "data stay, and the hook's object goes");
    assert!(objects(&host).contains_key("Namespace/apps"), "whose it is, nobody knows");
    restore(&host, &absent(), &before);
    assert!(look(&host, &op).satisfied, "{}", look(&host, &op).raw());
    assert!(absent().is_back(&look(&host, &absent()), &before).expect("a state"));
    assert!(objects(&host).contains_key("ConfigMap/web"));
}

#[test]
fn a_removal_that_was_never_made_is_rolled_back_by_nothing() {
    let mut host = cluster();
    installed(&mut host, json!({"a": 1}));
    let (before, was) = (look(&host, &absent()), state(&host));
    restore(&host, &absent(), &before);
    assert_eq!(state(&host)["releases"], was["releases"]);
}

#[test]
fn a_removal_of_which_helm_did_only_a_part_goes_on_and_comes_back() {
    let mut host = cluster();
    let op = installed(&mut host, json!({"claim": true}));
    let before = look(&host, &absent());
    converge(&host, &absent());
    // As if it had died before helm had removed its own Secret.
    restore(&host, &absent(), &before);
    let again = look(&host, &absent());
    converge(&host, &absent());
    restore(&host, &absent(), &again);
    assert!(look(&host, &op).satisfied, "{}", look(&host, &op).raw());
}

#[test]
fn a_release_of_somebody_else_is_left() {
    let mut host = cluster();
    installed(&mut host, json!({"a": 1}));
    let mut edited = state(&host);
    let labels = edited["releases"]["apps/web"][0]["metadata"]["labels"].as_object_mut().expect("labels");
    labels.remove("kubexm.io/chart");
    host.put(STATE, edited.to_string());
    let found = look(&host, &absent());
    assert_eq!(found.state::<ReleaseAbsent>().expect("a state"), FoundToRemove::Foreign);
    assert!(found.satisfied);
    converge(&host, &absent());
    assert!(objects(&host).contains_key("ConfigMap/web"));
    let all = list(&host, &AddonsAsk { compare: true, ..AddonsAsk::default() });
    assert_eq!((all[0].name.as_str(), all[0].ours, all[0].drifted.clone()), ("web", false, None));
}

/// Whoever may make Secrets in a namespace can have any number look like releases.
#[test]
fn releases_are_listed_in_pages_and_those_of_others_by_their_labels_alone() {
    let mut host = cluster();
    installed(&mut host, json!({"a": 1}));
    let mut edited = state(&host);
    for number in 0..40 {
        let name = format!("x{number}");
        let labels = json!({"owner": "helm", "name": name, "version": "1", "status": "deployed"});
        let secret = json!({"metadata": {"name": name, "labels": labels}, "data": {"release": "nobody reads it"}});
        edited["releases"][format!("shared/{name}")] = json!([secret]);
    }
    host.put(STATE, edited.to_string());
    let (ours, others): (Vec<_>, Vec<_>) = list(&host, &AddonsAsk::default()).into_iter().partition(|one| one.ours);
    assert_eq!((ours.len(), ours[0].name.as_str(), ours[0].chart.is_some()), (1, "web", true));
    assert_eq!(others.len(), 40);
    assert!(others.iter().all(|one| one.status == "deployed" && one.revision == Some(1) && one.chart.is_none()));
}

#[test]
fn objects_of_yaml_go_with_their_record_and_come_back() {
    let mut host = cluster();
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string();
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}).to_string();
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}, "data": {"k": "aHVudGVyMg=="}})
            .to_string();
    let blob = host.blob([map("one"), claim, secret].join("\n---\n"));
    let (name, namespace) = ("site".to_owned(), "apps".to_owned());
    let there: Op = Manifests { name, namespace, blob, in_plan: false, slots: Vec::new(), wait_s: 5 }.into();
    host.text(NOTHING);
    let gone: Op = Manifests::none("site".to_owned(), "apps".to_owned(), 5).into();
    assert!(look(&host, &gone).satisfied, "there was nothing");
    converge(&host, &there);
    let before = look(&host, &gone);
    assert!(!before.satisfied && !before.raw().to_string().contains("aHVudGVyMg"), "{}", before.raw());
    converge(&host, &gone);
    let of_kubeadm = ["ConfigMap/cluster-info", "DaemonSet/kube-proxy", "Deployment/coredns"];
    let left = objects(&host).into_keys().filter(|key| !key.starts_with("Namespace/"));
    let left: Vec<String> = left.filter(|key| !of_kubeadm.contains(&key.as_str())).collect();
    assert_eq!(left, ["PersistentVolumeClaim/data"]);
    restore(&host, &gone, &before);
    assert!(look(&host, &there).satisfied, "{}", look(&host, &there).raw());
    assert!(objects(&host)["Secret/one"].contains("aHVudGVyMg=="));
}

#[test]
fn what_is_installed_is_listed_with_what_has_drifted_and_no_secret() {
    let mut host = cluster();
    installed(&mut host, json!({"a": 1}));
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}, "data": {"k": "aHVudGVyMg=="}})
            .to_string();
    let blob = host.blob(secret);
    let (name, namespace) = ("site".to_owned(), "apps".to_owned());
    converge(&host, &Manifests { name, namespace, blob, in_plan: false, slots: Vec::new(), wait_s: 5 }.into());
    let whole = AddonsAsk { compare: true, apis: true, objects: Some("salt".to_owned()) };
    let all = list(&host, &whole);
    let said: Vec<(&str, InstalledKind, &str, Option<Vec<String>>)> =
        all.iter().map(|one| (one.name.as_str(), one.kind, one.status.as_str(), one.drifted.clone())).collect();
    assert_eq!(
        said,
        [
            ("site", InstalledKind::Yaml, "applied", Some(vec![])),
            ("web", InstalledKind::Helm, "deployed", Some(vec![]))
        ]
    );
    assert_eq!((all[1].chart.as_deref(), all[1].revision), (Some("web-1.0.0"), Some(1)));
    assert_eq!(all[0].source.as_deref(), Some(&*blob.hex()));
    let text = serde_json::to_string(&all).expect("JSON");
    assert!(!text.contains("aHVudGVyMg") && text.contains("(secret "), "{text}");
    let mut edited = state(&host);
    edited["objects"].as_object_mut().expect("objects").remove("ConfigMap/web");
    host.put(STATE, edited.to_string());
    let all = list(&host, &AddonsAsk { compare: true, ..AddonsAsk::default() });
    assert_eq!(all[1].drifted.clone(), Some(vec!["v1.ConfigMap.apps.web".to_owned()]));
    assert!(all.iter().all(|one| one.objects.is_none()));
    let quick = list(&host, &AddonsAsk::default());
    assert!(quick.iter().all(|one| one.drifted.is_none() && one.not_compared.is_none()), "{quick:?}");
}

#[test]
fn an_object_that_another_add_on_has_taken_over_stays() {
    let mut host = cluster();
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string();
    let add = |host: &Host, name: &str, objects: &[String]| {
        let (name, namespace, blob) = (name.to_owned(), "apps".to_owned(), host.blob(objects.join("\n---\n")));
        converge(host, &Manifests { name, namespace, blob, in_plan: false, slots: Vec::new(), wait_s: 5 }.into());
    };
    add(&host, "old", &[map("one"), map("two")]);
    add(&host, "new", &[map("one")]);
    host.text(NOTHING);
    converge(&host, &Manifests::none("old".to_owned(), "apps".to_owned(), 5).into());
    assert!(objects(&host).contains_key("ConfigMap/one") && !objects(&host).contains_key("ConfigMap/two"));
    add(&host, "third", &[map("one"), map("three")]);
    add(&host, "new", &[map("four")]);
    assert!(objects(&host).contains_key("ConfigMap/one"), "also when a version drops it");
}
