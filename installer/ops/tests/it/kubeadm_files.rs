//! Hand edits of files that kubeadm wrote are found in the facts of the host.

use kubexm_ops::{Machine, dispatch, facts};
use kubexm_plan::ledger::{Outcome, Record};
use kubexm_plan::op::{KubeObject, KubeadmInit, KubeadmReset, Op};
use kubexm_plan::{KubeadmFiles, StepId, Undo};

use crate::common::Host;

const SOCKET: &str = "unix:///run/containerd/containerd.sock";
const API_SERVER: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";
const KUBELET: &str = "/var/lib/kubelet/config.yaml";
const COPIES: &str = "/var/lib/kubexm/kubeadm";

fn initialised() -> Host {
    let host = Host::fresh();
    host.ready_for_init();
    let init = KubeadmInit {
        config: "/etc/kubexm/kubeadm.yaml".into(),
        cri_socket: SOCKET.into(),
        ignore: vec![],
        backup: None,
    };
    dispatch::converge(&Op::from(init), &host.machine).expect("init");
    host
}

fn found(machine: &Machine) -> Option<KubeadmFiles> {
    facts::collect(machine, "node1").expect("facts").kubeadm_files
}

#[test]
fn a_host_without_kubernetes_has_no_such_files() {
    assert_eq!(found(&Host::fresh().machine), None);
}

#[test]
fn nothing_differs_after_an_init() {
    assert_eq!(found(&initialised().machine), Some(KubeadmFiles { recorded: true, changed: Vec::new() }));
}

#[test]
fn an_edit_is_shown_with_its_lines_and_a_missing_file_is_named() {
    let host = initialised();
    let text = host.read(API_SERVER);
    host.put(API_SERVER, format!("{text}    - --profiling=true\n"));
    std::fs::remove_file(host.machine.path(KUBELET)).expect("was there");
    let changed = found(&host.machine).expect("compared").changed;
    let [edited, missing] = changed.as_slice() else { panic!("{changed:#?}") };
    assert_eq!((edited.what.as_str(), edited.how.as_str()), (API_SERVER, "+1 -0 lines"));
    let diff = edited.diff.as_deref().expect("a diff");
    assert!(diff.starts_with(&format!("--- {API_SERVER} (by kubeadm)\n+++ {API_SERVER} (now)\n@@")), "{diff}");
    assert!(diff.ends_with("\n+    - --profiling=true"), "{diff}");
    assert_eq!((missing.what.as_str(), missing.how.as_str(), &missing.diff), (KUBELET, "it is missing", &None));
}

#[test]
fn a_node_of_an_older_version_has_nothing_to_compare_with() {
    let host = initialised();
    std::fs::remove_dir_all(host.machine.path(COPIES)).expect("was there");
    host.put(API_SERVER, "edited\n");
    assert_eq!(found(&host.machine), Some(KubeadmFiles::default()));
}

#[test]
fn a_later_run_does_not_take_edited_files_for_what_kubeadm_wrote() {
    let host = initialised();
    host.put(API_SERVER, "edited\n");
    let init = KubeadmInit {
        config: "/etc/kubexm/kubeadm.yaml".into(),
        cri_socket: SOCKET.into(),
        ignore: vec![],
        backup: None,
    };
    dispatch::converge(&Op::from(init), &host.machine).expect("done already");
    assert_eq!(found(&host.machine).expect("compared").changed.len(), 1);
}

/// As after a kill between the end of kubeadm and kubexm's record of it.
fn without_its_end(host: &Host) {
    let mark = "/var/lib/kubexm/acts/kubeadm-init.json";
    host.put(mark, host.read(mark).replace("\"endedWell\":true", "\"endedWell\":false"));
    std::fs::remove_dir_all(host.machine.path(COPIES)).expect("was there");
}

fn init() -> Op {
    KubeadmInit { config: "/etc/kubexm/kubeadm.yaml".into(), cri_socket: SOCKET.into(), ignore: vec![], backup: None }
        .into()
}

#[test]
fn an_init_whose_end_was_not_recorded_is_recorded_by_the_next_run_and_not_repeated() {
    let host = initialised();
    host.put("/var/lib/etcd/member/data", "of a cluster in use");
    without_its_end(&host);
    let found = dispatch::observe(&init(), &host.machine).expect("a look");
    assert!(!found.satisfied, "nothing would record it");
    dispatch::converge(&init(), &host.machine).expect("recorded");
    assert!(dispatch::observe(&init(), &host.machine).expect("a look").satisfied);
    assert_eq!(found_files(&host), Some(KubeadmFiles { recorded: true, changed: Vec::new() }));
    assert_eq!(host.read("/var/lib/etcd/member/data"), "of a cluster in use");
}

#[test]
fn a_cluster_in_use_is_not_cleared_when_its_api_server_is_down_and_the_end_of_its_init_was_not_recorded() {
    let host = initialised();
    host.put("/var/lib/etcd/member/data", "of a cluster in use");
    without_its_end(&host);
    let applied = Record {
        schema: kubexm_plan::ledger::SCHEMA,
        run: "r1".to_owned(),
        sequence: 9,
        step: StepId("node1/network.flannel".to_owned()),
        ops: vec![KubeObject::new("flannel", kubexm_spec::Digest::of("x")).into()],
        undo: Undo::Nothing,
        before: Vec::new(),
        outcome: Outcome::Done,
    };
    host.machine.ledger().append(&applied).expect("a record");
    host.put("/run/kubexm-double/api-down", "");
    let error = dispatch::converge(&init(), &host.machine).expect_err("refused").full();
    assert!(error.contains("its API server does not answer now"), "{error}");
    assert_eq!(host.read("/var/lib/etcd/member/data"), "of a cluster in use");
}

fn found_files(host: &Host) -> Option<KubeadmFiles> {
    found(&host.machine)
}

#[test]
fn secrets_are_not_copied_and_a_reset_removes_the_copies() {
    let host = initialised();
    let copied: Vec<String> = walkdir::WalkDir::new(host.machine.path(COPIES))
        .into_iter()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| entry.path().display().to_string())
        .collect();
    assert!(
        !copied.is_empty() && !copied.iter().any(|path| path.ends_with(".conf") || path.contains("pki")),
        "{copied:?}"
    );
    dispatch::converge(&Op::from(KubeadmReset { cri_socket: SOCKET.into() }), &host.machine).expect("reset");
    assert!(!host.machine.path(COPIES).exists());
    assert_eq!(found(&host.machine), None);
}
