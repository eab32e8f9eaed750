//! Members of an etcd of kubexm's that are added and removed while the cluster runs, and what API servers and kubeadm then know of them.

use crate::common::Host;
use crate::etcd::{API_SERVER, init, serve, with_member};
use kubexm_ops::{OpError, Wave, dispatch};
use kubexm_plan::etcd;
use kubexm_plan::op::{Act, EtcdEndpoints, EtcdServers, MemberAdd, MemberPromote, MemberRemove, NamedServers, Op};
use kubexm_spec::cluster::RuntimeKind;
use serde_json::{Value, json};

const STATE: &str = "/run/kubexm-double/state.json";

/// A control plane with the only member.
fn plane() -> Host {
    let host = with_member();
    serve(&host, true);
    dispatch::converge(&init(), &host.machine).expect("init");
    host
}

fn state(host: &Host) -> Value {
    serde_json::from_str(&host.read(STATE)).expect("JSON")
}

fn change(host: &Host, change: impl FnOnce(&mut Value)) {
    let mut state = state(host);
    change(&mut state);
    host.put(STATE, state.to_string());
}

/// What is listed at this address.
fn listed(host: &Host, address: &str) -> Option<Value> {
    let members = state(host)["members"].as_object().cloned().unwrap_or_default();
    members.into_iter().map(|(_, member)| member).find(|member| member["address"] == address)
}

/// The host of the new member has started it.
fn started(host: &Host, address: &str) {
    change(host, |state| {
        for member in state["members"].as_object_mut().into_iter().flatten().map(|(_, member)| member) {
            if member["address"] == address {
                (member["name"], member["dead"]) = (json!("node2"), json!(false));
            }
        }
    });
}

fn peers() -> Vec<String> {
    vec!["https://10.0.0.2:2380".to_owned()]
}

fn add() -> Op {
    Act::from(MemberAdd { name: "node2".to_owned(), peers: peers() }).into()
}

fn promote() -> Op {
    Act::from(MemberPromote { name: "node2".to_owned(), peers: peers() }).into()
}

fn remove() -> Op {
    Act::from(MemberRemove { name: "node2".to_owned(), peers: peers() }).into()
}

fn satisfied(op: &Op, host: &Host) -> bool {
    dispatch::observe(op, &host.machine).expect("an observation").satisfied
}

fn text_of<T: std::fmt::Debug>(result: Result<T, OpError>) -> String {
    result.expect_err("it is refused").full()
}

#[test]
fn a_new_member_has_no_vote_before_it_has_started_and_caught_up() {
    let host = plane();
    assert!(!satisfied(&add(), &host) && !satisfied(&promote(), &host));
    dispatch::converge(&add(), &host.machine).expect("added");
    let member = listed(&host, "10.0.0.2").expect("a member");
    assert!(member["learner"] == true && member["name"] == "", "{member}");
    assert!(satisfied(&add(), &host) && !satisfied(&promote(), &host));
    dispatch::converge(&add(), &host.machine).expect("twice");
    let text = text_of(dispatch::converge(&promote(), &host.machine));
    assert!(text.contains("in sync with leader"), "{text}");
    started(&host, "10.0.0.2");
    dispatch::converge(&promote(), &host.machine).expect("promoted");
    assert!(satisfied(&promote(), &host) && satisfied(&add(), &host));
    // The rollback of both.
    dispatch::converge(&remove(), &host.machine).expect("removed");
    assert!(listed(&host, "10.0.0.2").is_none() && !satisfied(&add(), &host));
}

#[test]
fn a_member_that_never_starts_is_removed_again_and_nobody_else_is_added_before() {
    let host = plane();
    dispatch::converge(&add(), &host.machine).expect("added");
    let other = MemberAdd { name: "node3".to_owned(), peers: vec!["https://10.0.0.3:2380".to_owned()] };
    let text = text_of(dispatch::converge(&Act::from(other).into(), &host.machine));
    assert!(text.contains("one new member after the other") && text.contains("https://10.0.0.2:2380"), "{text}");
    assert!(listed(&host, "10.0.0.3").is_none());
    dispatch::converge(&remove(), &host.machine).expect("removed");
    let text = text_of(dispatch::converge(&promote(), &host.machine));
    assert!(text.contains("somebody has removed it"), "{text}");
}

