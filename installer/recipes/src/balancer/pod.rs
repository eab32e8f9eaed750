//! The static pod of a proxy: in the host's network, without rights, with its configuration mounted as a folder.

use serde_json::{Value, json};

use super::proxy::{Proxy, STATUS_PORT};
use crate::error::RecipeError;
use crate::yaml;

/// A user that no image and no host gives to anybody.
const USER: u32 = 65_532;

/// Its manifest. It names the configuration and not its content, so that another configuration does not restart the pod.
pub(super) fn manifest(proxy: &Proxy, image: &str) -> Result<String, RecipeError> {
    let folders: Vec<(String, &str)> = std::iter::once(("config".to_owned(), proxy.folder))
        .chain(proxy.reads.iter().enumerate().map(|(index, path)| (format!("read-{index}"), *path)))
        .collect();
    let mounts = folders.iter().map(|(name, path)| json!({"name": name, "mountPath": path, "readOnly": true}));
    let volumes =
        folders.iter().map(|(name, path)| json!({"name": name, "hostPath": {"path": path, "type": "Directory"}}));
    let container = json!({
        "name": proxy.pod,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": proxy.command,
        "resources": {"requests": {"cpu": "25m", "memory": "32Mi"}},
        // Of the process itself: one that serves stays, whatever the API servers do.
        "livenessProbe": {
            "httpGet": {"host": "127.0.0.1", "port": STATUS_PORT, "path": "/"},
            "initialDelaySeconds": 10,
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "securityContext": {
            "runAsUser": USER,
            "runAsGroup": USER,
            "runAsNonRoot": true,
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts.chain([json!({"name": "tmp", "mountPath": "/tmp"})]).collect::<Vec<Value>>(),
    });
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": proxy.pod,
            "namespace": "kube-system",
            "labels": {"app.kubernetes.io/name": proxy.pod, "app.kubernetes.io/managed-by": "kubexm"},
        },
        "spec": {
            "hostNetwork": true,
            "priorityClassName": "system-node-critical",
            "terminationGracePeriodSeconds": 5,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            "volumes": volumes.chain([json!({"name": "tmp", "emptyDir": {}})]).collect::<Vec<Value>>(),
        },
    });
    yaml::documents("static pod", &[pod])
}
