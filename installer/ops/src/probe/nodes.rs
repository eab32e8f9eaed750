//! A node is Ready, or would be if it had a pod network.

use kubexm_plan::ProbeAnswer;
use kubexm_plan::op::DrainedFor;
use serde_json::Value;

use super::answer::{no, yes};
use crate::kube::drained::Left;
use crate::kube::ready_condition;
use crate::{Machine, OpError, kube};

pub(super) fn look(machine: &Machine, name: &str, kubelet: Option<&str>) -> Result<ProbeAnswer, OpError> {
    let node = get(machine, name)?;
    let found = node.pointer("/status/nodeInfo/kubeletVersion").and_then(Value::as_str).unwrap_or("unknown");
    Ok(match readiness(&node) {
        Ok(()) if kubelet.is_some_and(|wanted| wanted != found) => {
            no(format!("node {name} is Ready, and its kubelet is {found} still"))
        }
        Ok(()) => yes(format!("node {name} is Ready")),
        Err(message) => no(format!("node {name} is not Ready: {message}")),
    })
}

/// The start of kubelet's message if only the pod network is missing; several causes are listed in brackets (kubelet,
/// `nodestatus.ReadyCondition`).
const NETWORK_ALONE: &str = "container runtime network not ready";

pub(super) fn awaits_network(machine: &Machine, name: &str) -> Result<ProbeAnswer, OpError> {
    Ok(lacks_network_alone(name, &get(machine, name)?))
}

fn lacks_network_alone(name: &str, node: &Value) -> ProbeAnswer {
    match readiness(node) {
        Ok(()) => yes(format!("node {name} is Ready: a pod network is installed")),
        Err(message) if message.starts_with(NETWORK_ALONE) => {
            yes(format!("node {name} is not Ready, only because there is no pod network; install one"))
        }
        Err(message) => no(format!(
            "node {name} is not Ready, and not only because there is no pod network: \
                                    {message}"
        )),
    }
}

/// A node that does not exist has no pods.
pub(super) fn drained(machine: &Machine, name: &str, unless: DrainedFor<'_>) -> Result<ProbeAnswer, OpError> {
    Ok(match Left::on(machine, name)? {
        Some(left) if left.has(unless) => {
            yes(format!("node {name} has what it is drained for (kubelet {}), and need not be", left.kubelet))
        }
        Some(left) if !left.is_drained() => no(left.to_string()),
        Some(_) => yes(format!("node {name} is drained")),
        None => yes(format!("there is no node {name}")),
    })
}

fn get(machine: &Machine, name: &str) -> Result<Value, OpError> {
    match kube::node_in_survey(machine, name) {
        Some(node) => Ok(node),
        None => kube::get(machine, ["node", name]),
    }
}

/// Whether a node is Ready, or why not.
fn readiness(node: &Value) -> Result<(), &str> {
    let condition = ready_condition(node).ok_or("it has no Ready condition yet")?;
    if condition["status"] == "True" {
        return Ok(());
    }
    Err(condition["message"].as_str().unwrap_or("no reason given"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(status: &str, message: &str) -> Value {
        json!({"status": {"conditions": [{"type": "Ready", "status": status, "message": message}]}})
    }

    /// Messages as kubelet 1.34 writes them.
    #[test]
    fn only_a_node_that_lacks_nothing_but_a_network_counts_as_waiting_for_one() {
        let network = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network \
                       plugin returns error: cni plugin not initialized";
        let besides = format!("[{network}, CSINode is not yet initialized]");
        for (node, holds) in [
            (node("False", network), true),
            (node("True", "kubelet is posting ready status"), true),
            (node("False", &besides), false),
            (node("Unknown", "Kubelet stopped posting node status."), false),
            (json!({"status": {}}), false),
        ] {
            let answer = lacks_network_alone("node1", &node);
            assert_eq!(answer.holds, holds, "{}", answer.seen);
        }
    }
}
