//! A node is Ready.

use kubexm_plan::ProbeAnswer;
use serde_json::Value;

use super::{no, yes};
use crate::{Machine, OpError, kube};

pub(super) fn look(machine: &Machine, name: &str) -> Result<ProbeAnswer, OpError> {
    let node = match kube::asked_in_a_moment(machine, name) {
        Some(node) => node,
        None => kube::get(machine, ["node", name])?,
    };
    let Some(condition) = ready_condition(&node) else {
        return Ok(no(format!("node {name} has no Ready condition yet")));
    };
    if condition["status"] == "True" {
        return Ok(yes(format!("node {name} is Ready")));
    }
    let message = condition["message"].as_str().unwrap_or("no reason given");
    Ok(no(format!("node {name} is not Ready: {message}")))
}

/// The condition `Ready` of a node or pod.
pub(super) fn ready_condition(object: &Value) -> Option<&Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|condition| condition["type"] == "Ready")
}
