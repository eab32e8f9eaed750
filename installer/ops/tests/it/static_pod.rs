//! kube-apiserver reads its audit files when it starts, and then never again; a proxy reads its configuration on a signal.

#![allow(clippy::expect_used, clippy::panic, reason = "the arrangement of a test: a fault here is a fault of the test")]

use kubexm_ops::fake::RootedSystem;
use kubexm_ops::{Wave, dispatch};
use kubexm_plan::ObservedState;
use kubexm_plan::op::{KubeadmInit, Op, PodReady, StaticPodStarted, StaticPodState};
use kubexm_spec::Digest;
use kubexm_spec::cluster::RuntimeKind;

use crate::common::Host;

const POLICY: &str = "/etc/kubexm/audit/policy.yaml";
const RECORD: &str = "/var/lib/kubexm/units/kube-apiserver.json";
const STATE: &str = "/run/kubexm-double/state.json";

fn op() -> Op {
    StaticPodStarted {
        pod: "kube-apiserver".to_owned(),
        after: vec![POLICY.to_owned()],
        reloaded: Vec::new(),
        runtime: RuntimeKind::Containerd,
        ready: PodReady::ApiServer,
    }
    .into()
}

/// A control plane that kubeadm has made with the policy `first`.
fn control_plane() -> Host {
    let host = Host::fresh();
    host.ready_for_init();
    host.put(POLICY, "first");
    let flag = format!("  - name: audit-policy-file\n    value: {POLICY}\n");
    host.put("/etc/kubexm/kubeadm.yaml", format!("nodeRegistration:\n  name: node1\napiServer:\n  extraArgs:\n{flag}"));
    let (config, cri_socket) = ("/etc/kubexm/kubeadm.yaml".into(), "unix:///run/containerd/containerd.sock".to_owned());
    let init = Op::from(KubeadmInit { config, cri_socket, ignore: vec![], backup: None });
    dispatch::converge(&init, &host.machine).expect("kubeadm init");
    host
}

fn fake(host: &Host) -> RootedSystem {
    RootedSystem::new(host.machine.root())
}

/// The policy that the running API server has.
fn has(host: &Host, policy: &str) -> bool {
    let read = fake(host).read_by_api_server().expect("a state").expect("an API server");
    read.get(POLICY) == Some(&Digest::of(policy))
}

fn observe(host: &Host) -> (ObservedState, StaticPodState) {
    let found = dispatch::observe(&op(), &host.machine).expect("a look");
    let state = found.state::<StaticPodStarted>().expect("a state");
    (found, state)
}

fn converge(host: &Host) {
    dispatch::converge(&op(), &host.machine).unwrap_or_else(|error| panic!("{}", error.full()));
}

fn restore(host: &Host, before: &ObservedState) {
    for wave in Wave::ALL {
        dispatch::restore(&op(), &host.machine, before, wave).unwrap_or_else(|error| panic!("{}", error.full()));
    }
}

/// The clock was set back since the container was created, or the file is of a time that has not come yet.
fn created_in_1970(host: &Host) {
    let mut state: serde_json::Value = serde_json::from_str(&host.read(STATE)).expect("a state");
    state["apiServer"]["started"] = 1.into();
    host.put(STATE, state.to_string());
}

#[test]
fn what_kubeadm_has_just_started_is_left_alone_and_nothing_is_recorded() {
    let host = control_plane();
    let before = host.traces();
    assert!(observe(&host).0.satisfied);
    crate::common::same(&before, &host.traces(), "a look");
    assert!(has(&host, "first") && !host.machine.path(RECORD).exists());
}

#[test]
fn a_changed_file_has_no_effect_until_the_pod_is_restarted_and_then_nothing_is_left_to_do() {
    let host = control_plane();
    let (_, first) = observe(&host);
    host.put(POLICY, "second");
    assert!(has(&host, "first"), "the API server would have noticed by itself, and this op were not needed");
    let (found, state) = observe(&host);
    assert!(!found.satisfied && !state.current && state.container == first.container);

    converge(&host);
    let (found, restarted) = observe(&host);
    assert!(has(&host, "second") && found.satisfied && restarted.container != first.container);
    converge(&host);
    assert_eq!(observe(&host).1.container, restarted.container, "restarted for nothing");
}