#[test]
fn a_control_plane_without_a_member_asks_those_of_its_api_server() {
    let host = plane();
    for path in [etcd::ADMIN_CERT, etcd::ADMIN_KEY] {
        std::fs::remove_file(host.machine.path(path)).expect("it goes");
    }
    dispatch::converge(&add(), &host.machine).expect("added");
    started(&host, "10.0.0.2");
    let manifest = host.read(API_SERVER);
    assert!(manifest.contains("--etcd-servers=https://10.0.0.1:2379"), "{manifest}");
    // The first one does not answer.
    host.put(API_SERVER, manifest.replace("servers=", "servers=https://10.0.0.9:2379,"));
    dispatch::converge(&promote(), &host.machine).expect("promoted");
    assert_eq!(listed(&host, "10.0.0.2").expect("a member")["name"], "node2");
}

fn servers(last: &[u8]) -> Vec<String> {
    last.iter().map(|last| format!("https://10.0.0.{last}:2379")).collect()
}

fn asks(last: &[u8]) -> Op {
    EtcdServers { servers: servers(last), runtime: RuntimeKind::Containerd }.into()
}

#[test]
fn the_manifest_of_an_api_server_changes_in_one_line_and_back() {
    let host = plane();
    let before = host.read(API_SERVER);
    let found = dispatch::observe(&asks(&[1, 2]), &host.machine).expect("an observation");
    assert!(!found.satisfied && satisfied(&asks(&[1]), &host));
    dispatch::converge(&asks(&[1, 2]), &host.machine).expect("changed");
    let changed = host.read(API_SERVER);
    assert_eq!(changed, before.replace("=https://10.0.0.1:2379\n", "=https://10.0.0.1:2379,https://10.0.0.2:2379\n"));
    // kubeadm's config of the cluster is the changed one, and nothing counts as edited by hand.
    let facts = kubexm_ops::facts::collect(&host.machine, "node1").expect("facts");
    let config = facts.kubeadm_config_text.expect("the config of the cluster");
    assert_eq!(etcd::endpoints_of(&config), Some(servers(&[1, 2])));
    assert_eq!(facts.kubeadm_files.expect("kubeadm's files").changed, []);
    assert!(satisfied(&asks(&[1, 2]), &host));
    dispatch::converge(&asks(&[1, 2]), &host.machine).expect("twice");
    assert_eq!(host.read(API_SERVER), changed);
    for wave in Wave::ALL {
        dispatch::restore(&asks(&[1, 2]), &host.machine, &found, wave).expect("restored");
    }
    assert_eq!(host.read(API_SERVER), before);
    let facts = kubexm_ops::facts::collect(&host.machine, "node1").expect("facts");
    assert_eq!(etcd::endpoints_of(&facts.kubeadm_config_text.expect("the config")), Some(servers(&[1])));
    assert_eq!(facts.kubeadm_files.expect("kubeadm's files").changed, []);
}

#[test]
fn a_rollback_gives_kubeadms_config_its_own_list_and_not_that_of_the_manifest() {
    let host = plane();
    let (config, manifest) = ("/etc/kubexm/kubeadm.yaml", host.read(API_SERVER));
    // The order of the manifest is another one.
    host.put(
        API_SERVER,
        manifest.replace("=https://10.0.0.1:2379\n", "=https://10.0.0.9:2379,https://10.0.0.1:2379\n"),
    );
    let (before, manifest) = (host.read(config), host.read(API_SERVER));
    let found = dispatch::observe(&asks(&[1, 2]), &host.machine).expect("an observation");
    dispatch::converge(&asks(&[1, 2]), &host.machine).expect("changed");
    for wave in Wave::ALL {
        dispatch::restore(&asks(&[1, 2]), &host.machine, &found, wave).expect("restored");
    }
    assert_eq!((host.read(config), host.read(API_SERVER)), (before, manifest));
    assert!(kubexm_ops::facts::collect(&host.machine, "node1").expect("facts").kubeadm_config_text.is_some());
}

