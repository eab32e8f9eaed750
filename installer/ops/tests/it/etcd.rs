//! A member of kubexm's own etcd on a host, beside what kubeadm does there.

use crate::backup::{archive, carry_out, key, phases_on, roll_back, with_key};
use crate::common::{Host, same};
use kubexm_ops::{Wave, cluster_facts, dispatch, etcd_check, probe};
use kubexm_plan::etcd_check::EtcdAsk;
use kubexm_plan::op::{Act, EtcdSnapshot, KubeadmInit, KubeadmReset, Op, RestoredHost, Unit};
use kubexm_plan::{Probe, etcd};
use serde_json::json;

const SOCKET: &str = "unix:///run/containerd/containerd.sock";
const CONFIG: &str = "---\nkind: InitConfiguration\nnodeRegistration:\n  name: node1\n---\nkind: ClusterConfiguration\netcd:\n  \
                      external:\n    endpoints:\n    - https://10.0.0.1:2379\n";
pub(crate) const API_SERVER: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";

/// A host with the files of a member, and those of the API server's access.
pub(crate) fn with_member() -> Host {
    let host = Host::fresh();
    host.ready_for_init();
    let interfaces = json!([{"name": "eth0", "addresses": ["10.0.0.1/24"], "mac": "02::1", "mtu": 1500}]);
    host.put("/run/kubexm-double/interfaces.json", interfaces.to_string());
    host.put("/etc/kubexm/kubeadm.yaml", CONFIG);
    host.put(etcd::CONFIG, "---\nname: node1\ndata-dir: /var/lib/etcd\n");
    for path in [
        etcd::CA,
        etcd::SERVER_CERT,
        etcd::SERVER_KEY,
        etcd::PEER_CERT,
        etcd::PEER_KEY,
        etcd::ADMIN_CERT,
        etcd::ADMIN_KEY,
        etcd::CLIENT_CA,
        etcd::CLIENT_CERT,
        etcd::CLIENT_KEY,
    ] {
        host.put(path, "pem");
    }
    host.unit(etcd::UNIT, "/usr/local/bin/etcd");
    host
}

fn unit(running: bool) -> Op {
    let loaded = vec![etcd::CONFIG.to_owned()];
    Unit { name: etcd::UNIT.to_owned(), enabled: running, running: Some(running), loaded, reloaded: Vec::new() }.into()
}

pub(crate) fn serve(host: &Host, running: bool) {
    dispatch::converge(&unit(running), &host.machine).expect("the unit");
}

fn healthy(host: &Host, name: &str) -> kubexm_plan::ProbeAnswer {
    let probe = Probe::EtcdMembersHealthy {
        members: [(name.to_owned(), "https://10.0.0.1:2379".to_owned())].into(),
        unnamed: false,
        ca: etcd::CA.to_owned(),
        certificate: etcd::ADMIN_CERT.to_owned(),
        key: etcd::ADMIN_KEY.to_owned(),
    };
    probe::look(&probe, &host.machine).expect("an answer")
}

pub(crate) fn init() -> Op {
    KubeadmInit {
        config: "/etc/kubexm/kubeadm.yaml".to_owned(),
        cri_socket: SOCKET.to_owned(),
        ignore: vec![],
        backup: None,
    }
    .into()
}

#[test]
fn a_member_is_healthy_once_it_runs_and_is_listed_by_its_name() {
    let host = with_member();
    let before = healthy(&host, "node1");
    assert!(!before.holds && before.seen.contains("Connection refused"), "{}", before.seen);
    serve(&host, true);
    assert!(healthy(&host, "node1").holds);
    let other = healthy(&host, "node2");
    assert!(!other.holds && other.seen.contains("does not list node2"), "{}", other.seen);
    std::fs::remove_file(host.machine.path(etcd::ADMIN_KEY)).expect("it goes");
    assert!(healthy(&host, "node1").seen.contains("client.key is not there"));
}

#[test]
fn kubeadm_beside_a_member_leaves_its_data_alone_and_its_reset_too() {
    let host = with_member();
    serve(&host, true);
    host.put("/var/lib/etcd/member/wal/0.wal", "log");
    dispatch::converge(&init(), &host.machine).expect("init");
    assert!(!host.machine.path("/etc/kubernetes/manifests/etcd.yaml").exists());
    // What the member writes meanwhile is nothing that kubeadm has left.
    host.put("/var/lib/etcd/member/wal/1.wal", "log");
    let reset = Op::from(Act::from(KubeadmReset { cri_socket: SOCKET.to_owned() }));
    dispatch::converge(&reset, &host.machine).expect("reset");
    for path in ["/var/lib/etcd/member/snap/db", "/var/lib/etcd/member/wal/1.wal"] {
        assert!(host.machine.path(path).is_file(), "{path} is gone");
    }
    assert!(!host.machine.path(API_SERVER).exists());
    assert!(healthy(&host, "node1").holds, "it stays a member");
    // Once more, as a resumed run does it.
    dispatch::converge(&init(), &host.machine).expect("init");
}