#[test]
fn a_rollback_restarts_it_with_the_files_that_came_back() {
    let host = control_plane();
    host.put(POLICY, "second");
    let (before, _) = observe(&host);
    converge(&host);
    host.put(POLICY, "first");
    restore(&host, &before);
    assert!(has(&host, "first") && observe(&host).0.satisfied && !host.machine.path(RECORD).exists());
    let (_, state) = observe(&host);
    restore(&host, &before);
    assert_eq!(observe(&host).1.container, state.container, "a rollback that is resumed restarts nothing again");
}

#[test]
fn a_rollback_leaves_a_pod_alone_that_was_never_restarted() {
    let host = control_plane();
    let (_, first) = observe(&host);
    host.put(POLICY, "second");
    let (before, _) = observe(&host);
    host.put(POLICY, "first");
    restore(&host, &before);
    assert!(has(&host, "first"));
    assert_eq!(observe(&host).1.container, first.container);
}

#[test]
fn a_rollback_of_the_whole_control_plane_awaits_no_pod() {
    let host = control_plane();
    let (before, state) = observe(&host);
    assert!(state.container.is_some());
    std::fs::remove_file(host.machine.path("/etc/kubernetes/manifests/kube-apiserver.yaml")).expect("gone");
    restore(&host, &before);
    assert!(observe(&host).1.container.is_none());
}

