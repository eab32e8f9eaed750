//! Settings of cluster.yaml that an upgrade brings a running cluster, also where its version stays.

use kubexm_plan::cluster_facts::{Gap, SETTINGS, WantedSettings};
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

/// What the cluster says while an upgrade brings these settings to these nodes, of which some have them.
fn begun(case: &mut Case, tried: &Cluster, nodes: &[&str], have: &[&str]) {
    let mut other = Case::with(tried.clone(), OLD);
    other.site.facts.clone_from(&case.site.facts);
    other.running.applied.clone_from(&case.running.applied);
    let plan = other.steps();
    let digest = plan.steps.iter().flat_map(|step| &step.ops).find_map(|op| match op {
        Op::Act(Act::KubeadmUpgrade(act)) => act.settings,
        _ => None,
    });
    let settings = digest.expect("they are other ones");
    let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
    case.running.settings = Some(WantedSettings { settings, attempt: ATTEMPT.to_owned(), nodes });
    for facts in case.running.nodes.iter_mut().filter(|facts| have.contains(&facts.name.as_str())) {
        facts.settings = Some(ATTEMPT.to_owned());
    }
}

#[test]
fn a_run_that_ended_in_the_middle_is_completed_whatever_says_that_all_is_done() {
    let mut case = changed(OLD, flag);
    let wanted = case.site.cluster.clone();
    begun(&mut case, &wanted, &["node1", "node2"], &["node1"]);
    // A create in between has recorded them, and the first one has them.
    made_with(&mut case, &wanted);
    case.running.applied = Some(applied(wanted.clone()));
    assert_eq!(written(&case), all(&["node2"], true));
    begun_by_all(&mut case);
    assert_eq!(written(&case), []);
    let mut of_kubelets = changed(OLD, pods);
    let wanted = of_kubelets.site.cluster.clone();
    begun(&mut of_kubelets, &wanted, &["node1", "node2", "node3"], &["node1", "node2"]);
    made_with(&mut of_kubelets, &wanted);
    assert_eq!(written(&of_kubelets), all(&["node3"], true), "a worker that was left out");
}

fn begun_by_all(case: &mut Case) {
    case.running.nodes.iter_mut().for_each(|facts| facts.settings = Some(ATTEMPT.to_owned()));
}

/// Of an earlier run.
const ATTEMPT: &str = "1600000000";

/// Nobody knows which node has what: all of them get what cluster.yaml says, and etcd, too.
#[test]
fn a_change_that_was_reverted_in_the_middle_is_undone_on_every_node_however_often_that_fails() {
    let quota = |cluster: &mut Cluster| cluster.etcd.quota = Some(4 << 30);
    let mut case = changed(OLD, |_| ());
    let mut tried = case.site.cluster.clone();
    quota(&mut tried);
    begun(&mut case, &tried, &["node1", "node2"], &["node1"]);
    assert_eq!(written(&case), all(&["node1", "node2", "node3"], true));
    let leaves_etcd = |case: &Case| {
        case.steps()
            .steps
            .iter()
            .flat_map(|step| &step.ops)
            .any(|op| matches!(op, Op::Act(Act::KubeadmUpgrade(act)) if act.same_etcd))
    };
    assert!(!leaves_etcd(&case), "one of them has the quota, whatever the record says");
    assert!(leaves_etcd(&changed(OLD, flag)));
    assert!(!leaves_etcd(&changed(OLD, quota)));
    // The first one has its earlier settings again.
    let back = case.site.cluster.clone();
    begun_back(&mut case, &back);
    assert_eq!(written(&case), all(&["node2", "node3"], true));
}

/// The settings that the nodes were made with are wanted again, and the first one has them.
fn begun_back(case: &mut Case, back: &Cluster) {
    let plan = case.steps();
    let settings = plan.steps.iter().flat_map(|step| &step.ops).find_map(|op| match op {
        Op::Act(Act::KubeadmUpgrade(act)) => act.settings,
        _ => None,
    });
    let settings = settings.expect("all get them");
    let nodes = back.hosts.iter().map(|host| host.name.clone()).collect();
    let attempt = "1650000000".to_owned();
    case.running.settings = Some(WantedSettings { settings, attempt: attempt.clone(), nodes });
    for facts in case.running.nodes.iter_mut().filter(|facts| facts.name == "node1") {
        facts.settings = Some(attempt.clone());
    }
}

/// The cluster says it before kubeadm begins, and of each node after its turn.
#[test]
fn what_nodes_are_to_have_is_said_before_the_first_one_gets_it() {
    let plan = changed(OLD, flag).steps();
    assert!(before(&plan, "node1/upgrade.preflight", "node1/upgrade.settings"));
    assert!(before(&plan, "node1/upgrade.settings", "node1/upgrade.apply"));
    for node in ["node1", "node2"] {
        assert!(before(&plan, &format!("{node}/upgrade.kubelet"), &format!("node1/upgrade.settings-{node}")));
    }
    assert!(!has(&plan, "node1/upgrade.settings-node3"));
    assert!(!has(&changed(PATCH, |_| ()).steps(), "node1/upgrade.settings"), "a version alone");
}

