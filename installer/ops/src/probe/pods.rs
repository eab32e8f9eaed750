//! Every pod of some namespaces runs and is ready, and no image comes from outside the bundle.

use kubexm_plan::ProbeAnswer;
use serde_json::Value;

use super::nodes::ready_condition;
use super::{no, yes};
use crate::{Machine, OpError, kube};

pub(super) fn look(
    machine: &Machine,
    namespaces: &[String],
    images: &[String],
    host_network_only: bool,
) -> Result<ProbeAnswer, OpError> {
    let mut problems = Vec::new();
    let mut count = 0;
    for namespace in namespaces {
        let list = kube::pods(machine, namespace)?;
        let pods = looked_at(&list, host_network_only);
        if pods.is_empty() {
            problems.push(format!("no pod in namespace {namespace} yet"));
        }
        count += pods.len();
        problems.extend(pods.iter().flat_map(|pod| problems_of(pod, images)));
    }
    Ok(if problems.is_empty() { yes(format!("{count} pods run and are ready")) } else { no(problems.join("; ")) })
}

/// The pods of a list, or those of them that run without a pod network.
fn looked_at(list: &Value, host_network_only: bool) -> Vec<&Value> {
    let pods = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    pods.iter().filter(|pod| !host_network_only || pod["spec"]["hostNetwork"] == true).collect()
}

fn problems_of(pod: &Value, images: &[String]) -> Vec<String> {
    let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?");
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or("Unknown");
    let mut problems: Vec<String> = ["containers", "initContainers"]
        .iter()
        .filter_map(|kind| pod["spec"][kind].as_array())
        .flatten()
        .filter_map(|container| container["image"].as_str())
        .filter(|image| !images.iter().any(|known| known == image))
        .map(|image| format!("{name} uses the image {image}, which is not in the bundle"))
        .collect();
    let ready = ready_condition(pod).is_some_and(|condition| condition["status"] == "True");
    // A job's pod that has done its work is never ready again.
    if phase != "Succeeded" && !(phase == "Running" && ready) {
        problems.push(format!("{name} is {}", waiting(pod).unwrap_or_else(|| format!("{phase} and not ready"))));
    }
    problems
}

/// Why a container does not run: `ImagePullBackOff`, `CrashLoopBackOff`.
fn waiting(pod: &Value) -> Option<String> {
    ["containerStatuses", "initContainerStatuses"]
        .iter()
        .filter_map(|kind| pod["status"][kind].as_array())
        .flatten()
        .find_map(|status| status.pointer("/state/waiting/reason").and_then(Value::as_str).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn without_a_pod_network_only_pods_on_the_nodes_network_are_looked_at() {
        let list = json!({"items": [
            {"metadata": {"name": "coredns"}, "spec": {}},
            {"metadata": {"name": "kube-proxy"}, "spec": {"hostNetwork": true}},
        ]});
        let names = |only| looked_at(&list, only).into_iter().map(|pod| &pod["metadata"]["name"]).collect::<Vec<_>>();
        assert_eq!(names(false), ["coredns", "kube-proxy"]);
        assert_eq!(names(true), ["kube-proxy"]);
    }

    #[test]
    fn a_foreign_image_and_a_pod_that_is_not_ready_are_both_named() {
        let pod = json!({
            "metadata": {"name": "web"},
            "spec": {"containers": [{"image": "a:1"}], "initContainers": [{"image": "b:1"}]},
            "status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
        });
        let problems = problems_of(&pod, &["a:1".to_owned()]);
        assert_eq!(problems, ["web uses the image b:1, which is not in the bundle", "web is ImagePullBackOff"]);
    }
}