#[test]
fn a_file_that_the_api_server_does_not_start_with_fails_soon_and_a_rollback_brings_it_up_again() {
    let host = control_plane();
    host.put(POLICY, "unreadable");
    let (before, _) = observe(&host);
    let error = dispatch::converge(&op(), &host.machine).expect_err("it cannot start").full();
    for part in [POLICY, "/var/log/pods/kube-system_kube-apiserver-", "ends again and again"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(fake(&host).read_by_api_server().expect("a state").is_none());
    host.put(POLICY, "first");
    restore(&host, &before);
    assert!(has(&host, "first"));
}

#[test]
fn a_clock_that_was_set_back_costs_one_restart_and_no_more() {
    let host = control_plane();
    created_in_1970(&host);
    assert!(!observe(&host).0.satisfied);
    converge(&host);
    let (_, restarted) = observe(&host);
    created_in_1970(&host);
    let (found, state) = observe(&host);
    assert!(found.satisfied && state.container == restarted.container, "what we recorded counts, not the clock");
}

#[test]
fn a_file_that_is_changed_and_changed_back_needs_no_restart() {
    let host = control_plane();
    host.put(POLICY, "second");
    converge(&host);
    host.put(POLICY, "third");
    assert!(!observe(&host).0.satisfied);
    host.put(POLICY, "second");
    assert!(observe(&host).0.satisfied);
}

#[test]
fn a_pod_that_crashed_after_the_change_has_read_it_already() {
    let host = control_plane();
    host.put(POLICY, "second");
    converge(&host);
    host.put(POLICY, "third");
    fake(&host).crash_api_server().expect("another container");
    assert!(has(&host, "third") && observe(&host).0.satisfied);
}

#[test]
fn a_file_that_the_manifest_does_not_name_is_refused_and_nothing_is_restarted() {
    let host = control_plane();
    host.put("/etc/kubernetes/manifests/kube-apiserver.yaml", "double: static pod kube-apiserver\n");
    let (found, state) = observe(&host);
    assert!(!found.satisfied);
    let error = dispatch::converge(&op(), &host.machine).expect_err("it would have no effect").full();
    for part in ["does not read", POLICY, "/etc/kubernetes/manifests/kube-apiserver.yaml", "restore them"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(observe(&host).1.container, state.container);
}

/// As with kubespray's link from kubeadm's folder of certificates to its own.
#[test]
fn a_file_that_the_manifest_names_where_a_link_leads_is_read() {
    let host = control_plane();
    let before = observe(&host).1.container;
    let [folder, real] = ["/etc/kubexm/audit", "/etc/theirs"].map(|path| host.machine.path(path));
    std::fs::rename(&folder, &real).expect("moved");
    let manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml";
    host.put(manifest, host.read(manifest).replace("/etc/kubexm/audit", "/etc/theirs"));
    let refused = dispatch::converge(&op(), &host.machine).expect_err("nothing leads there").full();
    assert!(refused.contains("does not read"), "{refused}");
    std::os::unix::fs::symlink(&real, &folder).expect("a link");
    host.put("/etc/theirs/policy.yaml", "second");
    converge(&host);
    let (found, state) = observe(&host);
    assert!(found.satisfied && state.container != before, "{state:?}");
}

const CONFIG: &str = "/etc/kubexm/haproxy/haproxy.cfg";
const MANIFEST: &str = "/etc/kubernetes/manifests/kubexm-haproxy.yaml";

/// A proxy as `recipes/balancer` has it.
fn proxy() -> Op {
    StaticPodStarted {
        pod: "kubexm-haproxy".to_owned(),
        after: Vec::new(),
        reloaded: vec![CONFIG.to_owned()],
        runtime: RuntimeKind::Containerd,
        ready: PodReady::Serves { port: 6444 },
    }
    .into()
}

fn config(revision: &str) -> String {
    format!("bind 127.0.0.1:6444\nstring \"revision {revision}\"\n")
}

/// A node whose kubelet runs the proxy with the configuration `aa`.
fn with_proxy() -> Host {
    let host = control_plane();
    host.put(CONFIG, config("aa"));
    host.put(MANIFEST, format!("    command:\n    - haproxy\n    - {CONFIG}\n"));
    host
}

fn look_at_proxy(host: &Host) -> (ObservedState, StaticPodState) {
    let found = dispatch::observe(&proxy(), &host.machine).expect("a look");
    let state = found.state::<StaticPodStarted>().expect("a state");
    (found, state)
}

/// What the running proxy says of itself.
fn revision(host: &Host) -> String {
    host.machine.system().http_get(6444).expect("an answer").trim().to_owned()
}

#[test]
fn another_configuration_is_read_by_the_same_container_and_then_nothing_is_left_to_do() {
    let host = with_proxy();
    dispatch::converge(&proxy(), &host.machine).expect("it runs");
    let (found, first) = look_at_proxy(&host);
    assert!(found.satisfied && first.container.is_some());
    host.put(CONFIG, config("bb"));
    assert_eq!(revision(&host), "revision aa", "it would have noticed by itself, and this op were not needed");
    assert!(!look_at_proxy(&host).0.satisfied);
    dispatch::converge(&proxy(), &host.machine).expect("it reads it");
    let (found, now) = look_at_proxy(&host);
    assert!(found.satisfied && now.container == first.container, "it was restarted");
    assert_eq!(revision(&host), "revision bb");
}

#[test]
fn a_rollback_lets_the_same_container_read_the_configuration_that_came_back() {
    let host = with_proxy();
    dispatch::converge(&proxy(), &host.machine).expect("it runs");
    let (before, first) = look_at_proxy(&host);
    host.put(CONFIG, config("bb"));
    dispatch::converge(&proxy(), &host.machine).expect("it reads it");
    host.put(CONFIG, config("aa"));
    for wave in Wave::ALL {
        dispatch::restore(&proxy(), &host.machine, &before, wave).unwrap_or_else(|error| panic!("{}", error.full()));
    }
    let (found, now) = look_at_proxy(&host);
    assert_eq!((revision(&host).as_str(), now.container), ("revision aa", first.container));
    assert!(found.satisfied);
}

#[test]
fn a_configuration_that_is_not_taken_fails_and_the_proxy_goes_on_with_the_one_before() {
    let host = with_proxy();
    dispatch::converge(&proxy(), &host.machine).expect("it runs");
    host.put(CONFIG, format!("{}unreadable\n", config("bb")));
    let error = dispatch::converge(&proxy(), &host.machine).expect_err("it is not taken").full();
    for part in [CONFIG, "still runs with what it read before", "/var/log/pods/kube-system_kubexm-haproxy-"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(revision(&host), "revision aa");
    assert!(!look_at_proxy(&host).0.satisfied, "nothing says that it has read it");
}

#[test]
fn a_proxy_whose_manifest_is_gone_is_awaited_by_nobody() {
    let host = with_proxy();
    dispatch::converge(&proxy(), &host.machine).expect("it runs");
    let (before, _) = look_at_proxy(&host);
    std::fs::remove_file(host.machine.path(MANIFEST)).expect("gone");
    for wave in Wave::ALL {
        dispatch::restore(&proxy(), &host.machine, &before, wave).unwrap_or_else(|error| panic!("{}", error.full()));
    }
    assert!(look_at_proxy(&host).1.container.is_none());
}

/// kubeadm puts 127.0.0.1 into it only where its configuration says so.
#[test]
fn an_api_server_whose_certificate_has_other_names_is_asked_by_the_name_that_it_has() {
    let host = control_plane();
    fake(&host).put("without-loopback", b"true").expect("a setting");
    host.put(POLICY, "second");
    converge(&host);
    assert!(has(&host, "second"));
}
