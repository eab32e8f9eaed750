//! Hand edits of files that kubeadm wrote are found in the facts of the host.

use kubexm_ops::{Machine, dispatch, facts};
use kubexm_plan::KubeadmFiles;
use kubexm_plan::op::{KubeadmInit, KubeadmReset, Op};

use crate::common::Host;

const SOCKET: &str = "unix:///run/containerd/containerd.sock";
const API_SERVER: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";
const KUBELET: &str = "/var/lib/kubelet/config.yaml";
const COPIES: &str = "/var/lib/kubexm/kubeadm";

fn initialised() -> Host {
    let host = Host::fresh();
    host.ready_for_init();
    let init = KubeadmInit { config: "/etc/kubexm/kubeadm.yaml".into(), cri_socket: SOCKET.into(), ignore: vec![] };
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
    let init = KubeadmInit { config: "/etc/kubexm/kubeadm.yaml".into(), cri_socket: SOCKET.into(), ignore: vec![] };
    dispatch::converge(&Op::from(init), &host.machine).expect("done already");
    assert_eq!(found(&host.machine).expect("compared").changed.len(), 1);
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