#[test]
fn an_init_that_was_killed_half_way_is_repeated_without_touching_the_member() {
    let host = with_member();
    serve(&host, true);
    host.put("/run/kubexm-double/kill-kubeadm-init", "");
    assert!(dispatch::converge(&init(), &host.machine).is_err());
    dispatch::converge(&init(), &host.machine).expect("init");
    assert!(host.machine.path("/var/lib/etcd/member/snap/db").is_file() && healthy(&host, "node1").holds);
}

/// A second member in etcd's list, on no host of the test.
fn other_member(host: &Host, dead: bool) {
    let path = host.machine.path("/run/kubexm-double/state.json");
    let mut state: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).expect("a state")).expect("JSON");
    state["members"]["99"] = json!({"name": "node2", "address": "10.0.0.2", "dead": dead});
    state["members"]["98"] = json!({"name": "node3", "address": "10.0.0.3", "dead": false});
    std::fs::write(path, state.to_string()).expect("written");
}

#[test]
fn a_member_is_not_restarted_while_another_one_is_down() {
    let host = with_member();
    serve(&host, true);
    host.put(etcd::FORMED, "id\n3.6.5\n");
    other_member(&host, true);
    host.put(etcd::CONFIG, "---\nname: node1\ndata-dir: /var/lib/etcd\nquota-backend-bytes: 1\n");
    let error = dispatch::converge(&unit(true), &host.machine).expect_err("a majority is lost").full();
    assert!(error.contains("without a majority") && error.contains("node2"), "{error}");
    other_member(&host, false);
    dispatch::converge(&unit(true), &host.machine).expect("restarted");
}

#[test]
fn a_rollback_does_not_restart_a_member_while_another_one_is_down_either() {
    let host = with_member();
    serve(&host, true);
    host.put(etcd::FORMED, "id\n3.6.5\n");
    other_member(&host, false);
    let before = dispatch::observe(&unit(true), &host.machine).expect("a look");
    let earlier = host.read(etcd::CONFIG);
    host.put(etcd::CONFIG, "---\nname: node1\ndata-dir: /var/lib/etcd\nquota-backend-bytes: 1\n");
    serve(&host, true);
    host.put(etcd::CONFIG, earlier);
    other_member(&host, true);
    let back = || dispatch::restore(&unit(true), &host.machine, &before, Wave::Start);
    let error = back().expect_err("a majority is lost").full();
    assert!(error.contains("without a majority") && error.contains("node2"), "{error}");
    other_member(&host, false);
    back().expect("restarted");
    assert!(dispatch::observe(&unit(true), &host.machine).expect("a look").satisfied);
}

const DATA: &str = "/var/lib/etcd/member/snap/db";

#[test]
fn a_restored_member_is_stopped_for_boots_too_and_starts_with_a_record_of_its_start() {
    for on in [RestoredHost::Member, RestoredHost::ApiServerAndMember] {
        let host = with_member();
        serve(&host, true);
        dispatch::converge(&init(), &host.machine).expect("init");
        host.put(etcd::FORMED, "id\n3.6.5\n");
        for program in ["etcdctl", "etcdutl"] {
            host.put(&format!("/usr/local/bin/{program}"), "#!/bin/true\n");
        }
        host.put(DATA, "the objects of before");
        let key = key();
        let digest = host.blob(archive(&host, &key));
        host.put(DATA, "written since");
        let (before, machine, ops) = (host.tree(), with_key(&host, &key), phases_on(digest, on));
        let link = host.machine.path("/etc/systemd/system/multi-user.target.wants/kubexm-etcd.service");
        // The unit runs: nothing is moved from under it.
        let early = dispatch::converge(&ops[1], &machine).expect_err("the member runs").full();
        assert!(
            early.contains("kubexm-etcd.service runs on this host") && host.read(DATA) == "written since",
            "{early}"
        );
        let mut found = carry_out(&ops[..1], &machine);
        assert!(!healthy(&host, "node1").holds && link.symlink_metadata().is_err(), "{on:?}");
        assert_eq!(host.machine.path(API_SERVER).is_file(), on == RestoredHost::Member, "{on:?}");
        found.extend(carry_out(&ops[1..], &machine));
        assert_eq!(host.read(DATA), "the objects of before");
        assert!(healthy(&host, "node1").holds && link.symlink_metadata().is_ok(), "{on:?}");
        assert!(host.machine.path(API_SERVER).is_file());
        assert!(dispatch::observe(&unit(true), &host.machine).expect("a look").satisfied, "a create would restart it");
        roll_back(&ops, &found, &machine);
        same(&before, &host.tree(), &format!("a rollback, {on:?}"));
        assert!(dispatch::observe(&unit(true), &host.machine).expect("a look").satisfied, "{on:?}");
    }
}

