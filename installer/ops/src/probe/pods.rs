//! Every pod in some namespaces is running and ready, and no image is from outside the bundle.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::ProbeAnswer;
use kubexm_plan::network::SYSTEM_NAMESPACE;
use serde_json::Value;

use super::answer::{no, yes};
use crate::kube::ready_condition;
use crate::{Machine, OpError, kube};

/// Which pods of a namespace are looked at.
pub(super) struct Which<'p> {
    /// As in the probe.
    pub kubeadm_only: bool,
    /// Of kube-system; empty: all of them.
    pub workloads: &'p [String],
}

/// Which images pods may use.
pub(super) struct Allowed<'p> {
    /// Those of the bundle.
    pub images: &'p [String],
    /// As in the probe.
    pub new_nodes: &'p [String],
}

impl Allowed<'_> {
    /// With those of pods that ran before.
    fn with_known(&self, lists: &[(&String, Value)]) -> BTreeSet<String> {
        let pods = lists.iter().filter_map(|(_, list)| list["items"].as_array()).flatten();
        let is_elsewhere = |pod: &&Value| {
            let node = pod.pointer("/spec/nodeName").and_then(Value::as_str);
            !self.new_nodes.is_empty() && node.is_some_and(|node| self.new_nodes.iter().all(|new| new != node))
        };
        let known = pods.filter(is_elsewhere).flat_map(images_of).map(str::to_owned);
        self.images.iter().cloned().chain(known).collect()
    }
}

pub(super) fn look(
    machine: &Machine,
    namespaces: &[String],
    allowed: &Allowed<'_>,
    which: &Which<'_>,
) -> Result<ProbeAnswer, OpError> {
    let mut problems = Vec::new();
    let mut count = 0;
    let lists = namespaces.iter().map(|namespace| Ok((namespace, kube::pods(machine, namespace)?)));
    let lists: Vec<(&String, Value)> = lists.collect::<Result<_, OpError>>()?;
    let images = allowed.with_known(&lists);
    for (namespace, list) in &lists {
        let all = Which { workloads: &[], ..*which };
        let pods = looked_at(list, if *namespace == SYSTEM_NAMESPACE { which } else { &all });
        if pods.is_empty() {
            problems.push(format!("no pod in namespace {namespace} yet"));
        }
        count += pods.len();
        let others = pods.iter().filter(|pod| !is_proxy(pod));
        problems.extend(others.flat_map(|pod| problems_of(pod, &images)));
    }
    Ok(if problems.is_empty() { yes(format!("{count} pods run and are ready")) } else { no(problems.join("; ")) })
}

/// The components whose pods kubeadm makes static.
const STATIC: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Every static pod of a control plane is Ready, with these images where they are given; an etcd that is not kubeadm's has none.
pub(super) fn of_control_plane(
    machine: &Machine,
    node: &str,
    images: &BTreeMap<String, String>,
    external_etcd: bool,
) -> Result<ProbeAnswer, OpError> {
    let list = kube::get(machine, ["pods", "--namespace", "kube-system", "--selector", "tier=control-plane"])?;
    let waits = not_ready(&list, external_etcd, node, images);
    Ok(match waits.is_empty() {
        true => yes(format!("the static pods of {node} are ready")),
        false => no(format!("of the static pods of {node} these are not ready: {}", waits.join(", "))),
    })
}

fn not_ready(list: &Value, external_etcd: bool, node: &str, images: &BTreeMap<String, String>) -> Vec<String> {
    let pods = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let waits = |name: &'static str| {
        let wanted = format!("{name}-{node}");
        let pod = pods.iter().find(|pod| pod.pointer("/metadata/name").and_then(Value::as_str) == Some(&wanted));
        let image = pod.and_then(|pod| pod.pointer("/spec/containers/0/image")?.as_str());
        match (image, images.get(name)) {
            (Some(found), Some(image)) if found != image => return Some(format!("{name} (it has {found} still)")),
            _ => {}
        }
        let ready = pod.and_then(ready_condition).is_some_and(|condition| condition["status"] == "True");
        (!ready).then(|| name.to_owned())
    };
    STATIC.into_iter().filter(|name| !(external_etcd && *name == "etcd")).filter_map(waits).collect()
}

