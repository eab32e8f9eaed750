//! Settings of cluster.yaml that an upgrade brings a running cluster, also where its version stays.

use kubexm_recipes::preflight::Severity;
use kubexm_recipes::{preflight, preflight_before_upgrade};
use kubexm_spec::Digest;
use kubexm_spec::cluster::Kubernetes;
use serde_json::json;

use super::*;

/// A cluster of three hosts that runs `version`, was made with cluster.yaml as it is, and gets this change.
fn changed(version: &str, change: impl FnOnce(&mut Cluster)) -> Case {
    let mut case = Case::of(2, 1, version);
    let mut before = case.site.cluster.clone();
    kubernetes(&mut before).version = Some(OLD.to_owned());
    made_with(&mut case, &before);
    case.running.applied = Some(applied(before));
    change(&mut case.site.cluster);
    case
}

/// What kubeadm was given last on the first control plane.
fn made_with(case: &mut Case, cluster: &Cluster) {
    let plan = Site::of(cluster.clone()).create().expect("a plan");
    let made = text(&plan, "/etc/kubexm/kubeadm.yaml").to_owned();
    let facts = case.site.facts.get_mut("node1").expect("a host");
    (facts.kubeadm_config, facts.kubeadm_config_text) = (Some(Digest::of(&made)), Some(made));
}

fn kubernetes(cluster: &mut Cluster) -> &mut Kubernetes {
    cluster.kubernetes.as_mut().expect("Kubernetes")
}

fn flag(cluster: &mut Cluster) {
    kubernetes(cluster).api_server_args = [("event-ttl".to_owned(), "2h".to_owned())].into();
}

fn pods(cluster: &mut Cluster) {
    kubernetes(cluster).max_pods = 200;
}

/// The hosts on which kubeadm writes anew, and whether it is asked for its settings.
fn written(case: &Case) -> Vec<(String, bool)> {
    let plan = case.steps();
    assert!(!plan.steps.iter().any(|step| step.id.0.contains("upgrade.drain")), "no pod has to leave");
    let acts = plan.steps.iter().flat_map(|step| step.ops.iter().map(move |op| (step, op)));
    let found = acts.filter_map(|(step, op)| match op {
        Op::Act(Act::KubeadmUpgrade(act)) => Some((step.host.clone(), act.settings.is_some())),
        _ => None,
    });
    found.collect()
}

fn all(hosts: &[&str], settings: bool) -> Vec<(String, bool)> {
    hosts.iter().map(|host| ((*host).to_owned(), settings)).collect()
}

#[test]
fn nodes_with_the_settings_of_cluster_yaml_are_left_alone_and_others_get_them() {
    assert_eq!(written(&changed(OLD, |_| ())), []);
    assert_eq!(
        written(&changed(OLD, flag)),
        all(&["node1", "node2"], true),
        "a worker has no flags of the control plane"
    );
    assert_eq!(written(&changed(OLD, pods)), all(&["node1", "node2", "node3"], true));
    let quota = |cluster: &mut Cluster| cluster.etcd.quota = Some(4 << 30);
    assert_eq!(written(&changed(OLD, quota)), all(&["node1", "node2"], true));
    assert_eq!(written(&changed(PATCH, |_| ())), all(&["node1", "node2", "node3"], false), "the version says enough");
    assert_eq!(written(&changed(PATCH, flag)), all(&["node1", "node2", "node3"], true));
}

/// The first control plane has them, and the record, which is written at the end, does not.
#[test]
fn a_run_that_ended_in_the_middle_is_completed_and_one_whose_change_was_reverted_as_well() {
    let mut completed = changed(OLD, flag);
    let wanted = completed.site.cluster.clone();
    made_with(&mut completed, &wanted);
    assert_eq!(written(&completed), all(&["node1", "node2"], true));
    let mut reverted = changed(OLD, |_| ());
    let mut tried = reverted.site.cluster.clone();
    flag(&mut tried);
    made_with(&mut reverted, &tried);
    assert_eq!(written(&reverted), all(&["node1", "node2"], true), "the first one has them");
}

#[test]
fn a_worker_goes_back_to_its_own_settings_and_not_to_those_of_an_earlier_upgrade() {
    let plan = changed(OLD, pods).steps();
    let settings = plan.steps.iter().flat_map(|step| &step.ops).find_map(|op| match op {
        Op::Act(Act::KubeadmUpgrade(act)) => act.settings,
        _ => None,
    });
    let worker = plan.steps.iter().find(|step| step.id.0 == "node3/upgrade.node").expect("its step");
    let Undo::Act { act: Act::KubeadmUpgradeUndo(undo) } = &worker.undo else { panic!("{:?}", worker.undo) };
    assert!(settings.is_some() && undo.settings == settings, "{undo:?}");
}

#[test]
fn what_an_upgrade_brings_is_said_before_and_what_it_does_not_is_refused() {
    let found = |case: &Case| {
        let findings = preflight_before_upgrade(&case.site.cx()).into_iter();
        let of_settings = findings.filter(|one| one.found.contains("other settings"));
        of_settings.map(|one| (one.severity, one.found)).collect::<Vec<_>>()
    };
    assert_eq!(found(&changed(OLD, |_| ())), []);
    for (change, named) in [
        (flag as fn(&mut Cluster), "apiServer.extraArgs.event-ttl: unset -> 2h"),
        (pods, "KubeletConfiguration.maxPods: 110 -> 200"),
        (|cluster| cluster.etcd.quota = Some(4 << 30), "etcd.local.extraArgs.quota-backend-bytes: unset -> 4294967296"),
    ] {
        let found = found(&changed(OLD, change));
        assert!(matches!(found.as_slice(), [(Severity::Warn, text)] if text.contains(named)), "{found:?}");
    }
    for (change, named) in [
        (
            (|cluster| kubernetes(cluster).dns_domain = "other.local".to_owned()) as fn(&mut Cluster),
            "networking.dnsDomain",
        ),
        (|cluster| kubernetes(cluster).cert_sans = vec!["api.example.com".to_owned()], "apiServer.certSANs"),
        (
            |cluster| drop(kubernetes(cluster).kube_proxy.insert("bindAddress".to_owned(), json!("0.0.0.0"))),
            "KubeProxyConfiguration",
        ),
    ] {
        let found = found(&changed(OLD, change));
        assert!(matches!(found.as_slice(), [(Severity::Fail, text)] if text.contains(named)), "{named}: {found:?}");
    }
}

#[test]
fn create_names_the_command_that_brings_them() {
    let fix = |case: &Case| {
        let findings = preflight(&case.site.cx()).into_iter();
        findings.filter(|one| one.found.contains("other settings")).map(|one| one.fix).next().unwrap_or_default()
    };
    assert!(fix(&changed(OLD, flag)).starts_with("`kubexm-install upgrade` with this cluster.yaml brings"));
    let other = |cluster: &mut Cluster| kubernetes(cluster).dns_domain = "other.local".to_owned();
    assert!(fix(&changed(OLD, other)).starts_with("revert the change"));
}