#[test]
fn an_api_server_without_a_member_stops_for_a_restore_and_comes_back() {
    let host = with_member();
    serve(&host, true);
    dispatch::converge(&init(), &host.machine).expect("init");
    let [stop, _, start] = phases_on(kubexm_spec::Digest::of("none"), RestoredHost::ApiServer);
    // It needs no etcdutl.
    host.put("/run/kubexm-double/old-etcdutl", "");
    carry_out(&[stop], &host.machine);
    assert!(!host.machine.path(API_SERVER).exists() && healthy(&host, "node1").holds);
    carry_out(&[start], &host.machine);
    assert!(host.machine.path(API_SERVER).is_file());
}

#[test]
fn status_and_snapshots_ask_the_members_that_the_api_server_is_told() {
    let host = with_member();
    serve(&host, true);
    dispatch::converge(&init(), &host.machine).expect("init");
    let flags = [
        ("etcd-servers", "https://10.0.0.9:2379,https://10.0.0.1:2379"),
        ("etcd-cafile", etcd::CLIENT_CA),
        ("etcd-certfile", etcd::CLIENT_CERT),
        ("etcd-keyfile", etcd::CLIENT_KEY),
    ];
    let manifest: String = flags.iter().map(|(name, value)| format!("    - --{name}={value}\n")).collect();
    host.put(API_SERVER, manifest);
    let facts = cluster_facts::collect(&host.machine, "node1");
    let members: Vec<_> = facts.etcd.iter().map(|member| (member.name.as_str(), member.healthy)).collect();
    assert_eq!(members, [("node1", true)], "{:?}", facts.gaps);
    // The first that is told does not answer: the next one is asked.
    for program in ["etcdctl", "etcdutl"] {
        host.put(&format!("/usr/local/bin/{program}"), "#!/bin/true\n");
    }
    let snapshot = EtcdSnapshot { name: "before".to_owned() };
    dispatch::converge(&Op::from(snapshot.clone()), &host.machine).expect("a snapshot");
    assert!(host.machine.path(snapshot.path()).is_file());
    serve(&host, false);
    let error = dispatch::converge(&Op::from(EtcdSnapshot { name: "after".to_owned() }), &host.machine);
    let error = error.expect_err("there is no member").full();
    assert!(error.contains("no member of etcd that this host asks is healthy"), "{error}");
}

#[test]
fn an_etcd_is_asked_for_versions_members_and_keys_without_a_file_on_the_host() {
    let host = with_member();
    let ask = |endpoints: &[&str]| {
        let ask = EtcdAsk {
            endpoints: endpoints.iter().map(|one| (*one).to_owned()).collect(),
            ca: "pem".to_owned(),
            certificate: "pem".to_owned(),
            prefix: "/registry".to_owned(),
            of: None,
            as_api_server: false,
        };
        etcd_check::ask(&host.machine, &ask, b"key")
    };
    let nobody = ask(&["https://10.0.0.1:2379"]);
    assert!(nobody.endpoints[0].trouble.as_deref().is_some_and(|why| why.contains("Connection refused")));
    assert_eq!((nobody.keys, nobody.members, nobody.why), (None, None, None));
    serve(&host, true);
    let found = ask(&["https://10.0.0.9:2379", "https://10.0.0.1:2379"]);
    assert_eq!(found.endpoints[0].version, None);
    let one = &found.endpoints[1];
    let version = one.version.as_deref();
    assert_eq!((version, one.cluster.as_deref(), &one.trouble), (Some("3.6.5"), Some("77"), &None));
    assert_eq!((found.keys, found.members.map(|members| members.len()), found.why), (Some(0), Some(1), None));
    dispatch::converge(&init(), &host.machine).expect("init");
    assert!(ask(&["https://10.0.0.1:2379"]).keys.is_some_and(|keys| keys > 0));
}