/// The pods of a list; with `kubeadm_only`, those that kubeadm creates and that need no pod network.
fn looked_at<'l>(list: &'l Value, which: &Which<'_>) -> Vec<&'l Value> {
    let pods = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_workloads =
        |pod: &Value| which.workloads.is_empty() || workload(pod).is_some_and(|of| which.workloads.contains(&of));
    pods.iter().filter(|pod| (!which.kubeadm_only || is_kubeadms(pod)) && of_workloads(pod)).collect()
}

/// What a pod belongs to: a DaemonSet, a Deployment (by the name that it gives its ReplicaSets), or a static pod's manifest (kubelet adds the
/// node's name).
fn workload(pod: &Value) -> Option<String> {
    let owner = pod.pointer("/metadata/ownerReferences/0")?;
    let name = owner["name"].as_str()?;
    let of = match owner["kind"].as_str()? {
        "Node" => pod.pointer("/metadata/name")?.as_str()?.strip_suffix(name)?.strip_suffix('-')?,
        "ReplicaSet" => name.rsplit_once('-')?.0,
        _ => name,
    };
    Some(of.to_owned())
}

/// A static pod, which its node owns, or kube-proxy. Networks also have pods on the host network in kube-system.
fn is_kubeadms(pod: &Value) -> bool {
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    owners
        .into_iter()
        .any(|owner| owner["kind"] == "Node" || (owner["kind"] == "DaemonSet" && owner["name"] == "kube-proxy"))
}

/// A proxy on a worker: its host's own step has asked it, and one of a worker that an upgrade left out has the image of before.
fn is_proxy(pod: &Value) -> bool {
    let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let of_node = pod.pointer("/metadata/ownerReferences/0/kind").and_then(Value::as_str) == Some("Node");
    of_node && (name.starts_with("kubexm-haproxy-") || name.starts_with("kubexm-nginx-"))
}

fn images_of(pod: &Value) -> impl Iterator<Item = &str> {
    let containers = ["containers", "initContainers"].into_iter().filter_map(|kind| pod["spec"][kind].as_array());
    containers.flatten().filter_map(|container| container["image"].as_str())
}