#[test]
fn a_config_that_somebody_has_edited_is_changed_and_stays_none_of_the_clusters() {
    let host = plane();
    let config = "/etc/kubexm/kubeadm.yaml";
    host.put(config, host.read(config) + "# mine\n");
    dispatch::converge(&asks(&[1, 2]), &host.machine).expect("changed");
    assert!(host.read(config).contains("- https://10.0.0.2:2379\n") && host.read(config).ends_with("# mine\n"));
    let facts = kubexm_ops::facts::collect(&host.machine, "node1").expect("facts");
    assert_eq!(facts.kubeadm_config_text, None);
}

#[test]
fn a_manifest_without_that_line_is_named_and_left_alone() {
    let host = plane();
    let edited = host.read(API_SERVER).replace("--etcd-servers=", "--others=");
    host.put(API_SERVER, &edited);
    assert!(!satisfied(&asks(&[1]), &host));
    let text = text_of(dispatch::converge(&asks(&[1]), &host.machine));
    assert!(text.contains(API_SERVER) && text.contains("--etcd-servers"), "{text}");
    assert_eq!(host.read(API_SERVER), edited);
}

const CONFIGURATION: &str = "apiServer: {}\netcd:\n  external:\n    caFile: /ca\n    endpoints:\n    - https://10.0.0.1:2379\n    keyFile: \
                             /key\nkind: ClusterConfiguration\n";

fn config_map(host: &Host) -> String {
    let document: Value =
        serde_json::from_str(state(host)["objects"]["ConfigMap/kubeadm-config"].as_str().expect("an object"))
            .expect("JSON");
    document["data"]["ClusterConfiguration"].as_str().expect("a text").to_owned()
}

#[test]
fn kubeadms_configuration_of_the_cluster_changes_in_its_list_alone() {
    let host = plane();
    let named = |last: &[u8]| Op::from(EtcdEndpoints { endpoints: servers(last) });
    let put = |text: &str| {
        let object = json!({"kind": "ConfigMap", "metadata": {"name": "kubeadm-config", "namespace": "kube-system"},
                            "data": {"ClusterConfiguration": text}});
        change(&host, |state| state["objects"]["ConfigMap/kubeadm-config"] = json!(object.to_string()));
    };
    // As that of a cluster with kubeadm's etcd.
    put("kind: ClusterConfiguration\netcd:\n  local: {}\n");
    let text = text_of(dispatch::converge(&named(&[1]), &host.machine));
    assert!(text.contains("etcd.external.endpoints") && text.contains("edit configmap kubeadm-config"), "{text}");
    put(CONFIGURATION);
    let found = dispatch::observe(&named(&[2, 3]), &host.machine).expect("an observation");
    assert!(!found.satisfied);
    dispatch::converge(&named(&[2, 3]), &host.machine).expect("changed");
    let wanted = CONFIGURATION
        .replace("    - https://10.0.0.1:2379\n", "    - https://10.0.0.2:2379\n    - https://10.0.0.3:2379\n");
    assert_eq!(config_map(&host), wanted);
    assert!(satisfied(&named(&[3, 2]), &host));
    for wave in Wave::ALL {
        dispatch::restore(&named(&[2, 3]), &host.machine, &found, wave).expect("restored");
    }
    assert_eq!(config_map(&host), CONFIGURATION);
}

#[test]
fn a_host_that_is_no_control_plane_has_nothing_to_restore() {
    let host = with_member();
    for op in [asks(&[1]), EtcdEndpoints { endpoints: servers(&[1]) }.into()] {
        let found = dispatch::observe(&op, &host.machine).expect("an observation");
        assert!(!found.satisfied);
        let none: NamedServers = found.state::<EtcdServers>().expect("a state");
        assert_eq!(none.servers, None);
        for wave in Wave::ALL {
            dispatch::restore(&op, &host.machine, &found, wave).expect("nothing to do");
        }
    }
}
