//! Keys of a cluster in an etcd of the user's, which others use too.

#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

use kubexm_ops::{dispatch, etcd_check};
use kubexm_plan::etcd_check::{EtcdAnswer, EtcdAsk, KeysOf};
use kubexm_plan::op::{EtcdKeysDelete, Op};
use kubexm_plan::{ClusterId, etcd};
use serde_json::{Value, json};

use crate::common::Host;
use crate::fleet::satisfied;

const FILE: &str = "/run/kubexm-double/external-etcd.json";
const ENDPOINT: &str = "https://10.9.0.5:2379";
/// Of others: each begins as the prefix does, or is next to it.
const OTHERS: [&str; 6] =
    ["/registr", "/registry", "/registry-lab/pods/a/b", "/registry.", "/registry0", "/registry2/pods/a/b"];

fn id() -> ClusterId {
    ClusterId::from_random([7; 16])
}

/// A control plane with the certificate, and an etcd with these keys of the cluster and with those of others.
fn host(own: &[(&str, &str)], written: Option<&str>) -> Host {
    let host = Host::fresh();
    for path in [etcd::CLIENT_CA, etcd::CLIENT_CERT, etcd::CLIENT_KEY] {
        host.put(path, "pem");
    }
    let keys = own.iter().copied().chain(OTHERS.map(|key| (key, "of others")));
    let keys: serde_json::Map<String, Value> = keys.map(|(key, value)| (key.to_owned(), value.into())).collect();
    host.put(FILE, json!({"endpoints": [ENDPOINT], "keys": keys, "written": written}).to_string());
    host
}

fn keys(host: &Host) -> Vec<String> {
    let text = std::fs::read(host.machine.path(FILE)).expect("the etcd");
    let etcd: Value = serde_json::from_slice(&text).expect("JSON");
    etcd["keys"].as_object().expect("keys").keys().cloned().collect()
}

/// The first endpoint does not answer.
fn act(prefix: &str) -> Op {
    let endpoints = ["https://10.9.0.4:2379", ENDPOINT].map(str::to_owned).to_vec();
    EtcdKeysDelete { endpoints, prefix: prefix.to_owned(), keys: 3 }.into()
}

const PODS: [(&str, &str); 3] =
    [("/registry/pods/a/b", "pod"), ("/registry/namespaces/kube-system", "ns"), ("/registry/~", "odd")];

#[test]
fn a_clusters_keys_are_deleted_and_nothing_that_does_not_begin_with_its_prefix_and_a_slash() {
    let host = host(&PODS, None);
    assert!(!satisfied(&act("/registry"), &host.machine));
    dispatch::converge(&act("/registry"), &host.machine).expect("deleted");
    assert_eq!(keys(&host), OTHERS);
    assert!(satisfied(&act("/registry"), &host.machine));
    dispatch::converge(&act("/registry"), &host.machine).expect("once more");
    assert_eq!(keys(&host), OTHERS);
}

#[test]
fn what_is_no_prefix_of_a_clusters_keys_deletes_nothing() {
    for prefix in ["", "/", "registry", "/registry/"] {
        let host = host(&PODS, None);
        let before = keys(&host);
        assert!(dispatch::converge(&act(prefix), &host.machine).is_err(), "{prefix:?}");
        assert_eq!(keys(&host), before, "{prefix:?}");
    }
}

#[test]
fn keys_that_come_back_are_an_error_that_says_who_writes_them() {
    let host = host(&PODS, Some("/registry/leases/a"));
    let error = dispatch::converge(&act("/registry"), &host.machine).expect_err("an API server runs").full();
    assert!(error.contains("an API server still writes them"), "{error}");
}

