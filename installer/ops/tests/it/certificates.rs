//! Certificates of a control plane are renewed once, and what has read them is restarted.

#![allow(clippy::expect_used, clippy::panic, reason = "the arrangement of a test: a fault here is a fault of the test")]

use kubexm_ops::fake::RootedSystem;
use kubexm_ops::{Wave, dispatch, provide};
use kubexm_plan::SlotProvider;
use kubexm_plan::kubeadm_certificates::{MANAGED, READ_BY};
use kubexm_plan::op::{CertificatesRenewed, KubeadmInit, Op, PodReady, Renewal, StaticPodStarted};
use kubexm_spec::Digest;
use kubexm_spec::cluster::RuntimeKind;

use crate::common::Host;

const POLICY: &str = "/etc/kubexm/audit/policy.yaml";
const APISERVER: &str = "/etc/kubernetes/pki/apiserver.crt";

fn control_plane() -> Host {
    let host = Host::fresh();
    host.ready_for_init();
    host.put(POLICY, "a policy");
    let flag = format!("  - name: audit-policy-file\n    value: {POLICY}\n");
    host.put("/etc/kubexm/kubeadm.yaml", format!("nodeRegistration:\n  name: node1\napiServer:\n  extraArgs:\n{flag}"));
    let (config, cri_socket) = ("/etc/kubexm/kubeadm.yaml".into(), "unix:///run/containerd/containerd.sock".to_owned());
    dispatch::converge(&Op::from(KubeadmInit { config, cri_socket, ignore: vec![], backup: None }), &host.machine)
        .expect("init");
    host
}

fn renewed(host: &Host) -> Op {
    let renewal = |(name, path): (&str, &str)| Renewal {
        name: name.to_owned(),
        path: path.to_owned(),
        was: Digest::of(host.read(path)),
    };
    CertificatesRenewed { certificates: MANAGED.into_iter().map(renewal).collect() }.into()
}

fn started(pod: &str, after: &[&str], ready: PodReady) -> Op {
    let after = after.iter().map(|path| (*path).to_owned()).collect();
    StaticPodStarted { pod: pod.to_owned(), after, reloaded: Vec::new(), runtime: RuntimeKind::Containerd, ready }
        .into()
}

fn satisfied(op: &Op, host: &Host) -> bool {
    dispatch::observe(op, &host.machine).expect("a look").satisfied
}

fn converge(op: &Op, host: &Host) {
    dispatch::keep(op, &host.machine).expect("keep");
    dispatch::converge(op, &host.machine).unwrap_or_else(|error| panic!("{}", error.full()));
    assert!(satisfied(op, host), "{op}");
}

fn fake(host: &Host) -> RootedSystem {
    RootedSystem::new(host.machine.root())
}

#[test]
fn a_certificate_that_an_interrupted_run_has_renewed_is_not_renewed_again() {
    let host = control_plane();
    let op = renewed(&host);
    let one =
        Renewal { name: "apiserver".to_owned(), path: APISERVER.to_owned(), was: Digest::of(host.read(APISERVER)) };
    converge(&CertificatesRenewed { certificates: vec![one] }.into(), &host);
    assert!(!satisfied(&op, &host), "the others are not renewed yet");
    converge(&op, &host);
    for (_, path) in MANAGED {
        assert_eq!(host.read(path).matches("renewed").count(), 1, "{path}");
    }
}

#[test]
fn a_certificate_that_is_gone_is_an_error_and_not_renewed() {
    let host = control_plane();
    let op = renewed(&host);
    std::fs::remove_file(host.machine.path("/etc/kubernetes/scheduler.conf")).expect("removed");
    let error = dispatch::converge(&op, &host.machine).expect_err("a missing file").full();
    assert!(error.contains("/etc/kubernetes/scheduler.conf is not there any more"), "{error}");
}

#[test]
fn every_pod_is_restarted_with_its_new_certificates_and_only_once() {
    let host = control_plane();
    converge(&renewed(&host), &host);
    for (pod, files) in READ_BY {
        let ready = if pod == "etcd" { PodReady::Member } else { PodReady::ApiServer };
        let op = started(pod, files, ready);
        assert!(!satisfied(&op, &host), "{pod} still has the earlier ones");
        converge(&op, &host);
        let read = fake(&host).read_by(pod).expect("a state").expect("a pod");
        for file in files {
            assert_eq!(read.get(*file), Some(&Digest::of(host.read(file))), "{pod} {file}");
        }
    }
}

#[test]
fn a_restart_for_certificates_does_not_make_one_for_the_audit_policy_due() {
    let host = control_plane();
    let policy = started("kube-apiserver", &[POLICY], PodReady::ApiServer);
    host.put(POLICY, "another policy");
    converge(&policy, &host);
    converge(&renewed(&host), &host);
    let (_, files) = READ_BY[1];
    let certificates = started("kube-apiserver", files, PodReady::ApiServer);
    converge(&certificates, &host);
    assert!(satisfied(&policy, &host), "the same container has read the policy too");
    host.put(POLICY, "a third policy");
    assert!(!satisfied(&policy, &host));
    converge(&policy, &host);
    assert!(satisfied(&certificates, &host));
}

#[test]
fn a_member_of_etcd_that_does_not_answer_is_not_taken_for_ready() {
    let host = control_plane();
    converge(&renewed(&host), &host);
    fake(&host).kill_member("node1").expect("a state");
    let (_, files) = READ_BY[0];
    let error =
        dispatch::converge(&started("etcd", files, PodReady::Member), &host.machine).expect_err("no member").full();
    assert!(error.contains("etcd was restarted"), "{error}");
    converge(&started("etcd", files, PodReady::Running), &host);
}

#[test]
fn a_rollback_gives_the_pods_their_earlier_certificates_even_where_nothing_answers() {
    let host = control_plane();
    let (_, files) = READ_BY[1];
    let (renewed, started) = (renewed(&host), started("kube-apiserver", files, PodReady::ApiServerAgain));
    let before = [&renewed, &started].map(|op| dispatch::observe(op, &host.machine).expect("a look"));
    let earlier = host.read(APISERVER);
    converge(&renewed, &host);
    converge(&started, &host);
    for wave in Wave::ALL {
        for (op, found) in [(&started, &before[1]), (&renewed, &before[0])] {
            dispatch::restore(op, &host.machine, found, wave).unwrap_or_else(|error| panic!("{}", error.full()));
        }
    }
    assert_eq!(host.read(APISERVER), earlier);
    let read = fake(&host).read_by("kube-apiserver").expect("a state").expect("a pod");
    assert_eq!(read.get(APISERVER), Some(&Digest::of(earlier)));
}

#[test]
fn a_kubelets_certificate_is_made_with_its_key_and_names_its_node() {
    let host = control_plane();
    let provider = SlotProvider::KubeletClient { host: "node1".to_owned(), node: "worker7".to_owned() };
    let value = String::from_utf8(provide::value(&provider, &host.machine).expect("a value")).expect("text");
    assert_eq!(value.matches("BEGIN CERTIFICATE").count(), 1, "{value}");
    assert_eq!(value.matches("BEGIN RSA PRIVATE KEY").count(), 1, "{value}");
}
