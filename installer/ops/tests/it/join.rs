//! Hosts that join a cluster and leave it again, with the real ops on directories that share one cluster.

#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{Host, same};
use crate::fleet::{Fleet, SOCKET, act, init, reset, satisfied, slot, text_of};
use kubexm_ops::{Wave, dispatch, provide, step};
use kubexm_plan::kubeadm_certificates::SHARED;
use kubexm_plan::op::{Content, File, KubeadmJoin, KubeadmReset, Kubeconfig, NodeDelete, NodeLabel, NodeLookup, Op};
use kubexm_plan::request::KUBELET_CONF;
use kubexm_plan::{SlotProvider, Step, Undo};

const CONFIG: &str = "/run/kubexm/kubeadm-join.yaml";

fn holds(root: &Path, needle: &str) -> Vec<String> {
    let files = walkdir::WalkDir::new(root).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    let found = files.filter(|entry| {
        std::fs::read(entry.path()).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(needle))
    });
    found.map(|entry| entry.path().display().to_string()).collect()
}

#[test]
fn a_worker_and_a_control_plane_join_and_a_second_run_has_nothing_to_do() {
    let fleet = Fleet::with_init(3);
    for (number, control_plane) in [(2, true), (3, false)] {
        let machine = fleet.ready(number);
        assert!(!satisfied(&act(number, control_plane), &fleet.hosts[number - 1].machine));
        dispatch::converge(&act(number, control_plane), &machine).expect("join");
        // Without a slot's value.
        assert!(satisfied(&act(number, control_plane), &fleet.hosts[number - 1].machine));
    }
    assert_eq!(fleet.nodes(), ["node1", "node2", "node3"]);
    assert_eq!(fleet.members(), ["node1", "node2"]);
    let kubeconfig = Op::from(Kubeconfig { user: "root".into(), replaces: None });
    dispatch::converge(&kubeconfig, &fleet.hosts[1].machine).expect("a kubeconfig on the second control plane");
    assert!(satisfied(&kubeconfig, &fleet.hosts[1].machine));
}

#[test]
fn a_tokens_secret_is_on_no_disk_once_the_join_has_ended_well_or_not() {
    let fleet = Fleet::with_init(2);
    let machine = fleet.ready(2);
    let token =
        provide::value(&SlotProvider::JoinToken { host: "node1".into() }, &fleet.hosts[0].machine).expect("one");
    let token = String::from_utf8(token).expect("text");
    let wrong = BTreeMap::from([
        (slot("token"), "aaaaaa.0123456789abcdef".into()),
        (slot("hash"), b"sha256:00".to_vec()),
        (slot("key"), b"00".to_vec()),
    ]);
    let text = text_of(dispatch::converge(&act(2, true), &machine.with_slots(wrong)));
    assert!(text.contains("no such token (secret)") && !text.contains("0123456789abcdef"), "{text}");
    assert!(!machine.path(CONFIG).exists());
    dispatch::converge(&act(2, true), &machine).expect("join");
    assert!(!machine.path(CONFIG).exists());
    for host in &fleet.hosts {
        assert_eq!(holds(host.machine.root(), &token), Vec::<String>::new());
        assert_eq!(holds(host.machine.root(), "certificateKey: \"").iter().filter(|p| p.contains("/run/")).count(), 0);
    }
}

#[test]
fn values_that_kubeadm_makes_for_slots_are_new_each_time() {
    let fleet = Fleet::with_init(1);
    let make = |provider| {
        let value = provide::value(&provider, &fleet.hosts[0].machine).expect("a value");
        String::from_utf8(value).expect("text")
    };
    let host = || "node1".to_owned();
    let token = make(SlotProvider::JoinToken { host: host() });
    let (id, secret) = token.split_once('.').expect("a dot");
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    assert!(id.len() == 6 && secret.len() == 16 && plain(id) && plain(secret), "{id}");
    assert_ne!(token, make(SlotProvider::JoinToken { host: host() }));
    let key = make(SlotProvider::UploadKey { host: host() });
    assert_eq!(fleet.state()["certificateKey"], key.as_str());
    assert_ne!(key, make(SlotProvider::UploadKey { host: host() }));
    // As `openssl x509 -pubkey | openssl pkey -pubin -outform der | sha256sum` says of the fake's CA.
    let hash = make(SlotProvider::CaCertHash { host: host() });
    assert_eq!(hash, "sha256:5b19a756a0e4b17e84d1a4afd7145914725861545f22723b8af0baefca9ca74b");
    let nothing = Host::fresh();
    let text = provide::value(&SlotProvider::JoinToken { host: host() }, &nothing.machine).expect_err("none").full();
    assert!(text.contains("admin.conf is not on node1"), "{text}");
}

