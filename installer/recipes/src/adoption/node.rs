//! A node that kubeadm has made: its name, role, address, versions, runtime and CAs.

use kubexm_plan::cluster_facts::NodeFacts;
use kubexm_plan::kubeadm_certificates::{AUTHORITIES, CLUSTER_CA};
use kubexm_plan::{Facts, runtime};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{Host, Keyword as _, RuntimeKind};

use super::input::AdoptionInput;
use super::item::{Items, Verdict};

const CONTROL_PLANE: &str = "control-plane";
const MANIFESTS: &str = "/etc/kubernetes/manifests/";
/// kubeadm's own static pods.
const PODS: [&str; 4] = ["etcd.yaml", "kube-apiserver.yaml", "kube-controller-manager.yaml", "kube-scheduler.yaml"];

pub(super) fn compare(input: &AdoptionInput<'_>, host: &Host, items: &mut Items) {
    let name = host.name.as_str();
    let at = Some(name);
    let Some(kubelet) = input.running.kubelets.iter().find(|one| one.host == name) else {
        let fix = "kubeadm has not made it a node: remove it from cluster.yaml; once the cluster is adopted, it can be joined with kubeadm";
        return items.in_the_way(at, "node", ("no /etc/kubernetes/kubelet.conf", None), fix);
    };
    match input.node_name(name) {
        Some(own) => {
            let fix = format!("name the host {own} in cluster.yaml: a node cannot be renamed");
            items.kept(at, "node name", (own, name), fix);
            if own != name {
                return;
            }
        }
        None => items.unknown(at, "node name", "kubelet's client certificate could not be read"),
    }
    authorities(input, host, items);
    if let Some(facts) = input.facts.get(name) {
        pods(facts, items);
    }
    if let Some(endpoint) = &kubelet.runtime {
        // kubeadm finds runtimes below /var/run, which is a link to /run.
        let endpoint = endpoint.replacen("unix:///var/run/", "unix:///run/", 1);
        items.compared(at, "runtime endpoint", &endpoint, runtime::of(input.cluster.runtime.kind).endpoint);
    } else {
        items.unknown(at, "runtime endpoint", "no file of kubelet's names it");
    }
    match input.running.nodes.iter().find(|node| node.name == name) {
        Some(node) => of_object(input, host, node, items),
        // Said once where nothing of the cluster is known.
        None if input.running.nodes.is_empty() => {}
        None => {
            let fix = "its kubelet is of another cluster, or its node object was deleted: remove the host from cluster.yaml, or join it again";
            items.in_the_way(at, "node object", ("none in the cluster", None), fix);
        }
    }
}

/// What the cluster says of the node.
fn of_object(input: &AdoptionInput<'_>, host: &Host, node: &NodeFacts, items: &mut Items) {
    let (at, cluster) = (Some(host.name.as_str()), input.cluster);
    let role = |is_plane: bool| if is_plane { "control plane" } else { "worker" };
    let found = role(node.roles.iter().any(|role| role == CONTROL_PLANE));
    let wanted = role(cluster.roles(&host.name).control_plane);
    items.kept(at, "role", (found, wanted), "correct spec.roleGroups of cluster.yaml");
    if let Some(ip) = host.node_ip().map(|ip| ip.to_string()) {
        match node.addresses.contains(&ip) {
            true => items.compared(at, "address", &ip, &ip),
            false => items.compared(at, "address", &node.addresses.join(", "), &ip),
        }
    }
    if !node.ready {
        items.compared(at, "condition", "not Ready", "Ready");
    }
    let kind = cluster.runtime.kind;
    // dockershim's and cri-dockerd's nodes both say docker.
    let is_kind = node.runtime == kind.to_string();
    if !is_kind && !RuntimeKind::ALL.iter().any(|kind| kind.to_string() == node.runtime) {
        let fix = "kubexm-install knows no such container runtime";
        return items.in_the_way(at, "container runtime", (node.runtime.clone(), Some(kind.to_string())), fix);
    }
    let fix = format!("write `runtime: {{type: {}}}` in spec of cluster.yaml", node.runtime);
    items.kept(at, "container runtime", (&node.runtime, &kind.to_string()), fix);
    let Some(bundle) = input.bundle else {
        items.unknown(at, "versions", format!("kubelet {}, {} {}", node.kubelet, node.runtime, node.runtime_version));
        return;
    };
    items.compared(at, "kubelet", &node.kubelet, &bundle.kubernetes);
    if let Some(wanted) = bundle.runtime.as_ref().filter(|_| is_kind) {
        items.compared(at, "version of the container runtime", node.runtime_version.trim_start_matches('v'), wanted);
    }
}

