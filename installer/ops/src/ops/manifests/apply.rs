//! Applies objects in the order in which they need each other: definitions, then namespaces, then all else.

use kubexm_charts::objects::list;
use kubexm_plan::op::Manifests;
use serde_json::{Value, json};

use super::look;
use crate::kube::kubectl;
use crate::kube::objects::{FORCE, on};
use crate::kube::removal::{CRD, by_namespace};
use crate::{Machine, OpError};

/// The definitions among the objects, until the API server serves them.
pub(super) fn definitions(machine: &Machine, op: &Manifests, objects: &[Value]) -> Result<(), OpError> {
    let crds: Vec<Value> = objects.iter().filter(|object| object["kind"] == CRD).cloned().collect();
    if crds.is_empty() {
        return Ok(());
    }
    machine.run(&on("apply", FORCE, &list(&crds)))?;
    let timeout = format!("--timeout={}s", op.wait_s);
    let wait = kubectl(["wait", "--for=condition=Established", &timeout, "--request-timeout=0", "--filename", "-"]);
    machine.run(&wait.stdin(list(&crds)).within(op.wait_s + 30)).map(drop)
}

/// All that are no definitions.
pub(super) fn rest(machine: &Machine, op: &Manifests, objects: &[Value]) -> Result<(), OpError> {
    let others = objects.iter().filter(|object| object["kind"] != CRD).cloned();
    let (namespaces, others): (Vec<Value>, Vec<Value>) = others.partition(|object| object["kind"] == "Namespace");
    if !namespaces.is_empty() {
        machine.run(&on("apply", FORCE, &list(&namespaces)))?;
    }
    if !look::has_namespace(machine, &op.namespace)? {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": op.namespace}});
        machine.run(&on("apply", FORCE, &namespace.to_string()))?;
    }
    in_namespaces(machine, op, others)
}

/// Objects whose definitions and namespaces are there.
fn in_namespaces(machine: &Machine, op: &Manifests, objects: Vec<Value>) -> Result<(), OpError> {
    for (namespace, objects) in by_namespace(objects, &op.namespace) {
        machine.run(&on("apply", FORCE, &list(&objects)).args(["--namespace", &namespace]))?;
    }
    Ok(())
}