#[test]
fn what_control_planes_share_is_read_on_one_and_nothing_else_is() {
    let fleet = Fleet::with_init(1);
    let read = |path: &str| {
        let provider = SlotProvider::SharedFile { host: "node1".to_owned(), path: path.to_owned() };
        provide::value(&provider, &fleet.hosts[0].machine)
    };
    for path in SHARED {
        assert!(read(path).expect(path).starts_with(b"-----BEGIN "), "{path}");
    }
    for path in ["/etc/kubernetes/pki/ca.key", "/etc/shadow", "/etc/kubernetes/admin.conf"] {
        assert!(read(path).expect_err(path).full().contains("is not shared"), "{path}");
    }
}

/// Credentials that a site's CA has signed lie there before a join, and are no node of anybody's.
#[test]
fn a_kubeconfig_that_was_given_before_a_join_is_no_sign_of_a_node() {
    let mut fleet = Fleet::with_init(2);
    let text = fleet.hosts[1].text("given\n");
    let host = &fleet.hosts[1];
    host.put("/var/lib/kubexm/stamp.json", "{\"cluster\": \"demo\", \"run\": \"r\"}");
    let file = File { path: KUBELET_CONF.to_owned(), content: Content::Text { digest: text }, mode: 0o600 };
    let given = Step::on("node2", "join.certificates", "Give").ensure(file).undo(Undo::RestoreBefore).build();
    let before = step::observe(&given, &host.machine).expect("a look");
    step::converge(&given, &host.machine, "r", 1, &before).expect("given");
    let joined = || kubexm_ops::facts::collect(&host.machine, "node2").expect("facts").joined;
    assert!(!joined());
    let Op::Act(act) = act(2, false) else { panic!("an act") };
    let kubexm_plan::Act::KubeadmJoin(join) = act else { panic!("a join") };
    let ignore = vec!["FileAvailable--etc-kubernetes-kubelet.conf".to_owned()];
    let join = Op::from(KubeadmJoin { ignore, ..join });
    dispatch::converge(&join, &fleet.ready(2)).expect("joined");
    assert!(joined() && satisfied(&join, &host.machine));
    assert_eq!(host.read(KUBELET_CONF), "given\n", "kubeadm keeps what is there");
    let reset = Op::from(KubeadmReset { cri_socket: SOCKET.into() });
    dispatch::converge(&reset, &host.machine).expect("reset");
    assert!(!joined() && satisfied(&reset, &host.machine));
    assert_eq!(host.read(KUBELET_CONF), "given\n", "the undo of its step removes it");
}

/// The network's own file says which routes are its, and lies in a folder that goes with the join.
#[test]
fn the_rollback_of_a_join_takes_routes_to_pods_of_other_nodes() {
    let fleet = Fleet::with_init(2);
    let host = &fleet.hosts[1];
    let theirs = "10.99.0.0/16 via 10.77.0.9 dev eth0 \n";
    dispatch::converge(&act(2, false), &fleet.ready(2)).expect("joined");
    host.put("/run/flannel/subnet.env", "FLANNEL_NETWORK=10.233.64.0/18\n");
    host.put("/run/kubexm-double/ip-routes", format!("10.233.65.0/24 via 10.77.0.11 dev eth0 \n{theirs}"));
    dispatch::converge(&Op::from(KubeadmReset { cri_socket: SOCKET.into() }), &host.machine).expect("reset");
    assert_eq!(host.read("/run/kubexm-double/ip-routes"), theirs);
    assert!(!host.machine.path("/run/flannel/subnet.env").exists());
}

/// A run of before the adoption may go on.
#[test]
fn nothing_is_made_for_a_join_to_a_cluster_that_was_adopted() {
    let fleet = Fleet::with_init(1);
    let (first, host, before) = (&fleet.hosts[0], || "node1".to_owned(), fleet.state());
    for (stamp, said) in [
        ("{\"cluster\": \"theirs\", \"run\": \"\", \"adopted\": true}", "was adopted"),
        ("{\"cluster\": ", "cannot be read"),
    ] {
        first.put("/var/lib/kubexm/stamp.json", stamp);
        for provider in [SlotProvider::JoinToken { host: host() }, SlotProvider::UploadKey { host: host() }] {
            let text = provide::value(&provider, &first.machine).expect_err("it was made").full();
            assert!(text.contains(said), "{text}");
        }
    }
    assert_eq!(fleet.state(), before);
}

