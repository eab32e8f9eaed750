//! Pods that do not get ready, and why.

use serde_json::Value;

use crate::Machine;
use crate::kube::{pods, ready_condition};

/// The most pods that are named.
const PODS: usize = 10;

/// One line about the pods of a namespace that are not ready, for the end of an error; none if all are.
pub(crate) fn not_ready(machine: &Machine, namespace: &str) -> Option<String> {
    let pods = pods(machine, namespace).unwrap_or_default();
    let waiting: Vec<String> = pods["items"].as_array().into_iter().flatten().filter_map(of_pod).take(PODS).collect();
    if waiting.is_empty() { None } else { Some(format!("pods that are not ready: {}", waiting.join("; "))) }
}

fn of_pod(pod: &Value) -> Option<String> {
    let name = pod.pointer("/metadata/name")?.as_str()?;
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or("Unknown");
    let ready = ready_condition(pod).is_some_and(|condition| condition["status"] == "True");
    if phase == "Succeeded" || (phase == "Running" && ready) {
        return None;
    }
    let statuses = ["initContainerStatuses", "containerStatuses"].into_iter();
    let mut states = statuses.filter_map(|kind| pod["status"][kind].as_array()).flatten();
    let reason = states.find_map(|status| {
        let waiting = &status["state"]["waiting"];
        let reason = waiting["reason"].as_str()?;
        let message = waiting["message"].as_str().map(|message| format!(" ({message})")).unwrap_or_default();
        Some(format!("{reason}{message}"))
    });
    Some(format!("{name} is {}", reason.unwrap_or_else(|| phase.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_that_is_not_ready_is_named_with_its_reason_and_one_that_has_ended_well_is_not() {
        let pod = |status: Value| json!({"metadata": {"name": "web"}, "status": status});
        let waiting = json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no host"}}}]});
        assert_eq!(of_pod(&pod(waiting)).unwrap(), "web is ErrImagePull (no host)");
        assert_eq!(of_pod(&pod(json!({"phase": "Pending"}))).unwrap(), "web is Pending");
        assert_eq!(of_pod(&pod(json!({"phase": "Succeeded"}))), None);
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(of_pod(&pod(ready)), None);
    }
}
