//! kubeadm makes the kube-proxy that it does not find, unless its phase is skipped.

use kubexm_plan::cluster_facts::{Gap, KUBE_PROXY};
use kubexm_spec::cluster::NetworkPlugin;
use serde_json::json;

use super::*;

/// The phases that are skipped, of each `kubeadm upgrade` of the plan and of the check before them.
fn skipped(plan: &Plan) -> Vec<String> {
    let acts = plan.steps.iter().flat_map(|step| &step.ops).filter_map(|op| match op {
        Op::Act(Act::KubeadmUpgrade(act)) => Some(act.skip_phases.join(",")),
        _ => None,
    });
    let checks = plan.steps.iter().filter_map(|step| match &step.probe.as_ref()?.probe {
        Probe::KubeadmUpgradePasses { upgrade } => Some(upgrade.skip_phases.join(",")),
        _ => None,
    });
    acts.chain(checks).collect()
}

fn with_cilium(replaces: bool) -> Case {
    let mut cluster = sample::fleet(2, 1);
    cluster.network.plugin = NetworkPlugin::Cilium;
    cluster.network.options.insert("kubeProxyReplacement".to_owned(), json!(replaces));
    Case::with(cluster, PATCH)
}

#[test]
fn no_node_of_a_cluster_without_kube_proxy_gets_one() {
    assert_eq!(skipped(&with_cilium(true).steps()), ["addon/kube-proxy"; 4]);
    assert_eq!(skipped(&with_cilium(false).steps()), [""; 4]);
}

/// Of others' clusters cluster.yaml says nothing: what runs decides, and what is not known is asked again.
#[test]
fn an_adopted_cluster_without_kube_proxy_gets_none_and_one_that_is_not_known_is_refused() {
    let mut case = adopted::adopted(1, 1, PATCH);
    assert_eq!(skipped(&case.steps()), [""; 3]);
    assert!(case.warnings().contains("get ds/kube-proxy deploy/coredns"));
    case.running.kube_proxy = None;
    assert_eq!(skipped(&case.steps()), ["addon/kube-proxy"; 3]);
    assert!(case.warnings().contains("kube-system get deploy/coredns"));
    let why = "the request failed".to_owned();
    case.running.gaps.push(Gap { host: "node1".to_owned(), what: KUBE_PROXY.to_owned(), why });
    let refused = case.plan().expect_err("refused").to_string();
    assert!(
        refused.contains("node1: whether the cluster has a kube-proxy is not known (the request failed)"),
        "{refused}"
    );
    case.running.kube_proxy = Some("registry.k8s.io/kube-proxy:v1.34.4".to_owned());
    assert_eq!(skipped(&case.steps()), [""; 3], "another control plane has answered");
    case.site.cluster.network.plugin = NetworkPlugin::Cilium;
    case.site.cluster.network.options.insert("kubeProxyReplacement".to_owned(), json!(true));
    let refused = case.plan().expect_err("refused").to_string();
    assert!(refused.contains("kubeProxyReplacement: leave it out"), "{refused}");
}
