//! kubectl with the admin kubeconfig; what is asked often goes to the API server directly.

mod api;
pub(crate) mod apis;
pub(crate) mod compare;
pub(crate) mod credentials;
mod discovery;
pub(crate) mod drained;
pub(crate) mod objects;
pub(crate) mod own_server;
pub(crate) mod pages;
pub(crate) mod removal;
pub(crate) mod waiting;

use kubexm_plan::Wave;
use kubexm_plan::op::{CORDONED_BY, Taint};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::system::Program;
use crate::{Machine, OpError, paths};

/// Otherwise kubectl would leave a cache in root's home.
const CACHE: &str = "--cache-dir=/run/kubexm/kubectl";
pub(crate) const API_SERVER: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";

/// kubectl with these arguments.
pub(crate) fn kubectl<S: Into<String>>(args: impl IntoIterator<Item = S>) -> Program {
    Program::new("kubectl")
        .args(["--kubeconfig", paths::ADMIN_CONF, "--request-timeout=30s", CACHE])
        .args(args)
        .within(120)
}

/// Whether this host has credentials for a cluster.
pub(crate) fn has_admin_conf(machine: &Machine) -> bool {
    machine.path(paths::ADMIN_CONF).is_file()
}

/// Whether this host runs an API server that an undo can use.
pub(crate) fn has_control_plane(machine: &Machine) -> bool {
    has_admin_conf(machine) && machine.path(API_SERVER).is_file()
}

/// A node object; none if it does not exist. No answer is an error.
pub(crate) fn find_node(machine: &Machine, name: &str) -> Result<Option<Value>, OpError> {
    if let Some(node) = node_in_survey(machine, name) {
        return Ok(Some(node));
    }
    let output = machine.run(&kubectl(["get", "-o", "json", "--ignore-not-found", "node", name]))?;
    if output.stdout.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    serde_json::from_slice(&output.stdout)
        .map(Some)
        .map_err(|error| OpError::other(format!("`kubectl get node {name}` did not return JSON: {error}")))
}

/// The API server's answer at a path (`/version`), with a timeout of some seconds; none if there is no such object.
pub(crate) fn raw(machine: &Machine, path: &str) -> Result<Option<Value>, OpError> {
    // kubectl supports more ways to log in, but is slower.
    if let Some(credentials) = api::credentials(machine)? {
        return api::get(machine, &credentials, path);
    }
    let program = Program::new("kubectl")
        .args(["--kubeconfig", paths::ADMIN_CONF, "--request-timeout=10s", CACHE, "get", "--raw", path])
        .within(15);
    let output = machine.try_run(&program)?;
    if output.code != 0 && String::from_utf8_lossy(&output.stderr).contains("NotFound") {
        return Ok(None);
    }
    if output.code != 0 {
        return Err(OpError::other(format!("`{program}` failed: {}", output.tail())));
    }
    serde_json::from_slice(&output.stdout)
        .map(Some)
        .map_err(|error| OpError::other(format!("`{program}` did not answer JSON: {error}")))
}

/// The API server's text at a path (`/metrics`).
pub(crate) fn raw_text(machine: &Machine, path: &str) -> Result<String, OpError> {
    if let Some(credentials) = api::credentials(machine)? {
        return api::get_text(machine, &credentials, path);
    }
    let output = machine.run(&kubectl(["get", "--raw", path]))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The pods of a namespace.
pub(crate) fn pods(machine: &Machine, namespace: &str) -> Result<Value, OpError> {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    match api::in_survey(machine, &path) {
        Some(list) => Ok(list),
        None => get(machine, ["pods", "--namespace", namespace]),
    }
}

/// The condition `Ready` of a node or pod.
pub(crate) fn ready_condition(object: &Value) -> Option<&Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|condition| condition["type"] == "Ready")
}

/// On whose behalf kubexm has cordoned a node.
pub(crate) fn cordoned_by(node: &Value) -> Option<&str> {
    annotation(node, CORDONED_BY)
}

/// Cordons a node, and says on it on whose behalf, in one request.
pub(crate) fn cordon(machine: &Machine, node: &str, by: &str) -> Result<(), OpError> {
    let patch = json!({"metadata": {"annotations": {CORDONED_BY: by}}, "spec": {"unschedulable": true}}).to_string();
    machine.run(&kubectl(["patch", "node", node, "--type=merge", "--patch", &patch])).map(drop)
}

/// The text of an object's annotation.
pub(crate) fn annotation<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// `kubectl get … -o json`.
pub(crate) fn get<S: Into<String>>(machine: &Machine, args: impl IntoIterator<Item = S>) -> Result<Value, OpError> {
    let program = kubectl(["get", "-o", "json"]).args(args);
    let output = machine.run(&program)?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| OpError::other(format!("`{program}` did not return JSON: {error}")))
}

/// A node object; none if it does not exist or the API server does not answer.
pub(crate) fn node(machine: &Machine, name: &str) -> Result<Option<Value>, OpError> {
    if !has_admin_conf(machine) {
        return Ok(None);
    }
    if let Some(node) = node_in_survey(machine, name) {
        return Ok(Some(node));
    }
    let output = machine.try_run(&kubectl(["get", "-o", "json", "node", name]))?;
    Ok(if output.code == 0 { serde_json::from_slice(&output.stdout).ok() } else { None })
}

/// The taints of a node; none if it does not exist or the API server does not answer.
pub(crate) fn taints(machine: &Machine, name: &str) -> Result<Option<Vec<Taint>>, OpError> {
    node(machine, name)?.map(|node| taints_of(&node, name)).transpose()
}

/// The taints of a node object.
pub(crate) fn taints_of(node: &Value, name: &str) -> Result<Vec<Taint>, OpError> {
    let Some(taints) = node.pointer("/spec/taints") else { return Ok(Vec::new()) };
    Deserialize::deserialize(taints)
        .map_err(|error| OpError::other(format!("the taints of node {name} cannot be read: {error}")))
}

/// Whether a wave of an undo restores what was set on a node: the first, on a control plane, while the node object exists. A later part of an
/// undo deletes it, and the undo may be repeated.
pub(crate) fn restores_nodes(machine: &Machine, node: &str, wave: Wave) -> Result<bool, OpError> {
    Ok(wave == Wave::Stop && has_control_plane(machine) && find_node(machine, node)?.is_some())
}

/// A JSON merge patch (RFC 7386) of a node object: null removes a key.
pub(crate) fn patch_node(machine: &Machine, name: &str, patch: &Value) -> Result<(), OpError> {
    machine.run(&kubectl(["patch", "node", name, "--type=merge", "--patch", &patch.to_string()])).map(drop)
}

/// Sets a taint; one with the same key and effect is replaced.
pub(crate) fn taint(machine: &Machine, node: &str, taint: &Taint) -> Result<(), OpError> {
    let text = format!("{}={}:{}", taint.key, taint.value, taint.effect);
    machine.run(&kubectl(["taint", "--overwrite", "node", node, &text])).map(drop)
}

/// A node object, in a survey; none if it is unknown.
pub(crate) fn node_in_survey(machine: &Machine, node: &str) -> Option<Value> {
    api::in_survey(machine, &format!("/api/v1/nodes/{node}"))
}
