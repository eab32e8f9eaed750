//! DNS and a Service, checked from inside the network of a pod that runs the pause image. The pod is always deleted
//! afterwards.

use std::fs;
use std::time::{Duration, Instant};

use kubexm_plan::ProbeAnswer;
use serde_json::{Value, json};

use super::answer::{no, yes};
use crate::kube::{self, kubectl, ready_condition};
use crate::{Machine, OpError};

/// Where nobody but administrators makes pods and policies: another one of this name, or one that lets no pod out, would fail the check.
const NAMESPACE: &str = "kube-system";
const NAME: &str = "kubexm-check";
const START: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(300);

pub(super) struct Check<'a> {
    pub node: &'a str,
    pub image: &'a str,
    pub name: &'a str,
    pub dns: &'a str,
    pub service: &'a str,
}

pub(super) fn look(machine: &Machine, check: &Check<'_>) -> Result<ProbeAnswer, OpError> {
    let text = pod(check).to_string();
    // A pod of an interrupted check has the same spec, so the apply reuses it.
    machine.run(&kubectl(["apply", "--server-side", "--field-manager=kubexm", "--filename", "-"]).stdin(text))?;
    let seen = inside(machine, check);
    // Waits for the deletion, so that later observations do not see the pod.
    let delete = ["delete", "pod", NAME, "--namespace", NAMESPACE, "--ignore-not-found", "--now", "--timeout=60s"];
    let deleted = machine.run(&kubectl(delete));
    let seen = seen?;
    deleted?;
    Ok(seen)
}

fn pod(check: &Check<'_>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/managed-by": "kubexm"}},
        "spec": {
            "nodeName": check.node,
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "pause", "image": check.image, "imagePullPolicy": "IfNotPresent"}],
        },
    })
}

fn inside(machine: &Machine, check: &Check<'_>) -> Result<ProbeAnswer, OpError> {
    let deadline = Instant::now() + START;
    let uid = loop {
        let pod = kube::get(machine, ["pod", NAME, "--namespace", NAMESPACE])?;
        if ready_condition(&pod).is_some_and(|condition| condition["status"] == "True") {
            break pod.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().to_owned();
        }
        if Instant::now() > deadline {
            return Ok(no(format!("the check's pod does not run: {}", pod["status"])));
        }
        std::thread::sleep(PAUSE);
    };
    let pid = if machine.is_real() { process_of(&uid)? } else { 0 };
    match machine.system().pod_network(pid, check.name, check.dns, check.service) {
        Ok(seen) => Ok(yes(seen)),
        Err(error) => Ok(no(error.full())),
    }
}

/// A process of the pod: its control group contains the pod's uid, with `_` instead of `-` for the systemd driver. Users may name groups
/// below their own as they like.
fn process_of(uid: &str) -> Result<u32, OpError> {
    let with_underscores = uid.replace('-', "_");
    for entry in fs::read_dir("/proc").map_err(OpError::path("list", "/proc"))?.flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        if !uid.is_empty()
            && !groups.contains("/user.slice/")
            && (groups.contains(uid) || groups.contains(&with_underscores))
        {
            return Ok(pid);
        }
    }
    Err(OpError::other(format!("no process of the check's pod {uid} was found on this node")))
}