fn problems_of(pod: &Value, images: &BTreeSet<String>) -> Vec<String> {
    let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?");
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or("Unknown");
    let mut problems: Vec<String> = images_of(pod)
        .filter(|image| !images.contains(*image))
        .map(|image| format!("{name} uses the image {image}, which is not in the bundle"))
        .collect();
    let ready = ready_condition(pod).is_some_and(|condition| condition["status"] == "True");
    // A completed pod of a job is never ready again.
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
    fn without_a_network_of_kubexm_only_kubeadms_own_pods_are_checked() {
        let pod = |name: &str, kind: &str, owner: &str| json!({"metadata": {"name": name, "ownerReferences": [{"kind": kind, "name": owner}]}, "spec": {"hostNetwork": true}});
        let list = json!({"items": [
            pod("coredns-x", "ReplicaSet", "coredns-y"),
            pod("cilium-x", "DaemonSet", "cilium"),
            pod("kube-proxy-x", "DaemonSet", "kube-proxy"),
            pod("etcd-node1", "Node", "node1"),
        ]});
        let which = |kubeadm_only| Which { kubeadm_only, workloads: &[] };
        let names =
            |only| looked_at(&list, &which(only)).into_iter().map(|pod| &pod["metadata"]["name"]).collect::<Vec<_>>();
        assert_eq!(names(false).len(), 4);
        assert_eq!(names(true), ["kube-proxy-x", "etcd-node1"]);
    }

    #[test]
    fn what_a_site_runs_beside_them_is_not_looked_at() {
        let pod = |name: &str, kind: &str, owner: &str| json!({"metadata": {"name": name, "ownerReferences": [{"kind": kind, "name": owner}]}});
        let list = json!({"items": [
            pod("coredns-5f6c-x", "ReplicaSet", "coredns-5f6c"),
            pod("coredns-watch-77d-x", "ReplicaSet", "coredns-watch-77d"),
            pod("kube-proxy-x", "DaemonSet", "kube-proxy"),
            pod("csi-node-x", "DaemonSet", "csi-node"),
            pod("etcd-node-1", "Node", "node-1"),
            pod("audit-node-1", "Node", "node-1"),
            json!({"metadata": {"name": "by-hand"}}),
        ]});
        let workloads = ["coredns", "kube-proxy", "etcd"].map(str::to_owned);
        let which = Which { kubeadm_only: false, workloads: &workloads };
        let names: Vec<_> = looked_at(&list, &which).into_iter().map(|pod| &pod["metadata"]["name"]).collect();
        assert_eq!(names, ["coredns-5f6c-x", "kube-proxy-x", "etcd-node-1"]);
    }

    #[test]
    fn a_static_pod_that_is_missing_or_not_ready_or_old_is_named() {
        let pod = |name: &str, status: &str| {
            json!({
                "metadata": {"name": name},
                "spec": {"containers": [{"image": "r/p:2"}]},
                "status": {"conditions": [{"type": "Ready", "status": status}]},
            })
        };
        let any = BTreeMap::new();
        let mut pods: Vec<Value> = STATIC.iter().map(|name| pod(&format!("{name}-cp1"), "True")).collect();
        assert!(not_ready(&json!({"items": pods}), false, "cp1", &any).is_empty());
        assert_eq!(not_ready(&json!({"items": pods}), false, "cp2", &any), STATIC);
        let images = [("etcd", "r/p:2"), ("kube-apiserver", "r/p:3")];
        let images = images.map(|(name, image)| (name.to_owned(), image.to_owned())).into();
        assert_eq!(not_ready(&json!({"items": pods}), false, "cp1", &images), ["kube-apiserver (it has r/p:2 still)"]);
        pods[1] = pod("kube-apiserver-cp1", "False");
        assert_eq!(not_ready(&json!({"items": pods[..3]}), false, "cp1", &any), ["kube-apiserver", "kube-scheduler"]);
        assert_eq!(not_ready(&json!({"items": pods[..0]}), true, "cp1", &any), STATIC[1..]);
    }

    #[test]
    fn a_foreign_image_and_a_pod_that_is_not_ready_are_both_named() {
        let pod = json!({
            "metadata": {"name": "web"},
            "spec": {"containers": [{"image": "a:1"}], "initContainers": [{"image": "b:1"}]},
            "status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
        });
        let problems = problems_of(&pod, &["a:1".to_owned()].into());
        assert_eq!(problems, ["web uses the image b:1, which is not in the bundle", "web is ImagePullBackOff"]);
    }

    /// A node that comes while an upgrade is not done yet: its DaemonSets are those of before, its static pods are the bundle's.
    #[test]
    fn what_ran_before_a_node_came_is_no_foreign_image_and_what_only_the_new_node_has_is() {
        let pod = |node: &str, image: &str| json!({"spec": {"nodeName": node, "containers": [{"image": image}]}});
        let namespace = "kube-system".to_owned();
        let lists =
            [(&namespace, json!({"items": [pod("n1", "proxy:1"), pod("n2", "proxy:1"), pod("n2", "other:1")]}))];
        let (images, new) = (["api:2".to_owned()], ["n2".to_owned()]);
        let known = Allowed { images: &images, new_nodes: &new }.with_known(&lists);
        assert_eq!(known.into_iter().collect::<Vec<_>>(), ["api:2", "proxy:1"]);
        let strict = Allowed { images: &images, new_nodes: &[] }.with_known(&lists);
        assert_eq!(strict.into_iter().collect::<Vec<_>>(), ["api:2"]);
    }
}