#[test]
fn a_killed_join_is_cleaned_up_with_its_member_and_repeated() {
    for control_plane in [false, true] {
        let fleet = Fleet::with_init(2);
        let machine = fleet.ready(2);
        machine_put(&fleet.hosts[1], "kill-kubeadm-join");
        assert!(text_of(dispatch::converge(&act(2, control_plane), &machine)).contains("killed half-way"));
        assert!(!satisfied(&act(2, control_plane), &machine));
        dispatch::converge(&act(2, control_plane), &machine).expect("the second try");
        assert!(satisfied(&act(2, control_plane), &machine));
        assert_eq!(fleet.members().len(), if control_plane { 2 } else { 1 }, "{:?}", fleet.members());
    }
}

fn machine_put(host: &Host, name: &str) {
    host.put(&format!("/run/kubexm-double/{name}"), "");
}

#[test]
fn a_member_that_has_just_joined_is_removed_once_etcd_allows_it() {
    let fleet = Fleet::with_init(2);
    dispatch::converge(&act(2, true), &fleet.ready(2)).expect("joined");
    fleet.hosts[1].put("/run/kubexm-double/etcd-unsettled", "");
    dispatch::converge(&reset(), &fleet.hosts[1].machine).expect("reset");
    assert_eq!(fleet.members(), ["node1"]);
}

#[test]
fn a_member_that_cannot_be_removed_stops_the_undo_before_anything_is_deleted() {
    let fleet = Fleet::with_init(2);
    dispatch::converge(&act(2, true), &fleet.ready(2)).expect("join");
    // Two members, one of them dead: no quorum. The one that stays up is asked, and cannot.
    fleet.systems[1].kill_member("node2").expect("dead");
    let text = text_of(dispatch::converge(&reset(), &fleet.hosts[1].machine));
    assert!(
        text.contains("member") && text.contains("no quorum") && text.contains("exec etcd-node1 -- etcdctl"),
        "{text}"
    );
    assert!(fleet.hosts[1].machine.path("/etc/kubernetes/admin.conf").exists());
    assert!(!satisfied(&reset(), &fleet.hosts[1].machine));
}

#[test]
fn a_fleet_that_is_taken_down_from_the_last_host_to_the_first_leaves_no_member_and_no_node() {
    let fleet = Fleet::with_init(3);
    let before: Vec<_> = fleet.hosts[1..].iter().map(Host::tree).collect();
    dispatch::converge(&act(2, true), &fleet.ready(2)).expect("a control plane");
    dispatch::converge(&act(3, false), &fleet.ready(3)).expect("a worker");
    for number in [3, 2] {
        let host = &fleet.hosts[number - 1].machine;
        dispatch::converge(&reset(), host).expect("reset");
        assert!(satisfied(&reset(), host));
        let delete = Op::from(NodeDelete { node: format!("node{number}") });
        assert!(!satisfied(&delete, &fleet.hosts[0].machine));
        dispatch::converge(&delete, &fleet.hosts[0].machine).expect("deleted");
        dispatch::converge(&delete, &fleet.hosts[0].machine).expect("twice");
        assert!(satisfied(&delete, &fleet.hosts[0].machine));
    }
    assert_eq!(fleet.members(), ["node1"]);
    assert_eq!(fleet.nodes(), ["node1"]);
    dispatch::converge(&reset(), &fleet.hosts[0].machine).expect("reset");
    assert!(fleet.nodes().is_empty() && fleet.members().is_empty());
    // Its own control plane is gone: there is nobody to ask, and nothing to delete.
    assert!(satisfied(&NodeDelete { node: "node2".into() }.into(), &fleet.hosts[0].machine));
    for (before, host) in before.iter().zip(&fleet.hosts[1..]) {
        let mut after = host.tree();
        // kubeadm and kubelet empty these and leave them: a StateDir rolls them back.
        let left = ["etc/kubernetes", "var/lib/etcd", "var/lib/kubelet"];
        after.retain(|path, _| !left.iter().any(|folder| path.starts_with(folder)));
        same(before, &after, "a joined host");
    }
}

