//! What cluster.yaml and kubexm set on a node object: labels, annotations and taints.

use kubexm_plan::op::{NodeAnnotation, NodeApplied, NodeLabel, NodePruned, NodeTainted, NodeUntainted, Op};

use crate::context::PlannedHost;
use crate::modules::kubeadm_config::TAINT;

/// Label that `kubectl get nodes` shows as role; kubeadm sets it on control planes only.
const WORKER_ROLE: &str = "node-role.kubernetes.io/worker";
/// Recommended label of Kubernetes ("Recommended Labels").
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Of a node: with the label by which kubexm's control planes are found or that of a worker's role, unless cluster.yaml sets it too.
pub fn of(node: &PlannedHost<'_>) -> Vec<Op> {
    let mut ops = vec![pruned(node)];
    ops.extend(wanted(node));
    let (key, value) = if node.roles.control_plane { (MANAGED_BY, "kubexm") } else { (WORKER_ROLE, "") };
    if !node.host.labels.contains_key(key) {
        ops.push(label(node, key, value));
    }
    ops
}

/// What an earlier cluster.yaml had set is removed before anything is set.
fn pruned(node: &PlannedHost<'_>) -> Op {
    let host = node.host;
    let applied = NodeApplied {
        labels: host.labels.keys().filter(|key| !is_of_kubernetes(key)).cloned().collect(),
        annotations: host.annotations.keys().filter(|key| !has_owner(key)).cloned().collect(),
        taints: host.taints.iter().map(|taint| NodeApplied::taint(&taint.key, &taint.effect.to_string())).collect(),
    };
    NodePruned { node: node.name().to_owned(), applied }.into()
}

/// Labels that kubelet, kubeadm and cloud providers set. One that cluster.yaml has set and no longer has is left as it is: they
/// set it only when a node registers.
fn is_of_kubernetes(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let whole = ["kubernetes.io", "beta.kubernetes.io", "node.kubernetes.io", "topology.kubernetes.io"];
    whole.contains(&domain) || domain == "failure-domain.beta.kubernetes.io" || key == TAINT || key == WORKER_ROLE
}

/// Annotations that components of Kubernetes and of the pod network set.
fn has_owner(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    ["kubernetes.io", "k8s.io", "coreos.com"]
        .iter()
        .any(|owner| domain.strip_suffix(owner).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn wanted(node: &PlannedHost<'_>) -> Vec<Op> {
    let name = || node.name().to_owned();
    let mut ops: Vec<Op> = Vec::new();
    if node.roles.control_plane && node.roles.worker {
        ops.push(NodeUntainted { node: name(), key: TAINT.to_owned() }.into());
    }
    // kubelet has registered with them; they may be new in cluster.yaml.
    ops.extend(node.host.taints.iter().map(|taint| {
        let (key, value, effect) = (taint.key.clone(), taint.value.clone(), taint.effect.to_string());
        Op::from(NodeTainted { node: name(), key, value, effect })
    }));
    ops.extend(node.host.labels.iter().map(|(key, value)| label(node, key, value)));
    ops.extend(
        node.host
            .annotations
            .iter()
            .map(|(key, value)| Op::from(NodeAnnotation { node: name(), key: key.clone(), value: value.clone() })),
    );
    ops
}

fn label(node: &PlannedHost<'_>, key: &str, value: &str) -> Op {
    NodeLabel { node: node.name().to_owned(), key: key.to_owned(), value: value.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_components_set_themselves_is_never_removed() {
        for label in [
            "kubernetes.io/os",
            "kubernetes.io/hostname",
            "node-role.kubernetes.io/control-plane",
            "node.kubernetes.io/exclude-from-external-load-balancers",
            "topology.kubernetes.io/zone",
        ] {
            assert!(is_of_kubernetes(label), "{label}");
        }
        for label in ["zone", "example.com/rack", "node-role.kubernetes.io/database", "app.kubernetes.io/part-of"] {
            assert!(!is_of_kubernetes(label), "{label}");
        }
        for annotation in
            ["kubeadm.alpha.kubernetes.io/cri-socket", "node.alpha.kubernetes.io/ttl", "x.alpha.coreos.com/public-ip"]
        {
            assert!(has_owner(annotation), "{annotation}");
        }
        assert!(!has_owner("example.com/owner") && !has_owner("owner") && !has_owner("notk8s.io/owner"));
    }
}
