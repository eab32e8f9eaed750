//! What of a node is cluster.yaml's: a ConfigMap in kube-system for each node, which kubelets cannot write. A node may change the
//! annotations of its own object, and would decide with them which of its taints are removed.

use serde_json::{Value, json};

use crate::kube::objects::{FORCE, on};
use crate::kube::{self, kubectl};
use crate::{Machine, OpError};

const NAMESPACE: &str = "kube-system";
const KEY: &str = "applied";

fn config_map(node: &str) -> String {
    format!("kubexm-node-{node}")
}

/// The record's text; none if there is none of this very object: a node that was added again has what it was given since.
pub(crate) fn read(machine: &Machine, node: &Value, name: &str) -> Result<Option<String>, OpError> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{}", config_map(name));
    let Some(record) = kube::raw(machine, &path)? else { return Ok(None) };
    let is_of_node = record.pointer("/metadata/ownerReferences/0/uid") == node.pointer("/metadata/uid");
    let text = record["data"][KEY].as_str().filter(|_| is_of_node);
    Ok(text.map(str::to_owned))
}

/// Writes it, or removes it if there is nothing to say. It goes with the node's object.
pub(crate) fn write(machine: &Machine, node: &Value, name: &str, text: Option<&str>) -> Result<(), OpError> {
    let Some(text) = text else {
        let args = ["delete", "--ignore-not-found", "--namespace", NAMESPACE, "configmap", &config_map(name)];
        return machine.run(&kubectl(args)).map(drop);
    };
    let mut metadata = json!({
        "name": config_map(name),
        "namespace": NAMESPACE,
        "labels": {"app.kubernetes.io/managed-by": "kubexm"},
    });
    if let Some(uid) = node.pointer("/metadata/uid") {
        metadata["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]);
    }
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: text}});
    machine.run(&on("apply", FORCE, &object.to_string())).map(drop)
}