#[test]
fn somebody_elses_node_is_neither_joined_nor_reset_nor_rolled_back_by_an_undo() {
    let fleet = Fleet::with_init(2);
    let host = &fleet.hosts[1];
    host.put("/etc/kubernetes/kubelet.conf", "theirs");
    let text = text_of(dispatch::converge(&act(2, false), &fleet.ready(2)));
    assert!(text.contains("that kubexm did not join") && text.contains("/etc/kubernetes/kubelet.conf"), "{text}");
    assert!(text_of(dispatch::converge(&reset(), &host.machine)).contains("that kubexm did not install"));
    let step = joining(2);
    let before = step::observe(&step, &host.machine).expect("a look");
    step::converge(&step, &fleet.ready(2), "r1", 1, &before).expect_err("refused");
    for wave in Wave::ALL {
        step::undo(&step, &host.machine, "r1", 1, &before, wave).expect("nothing to roll back");
    }
    assert_eq!(host.read("/etc/kubernetes/kubelet.conf"), "theirs");
}

fn joining(number: usize) -> Step {
    let Op::Act(join) = act(number, false) else { unreachable!("an act") };
    Step::on(&format!("node{number}"), "worker.join", "Join")
        .ensure(join)
        .undo(Undo::Act { act: KubeadmReset { cri_socket: SOCKET.into() }.into() })
        .build()
}

#[test]
fn a_join_is_rolled_back_in_any_state_and_once_more_after_a_kill() {
    for killed in [false, true] {
        let fleet = Fleet::with_init(2);
        let host = &fleet.hosts[1];
        let step = joining(2);
        let before = step::observe(&step, &host.machine).expect("a look");
        if killed {
            machine_put(host, "kill-kubeadm-join");
        }
        let result = step::converge(&step, &fleet.ready(2), "r1", 1, &before);
        assert_eq!(result.is_err(), killed);
        for _ in 0..2 {
            for wave in Wave::ALL {
                step::undo(&step, &host.machine, "r1", 1, &before, wave).expect("undone");
            }
            assert!(!host.machine.path("/etc/kubernetes/kubelet.conf").exists());
            assert_eq!(step::observe(&step, &host.machine).expect("a look"), before);
        }
    }
}

#[test]
fn a_node_that_was_there_before_the_run_survives_the_undo_of_its_step() {
    let fleet = Fleet::with_init(2);
    let host = &fleet.hosts[1];
    let step = joining(2);
    dispatch::converge(&act(2, false), &fleet.ready(2)).expect("joined by an earlier run");
    let before = step::observe(&step, &host.machine).expect("a look");
    for wave in Wave::ALL {
        step::undo(&step, &host.machine, "r2", 1, &before, wave).expect("nothing to roll back");
    }
    assert!(host.machine.path("/etc/kubernetes/kubelet.conf").exists());
}

#[test]
fn a_joined_node_whose_kubelet_was_stopped_gets_it_started_and_one_that_lost_its_config_is_left_alone() {
    let fleet = Fleet::with_init(2);
    let machine = fleet.ready(2);
    dispatch::converge(&act(2, false), &machine).expect("join");
    machine.run(&kubexm_ops::system::Program::new("systemctl").args(["stop", "kubelet.service"])).expect("stopped");
    assert!(!satisfied(&act(2, false), &machine));
    dispatch::converge(&act(2, false), &machine).expect("started");
    assert!(satisfied(&act(2, false), &machine));
    std::fs::remove_file(machine.path("/etc/kubernetes/kubelet.conf")).expect("taken away by hand");
    fleet.hosts[1].put("/var/lib/kubelet/pods/x", "what users run");
    let text = text_of(dispatch::converge(&act(2, false), &machine));
    assert!(text.contains("/etc/kubernetes/kubelet.conf is missing"), "{text}");
    assert_eq!(fleet.hosts[1].read("/var/lib/kubelet/pods/x"), "what users run");
}

#[test]
fn a_label_of_a_node_that_an_undo_has_deleted_already_stops_no_second_undo() {
    let fleet = Fleet::with_init(2);
    dispatch::converge(&act(2, false), &fleet.ready(2)).expect("join");
    let first = &fleet.hosts[0].machine;
    let label = Op::from(NodeLabel { node: "node2".into(), key: "zone".into(), value: "a".into() });
    let before = dispatch::observe(&label, first).expect("a look");
    dispatch::converge(&label, first).expect("labelled");
    dispatch::converge(&NodeDelete { node: "node2".into() }.into(), first).expect("deleted");
    dispatch::restore(&label, first, &before, Wave::Stop).expect("nothing to restore");
}