#[test]
fn where_nobody_knows_what_kubeadm_was_given_other_settings_are_refused() {
    for change in [
        flag as fn(&mut Cluster),
        pods,
        |cluster| cluster.etcd.quota = Some(4 << 30),
        |cluster| kubernetes(cluster).cert_sans = vec!["api.example.com".to_owned()],
        |cluster| drop(kubernetes(cluster).kubelet.insert("enforceNodeAllocatable".to_owned(), json!([]))),
        |cluster| drop(kubernetes(cluster).kube_proxy.insert("bindAddress".to_owned(), json!("0.0.0.0"))),
        |cluster| kubernetes(cluster).feature_gates = [("ContextualLogging".to_owned(), true)].into(),
        |cluster| kubernetes(cluster).dns_domain = "other.local".to_owned(),
    ] {
        let mut case = changed(OLD, change);
        let facts = case.site.facts.get_mut("node1").expect("a host");
        (facts.kubeadm_config, facts.kubeadm_config_text) = (None, None);
        let refused = case.refused();
        assert!(
            refused.contains("what kubeadm was given is not known of node1, which has joined the cluster"),
            "{refused}"
        );
        case.running.applied = Some(applied(case.site.cluster.clone()));
        assert_eq!(written(&case), []);
    }
}

/// The settings of the first attempt are wanted again, and the second control plane has had others since.
#[test]
fn a_node_that_has_had_the_wanted_settings_once_gets_them_again() {
    let mut case = changed(OLD, |_| ());
    let mut tried = case.site.cluster.clone();
    flag(&mut tried);
    begun(&mut case, &tried, &["node1", "node2"], &["node1"]);
    // Of an attempt before that.
    let earlier = case.running.nodes.iter_mut().filter(|facts| facts.name != "node1");
    earlier.for_each(|facts| facts.settings = Some("1500000000".to_owned()));
    assert_eq!(written(&case), all(&["node1", "node2", "node3"], true));
    let mut noted = case.steps();
    noted.steps.retain(|step| step.id.0 == "node1/upgrade.settings-node2");
    assert!(noted.render().contains(&NOW.to_string()), "{}", noted.render());
}

/// It comes with another version: alone it gives no node a turn, and a value of the site's does.
#[test]
fn a_flag_of_ours_is_a_setting_where_cluster_yaml_has_it() {
    let watches = |cluster: &mut Cluster, value: &str| {
        let flag = "shutdown-watch-termination-grace-period".to_owned();
        kubernetes(cluster).api_server_args = [(flag, value.to_owned())].into();
    };
    assert_eq!(written(&changed(OLD, |cluster| watches(cluster, "5s"))), [], "that is ours");
    assert_eq!(written(&changed(OLD, |cluster| watches(cluster, "30s"))), all(&["node1", "node2"], true));
    let mut without = changed(OLD, |_| ());
    let facts = without.site.facts.get_mut("node1").expect("a host");
    let text = facts.kubeadm_config_text.take().expect("a text");
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| line.contains("shutdown-watch")).expect("the flag");
    let text = [&lines[..at], &lines[at + 2..]].concat().join("\n") + "\n";
    let text = text.replace("extraArgs:\n  certSANs", "certSANs").replace("  extraArgs:\n  certSANs", "  certSANs");
    (facts.kubeadm_config, facts.kubeadm_config_text) = (Some(Digest::of(&text)), Some(text));
    assert_eq!(written(&without), [], "a cluster that was made without it");
}

/// kubelet has a default for what is left out.
#[test]
fn an_empty_list_is_a_setting() {
    let none = |cluster: &mut Cluster| {
        drop(kubernetes(cluster).kubelet.insert("enforceNodeAllocatable".to_owned(), json!([])))
    };
    assert_eq!(written(&changed(OLD, none)), all(&["node1", "node2", "node3"], true));
}

#[test]
fn control_planes_that_do_not_say_what_was_begun_are_not_asked_further() {
    let mut case = changed(OLD, flag);
    let gap =
        Gap { host: "node1".to_owned(), what: SETTINGS.to_owned(), why: "kubexm-settings has no nodes".to_owned() };
    case.running.gaps.push(gap);
    let error = case.plan().expect_err("not known").to_string();
    assert!(error.contains("kubexm-settings has no nodes"), "{error}");
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
        (
            |cluster| drop(kubernetes(cluster).api_server_args.insert("etcd-prefix".to_owned(), "/b".to_owned())),
            "etcd-prefix",
        ),
        (
            |cluster| drop(kubernetes(cluster).kubelet.insert("cpuManagerPolicy".to_owned(), json!("static"))),
            "cpuManagerPolicy",
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
