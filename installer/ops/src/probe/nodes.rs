//! A node is Ready, or would be with a pod network.

use kubexm_plan::ProbeAnswer;
use serde_json::Value;

use super::{no, yes};
use crate::{Machine, OpError, kube};

pub(super) fn look(machine: &Machine, name: &str) -> Result<ProbeAnswer, OpError> {
    Ok(match ask(machine, name)? {
        Ok(()) => yes(format!("node {name} is Ready")),
        Err(message) => no(format!("node {name} is not Ready: {message}")),
    })
}

/// How kubelet's message begins where the pod network is all that is missing; of several causes it makes a list in brackets
/// (kubelet, `nodestatus.ReadyCondition`).
const NETWORK_ALONE: &str = "container runtime network not ready";

pub(super) fn awaits_network(machine: &Machine, name: &str) -> Result<ProbeAnswer, OpError> {
    Ok(match ask(machine, name)? {
        Ok(()) => yes(format!("node {name} is Ready: somebody has installed a pod network")),
        Err(message) if message.starts_with(NETWORK_ALONE) => {
            yes(format!("node {name} is not Ready for lack of a pod network alone; install one"))
        }
        Err(message) => no(format!("node {name} is not Ready, and not for lack of a pod network alone: {message}")),
    })
}

/// Whether it is Ready, and why not.
fn ask(machine: &Machine, name: &str) -> Result<Result<(), String>, OpError> {
    let node = match kube::asked_in_a_moment(machine, name) {
        Some(node) => node,
        None => kube::get(machine, ["node", name])?,
    };
    let Some(condition) = ready_condition(&node) else { return Ok(Err("it has no Ready condition yet".to_owned())) };
    if condition["status"] == "True" {
        return Ok(Ok(()));
    }
    Ok(Err(condition["message"].as_str().unwrap_or("no reason given").to_owned()))
}

/// The condition `Ready` of a node or pod.
pub(super) fn ready_condition(object: &Value) -> Option<&Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|condition| condition["type"] == "Ready")
}