#[test]
fn without_the_certificate_or_a_member_that_answers_nothing_is_taken_for_deleted() {
    let host = host(&PODS, None);
    host.put(FILE, json!({"endpoints": [], "keys": {}}).to_string());
    let error = dispatch::observe(&act("/registry"), &host.machine).expect_err("nobody answers").full();
    assert!(error.contains("10.9.0.4") && error.contains("10.9.0.5"), "{error}");
    std::fs::remove_file(host.machine.path(etcd::CLIENT_KEY)).expect("removed");
    let error = dispatch::observe(&act("/registry"), &host.machine).expect_err("no certificate").full();
    assert!(error.contains(etcd::CLIENT), "{error}");
}

fn whose(own: &[(&str, &str)]) -> EtcdAnswer {
    let [ca, certificate] = [const { String::new() }; 2];
    let endpoints = vec![ENDPOINT.to_owned()];
    let ask =
        EtcdAsk { endpoints, ca, certificate, prefix: "/registry".to_owned(), of: Some(id()), as_api_server: false };
    etcd_check::ask(&host(own, None).machine, &ask, &[])
}

#[test]
fn keys_say_whose_they_are_by_kubexms_record_and_another_clusters_below_them_are_found() {
    let record = |id: ClusterId| format!("k8s\u{0}ConfigMap {{\"schema\":\"kubexm.io/applied/v1\",\"id\":\"{id}\"}}");
    let key = "/registry/configmaps/kube-system/kubexm-cluster";
    let (own, other) = (record(id()), record(ClusterId::from_random([8; 16])));
    let with = |value: &str, more: Option<&'static str>| {
        let mut all = PODS.to_vec();
        all.push((key, value));
        all.extend(more.map(|key| (key, "x")));
        let answer = whose(&all);
        assert_eq!(answer.keys, Some(all.len() as u64));
        answer.keys_of
    };
    assert_eq!(with(&own, None), Some(KeysOf::This));
    assert_eq!(with(&other, None), Some(KeysOf::Other));
    assert_eq!(with("k8s:enc:aescbc:v1:", None), Some(KeysOf::Unknown));
    assert_eq!(whose(&PODS).keys_of, Some(KeysOf::Unknown));
    let shared = Some(KeysOf::Shared("lab2".to_owned()));
    assert_eq!(with(&own, Some("/registry/lab2/namespaces/kube-system")), shared);
    assert_eq!(with(&own, Some("/registry/lab2/registry/namespaces/kube-system")), shared);
    assert_eq!(with(&own, Some("/registry/lab2/namespaces/other")), Some(KeysOf::This));
}

/// A control plane of a cluster that was adopted has files of others.
#[test]
fn a_control_plane_that_is_asked_as_its_api_server_asks_needs_no_certificate_that_is_sent() {
    let ask = |host: &Host| {
        let [ca, certificate] = [const { String::new() }; 2];
        let (endpoints, prefix) = (vec![ENDPOINT.to_owned()], "/registry".to_owned());
        etcd_check::ask(
            &host.machine,
            &EtcdAsk { endpoints, ca, certificate, prefix, of: None, as_api_server: true },
            &[],
        )
    };
    let host = host(&PODS, None);
    let answer = ask(&host);
    assert_eq!((answer.endpoints.len(), answer.keys), (1, None));
    assert!(answer.why.as_ref().is_some_and(|why| why.contains("names no certificate for etcd")), "{answer:?}");
    let flags = ["cafile", "certfile", "keyfile"].map(|name| format!("    - --etcd-{name}=/etc/ssl/etcd/ssl/{name}\n"));
    ["cafile", "certfile", "keyfile"].iter().for_each(|name| host.put(&format!("/etc/ssl/etcd/ssl/{name}"), "pem"));
    let manifest = format!("    - --etcd-servers={ENDPOINT}\n{}", flags.concat());
    host.put("/etc/kubernetes/manifests/kube-apiserver.yaml", manifest);
    let answer = ask(&host);
    assert_eq!((answer.keys, answer.endpoints[0].version.is_some()), (Some(PODS.len() as u64), true), "{answer:?}");
}