/// The CAs of all nodes must be those of the first control plane.
fn authorities(input: &AdoptionInput<'_>, host: &Host, items: &mut Items) {
    let digest = |host: &str, path: &str| -> Option<Digest> {
        input.running.certificates.iter().find(|one| one.host == host && one.path == path)?.file
    };
    let Some(first) = input.cluster.first_control_plane() else { return };
    let (at, is_plane) = (Some(host.name.as_str()), input.cluster.roles(&host.name).control_plane);
    for path in AUTHORITIES.into_iter().filter(|path| is_plane || *path == CLUSTER_CA) {
        let what = match path {
            CLUSTER_CA => "cluster CA",
            path if path.contains("/etcd/") => "CA of etcd",
            _ => "CA of the front proxy",
        };
        // An etcd of others has its CA elsewhere; that is compared with etcd itself.
        if path.contains("/etcd/") && input.running.kubeadm.as_ref().is_some_and(|one| one.etcd_data.is_none()) {
            continue;
        }
        match (digest(&host.name, path), digest(&first.name, path)) {
            (None, _) => items.in_the_way(at, what, (format!("{path} is not there or cannot be read"), None), FIX),
            (Some(own), Some(of_first)) if own != of_first => {
                let found = format!("{path} is another one than on {}", first.name);
                items.in_the_way(
                    at,
                    what,
                    (found, None),
                    "the host is a node of another cluster: remove it from cluster.yaml",
                );
            }
            (Some(own), _) => items.add(Verdict::Known, at, what, format!("{path} {own}")),
        }
    }
}

const FIX: &str = "kubeadm writes it: find out why the node has none";

/// Manifests of others in kubelet's folder: of a load balancer before the API servers, most often. They are left alone.
fn foreign_pods(facts: &Facts) -> impl Iterator<Item = &str> {
    let manifests = facts.leftovers.iter().map(|left| left.what.as_str());
    manifests.filter(|path| path.strip_prefix(MANIFESTS).is_some_and(|file| !PODS.contains(&file)))
}

/// So many static pods are named.
const NAMED: usize = 10;

/// Static pods that others have put beside kubeadm's on control planes whose admin.conf kubeadm renews.
pub(crate) fn left_running<'a>(planes: impl Iterator<Item = &'a Facts>) -> Option<String> {
    let of_host = |facts: &Facts| foreign_pods(facts).map(|pod| format!("{pod} on {}", facts.host)).collect();
    let pods: Vec<Vec<String>> = planes.map(of_host).collect();
    let pods = pods.concat();
    (!pods.is_empty()).then(|| {
        let more = if pods.len() > NAMED { " and more" } else { "" };
        format!(
            "static pods that are not kubeadm's are not restarted: {}{more}; one that reads admin.conf or super-admin.conf (kube-vip does) keeps \
             the earlier certificate until you restart it, which must be before that one ends",
            pods[..pods.len().min(NAMED)].join(", ")
        )
    })
}

fn pods(facts: &Facts, items: &mut Items) {
    for manifest in foreign_pods(facts) {
        items.unknown(Some(&facts.host), "static pod", manifest);
    }
    for docker in &facts.docker {
        items.unknown(Some(&facts.host), "docker", docker.what.clone());
    }
}
