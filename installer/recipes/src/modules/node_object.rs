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
        labels: host.labels.keys().cloned().collect(),
        annotations: host.annotations.keys().cloned().collect(),
        taints: host.taints.iter().map(|taint| NodeApplied::taint(&taint.key, &taint.effect.to_string())).collect(),
    };
    NodePruned { node: node.name().to_owned(), applied }.into()
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
