//! Nodes, their certificates, and the budgets of pods that have to move.

use kubexm_plan::kubeadm_certificates::{AUTHORITIES, MANAGED};
use kubexm_plan::op::KUBELET_CLIENT;
use kubexm_spec::cluster::is_label;

use super::case::{Case, Lines, said};
use crate::adoption;
use crate::pipelines::upgrade::found::cordoned_by;

const DAY: i64 = 24 * 60 * 60;
/// Certificates that end within this time are a warning.
const SOON_DAYS: i64 = 30;

/// Every node and every static pod works: an upgrade of a cluster that is not well makes it worse.
pub(super) fn nodes(case: &Case<'_>, problems: &mut Lines, warnings: &mut Lines) {
    for (name, node) in case.found.nodes() {
        if !node.facts.ready {
            let why = node.facts.conditions.iter().find(|condition| condition.kind == "Ready");
            let why = why.map(|condition| format!(" ({})", said(&condition.reason))).unwrap_or_default();
            problems.push(format!(
                "node {name} is not Ready{why}: mend it, or {}; `journalctl -u kubelet` there shows why",
                case.removal(name)
            ));
        }
        // One that an interrupted upgrade has cordoned is made schedulable again; one of an interrupted deletion is not.
        if node.facts.unschedulable && !node.cordoned_by(&cordoned_by(case.cx)) {
            warnings.push(format!(
                "{name} is cordoned, not by an upgrade, and stays so afterwards; `kubectl uncordon {name}` ends it"
            ));
        }
    }
    for component in case.running.components.iter().filter(|component| !component.ready) {
        let (name, node) = (&component.name, &component.node);
        // It is pasted.
        let pod = match is_label(name) && case.cx.cluster.host(node).is_some() {
            true => format!("`kubectl -n kube-system describe pod {name}-{node}`"),
            false => "`kubectl -n kube-system describe pods -l tier=control-plane`".to_owned(),
        };
        problems.push(format!("{} on {} is not ready: {pod} shows why", said(name), said(node)));
    }
    let schedulable = case.found.nodes().filter(|(_, node)| node.facts.ready && !node.facts.unschedulable).count();
    if schedulable == 1 && case.found.nodes().any(|(_, node)| case.drains(node)) {
        warnings.push(
            "there is only one node on which pods can run: its pods are evicted and wait until it is upgraded"
                .to_owned(),
        );
    }
}

/// Signed by kubelet for itself when it first starts, for a year, and never again; the API server does not check it.
const OF_KUBELET_FOR_ITSELF: &str = "/var/lib/kubelet/pki/kubelet.crt";

/// What renews a certificate.
fn renewed_by(path: &str) -> &'static str {
    if path == KUBELET_CLIENT || MANAGED.iter().any(|(_, managed)| *managed == path) {
        "renew it first with `kubexm-install certs renew`"
    } else if AUTHORITIES.contains(&path) {
        "an authority is not renewed by kubexm; replace it as \"Manual rotation of CA certificates\" of Kubernetes' documentation says"
    } else {
        "renew it first with `kubexm-install create` and the cluster's own bundle"
    }
}

/// Certificates that have ended: kubeadm renews those of control planes, but needs a cluster that works.
pub(super) fn certificates(case: &Case<'_>, problems: &mut Lines, warnings: &mut Lines) {
    let now = case.options.now;
    for certificate in case.running.certificates.iter().filter(|one| one.path != OF_KUBELET_FOR_ITSELF) {
        let left = certificate.ends.saturating_sub(now);
        let (host, path) = (&certificate.host, &certificate.path);
        if adoption::is_of_their_etcd(case.running, host, path) {
            let used = adoption::kubelet_etcd(case.running, host)
                .is_some_and(|etcd| [&etcd.access.ca, &etcd.access.certificate].contains(&path));
            match (left <= 0, used) {
                (true, true) => problems.push(format!(
                    "the certificate {path} on {host} has ended, with which its API server reaches etcd: it is of an etcd that kubexm-install has \
                     not made, so renew it as you have made it, or set the clock right if that is off"
                )),
                (true, false) => warnings.push(format!(
                    "the certificate {path} on {host} has ended: it is of an etcd that kubexm-install has not made, and no API server names it"
                )),
                (false, _) if left < SOON_DAYS * DAY => {
                    warnings.push(format!("the certificate {path} on {host}, of your etcd, ends in {} days", left / DAY));
                }
                (false, _) => {}
            }
        } else if left <= 0 {
            problems.push(format!(
                "the certificate {path} on {host} has ended: {}, or set the clock right if that is off",
                renewed_by(path)
            ));
        } else if left < SOON_DAYS * DAY {
            warnings.push(format!("the certificate {path} on {host} ends in {} days", left / DAY));
        }
    }
}

/// Budgets that never let a pod go would hold a drain until its time is up.
pub(super) fn budgets(case: &Case<'_>, problems: &mut Lines, warnings: &mut Lines) {
    if !case.found.nodes().any(|(_, node)| case.drains(node)) {
        return;
    }
    for budget in &case.running.tight_budgets {
        let name = &budget.name;
        if budget.never_lets_go() {
            problems.push(format!(
                "the PodDisruptionBudget {name} wants {} of its {} pods at all times, so it never lets one go and no node with \
                 them can be drained: give its workload more replicas, or change the budget",
                budget.wanted, budget.pods
            ));
        } else {
            warnings.push(format!(
                "the PodDisruptionBudget {name} lets no pod go now ({} of {} are healthy, and it wants {}): a drain waits for it",
                budget.healthy, budget.pods, budget.wanted
            ));
        }
    }
}