#[test]
fn a_node_that_a_failed_join_left_is_deleted_from_a_control_plane_and_one_that_was_there_before_is_not() {
    let awaiting = Step::on("node1", "join.await-node2", "Look up node node2")
        .ensure(NodeLookup { node: "node2".into() })
        .undo(Undo::Act { act: NodeDelete { node: "node2".into() }.into() })
        .build();
    let undo = |fleet: &Fleet, before: &[kubexm_plan::ObservedState]| {
        for wave in Wave::ALL {
            step::undo(&awaiting, &fleet.hosts[0].machine, "r1", 1, before, wave).expect("undone");
        }
    };
    let fleet = Fleet::with_init(2);
    let first = &fleet.hosts[0].machine;
    let before = step::observe(&awaiting, first).expect("a look");
    step::converge(&awaiting, first, "r1", 1, &before).expect("awaited");
    assert!(step::observe(&awaiting, first).expect("a look")[0].satisfied, "nobody could await a node otherwise");
    // kubelet has registered, and the step that labels the node has not begun.
    dispatch::converge(&act(2, false), &fleet.ready(2)).expect("join");
    dispatch::converge(&reset(), &fleet.hosts[1].machine).expect("the join is rolled back");
    assert_eq!(fleet.nodes(), ["node1", "node2"], "kubeadm reset leaves the object");
    undo(&fleet, &before);
    assert_eq!(fleet.nodes(), ["node1"]);
    assert_eq!(step::observe(&awaiting, first).expect("a look"), before, "it is awaited no more");

    dispatch::converge(&act(2, false), &fleet.ready(2)).expect("joined by an earlier run");
    let before = step::observe(&awaiting, first).expect("a look");
    assert!(before[0].satisfied, "nothing is to be done for a node that is there");
    undo(&fleet, &before);
    assert_eq!(fleet.nodes(), ["node1", "node2"], "what an earlier run made is not this one's to delete");
}

#[test]
fn an_unreadable_record_of_an_init_or_a_join_is_refused_by_name_and_its_own_half_done_one_is_never_taken_for_foreign() {
    let damaged_text = "{\"endedWell\":fal";
    for (number, path) in [(1, "/var/lib/kubexm/acts/kubeadm-init.json"), (2, "/var/lib/kubexm/acts/kubeadm-join.json")]
    {
        let fleet = Fleet::with_init(2);
        dispatch::converge(&act(2, false), &fleet.ready(2)).expect("join");
        let (host, machine) = (&fleet.hosts[number - 1], fleet.ready(number));
        let own = if number == 1 { init() } else { act(2, false) };
        let readable = host.read(path);
        let tree =
            || host.tree().into_iter().filter(|(path, _)| path.starts_with("etc/kubernetes")).collect::<Vec<_>>();
        for damaged in ["", damaged_text, "{\"endedWell\":true,\"config\":null,\"later\":1}"] {
            host.put(path, damaged);
            let before = tree();
            let refused = [dispatch::observe(&own, &machine).map(drop), dispatch::converge(&own, &machine)];
            for text in refused.map(text_of) {
                assert!(
                    text.contains(path) && text.contains("cannot be read") && text.contains("write it anew"),
                    "{text}"
                );
            }
            assert_eq!(host.read(path), damaged);
            assert_eq!(tree(), before, "something was removed");
            let fact = kubexm_ops::facts::collect(&machine, "node").expect("facts").unreadable_mark.expect("a fact");
            assert!(fact.contains(path), "{fact}");
        }
        // As the text says, for a node that works.
        host.put(path, "{\"endedWell\": true, \"config\": null}");
        assert!(satisfied(&own, &machine));
        // A reset must be possible: without a ledger that says what was there before, it stops before it removes anything.
        host.put(path, damaged_text);
        let before = tree();
        let text = text_of(dispatch::converge(&reset(), &machine));
        assert!(text.contains("no record of what was in kubeadm's folders") && tree() == before, "{text}");
        host.put(path, readable);
        dispatch::converge(&reset(), &machine).expect("reset");
    }
}
