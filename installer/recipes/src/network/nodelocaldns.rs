//! A DNS cache on every node (`spec.kubernetes.nodelocaldns`): `node-cache` answers on the address of cluster DNS itself and on one of its
//! own, and asks CoreDNS for what it does not know. Nothing changes for pods and kubelet: where the cache is not there, the same address
//! leads to CoreDNS, by kube-proxy's rules (decision 0094).

use kubexm_plan::cluster_facts::AppliedCluster;
use kubexm_plan::network::NetworkTraits;
use kubexm_plan::network::nodelocaldns::{HEALTH_PORT, METRICS_PORT, TRAITS};
use kubexm_plan::op::Manifests;
use kubexm_plan::{ClusterFacts, Step, Undo};
use kubexm_spec::ArtifactKey;
use kubexm_spec::cluster::{Cluster, NodeLocalDns};
use minijinja::context;
use serde_json::{Value, json};

use super::rollout;
use crate::context::PlannedHost;
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::release;
use crate::templates::template;
use crate::{selinux, templates, yaml};

/// Of its objects.
pub const NAMESPACE: &str = "kube-system";
/// Of its objects' inventory. No label, so that no add-on can have this name.
pub const RECORD: &str = "dns.nodelocaldns";
/// Upstream's, so that two of them would be seen.
const NAME: &str = "node-local-dns";
/// The Service by which it reaches CoreDNS: the address of cluster DNS is its own on every node.
const UPSTREAM: &str = "kube-dns-upstream";
const IMAGE: &str = "k8s-dns-node-cache";
/// The address of cluster DNS in the network of services, as kubeadm chooses it.
const CLUSTER_DNS: u32 = 10;

/// The cache that a cluster has.
fn of(cluster: &Cluster) -> Option<&NodeLocalDns> {
    cluster.kubernetes.as_ref()?.nodelocaldns.as_ref()
}

/// Its traits, if a cluster has it.
pub(super) fn traits(cluster: &Cluster) -> Option<&'static NetworkTraits> {
    of(cluster).map(|_| &TRAITS)
}

/// Whether a running cluster has it, and cluster.yaml no more.
pub fn is_removed(cluster: &Cluster, applied: Option<&AppliedCluster>) -> bool {
    of(cluster).is_none() && applied.is_some_and(has)
}

fn has(applied: &AppliedCluster) -> bool {
    applied.cluster.pointer("/spec/kubernetes/nodelocaldns").is_some_and(|cache| !cache.is_null())
}

/// That a running cluster has one and cluster.yaml not, or the other way round, as text for people.
pub(super) fn changed(cluster: &Cluster, running: &ClusterFacts) -> Option<String> {
    let applied = running.applied.as_ref()?;
    let text = match (of(cluster).is_some(), has(applied)) {
        (true, false) => {
            "spec.kubernetes.nodelocaldns is there, and the cluster has no DNS cache (`kubexm-install create` installs it on every node)"
        }
        (false, true) => {
            "the cluster has a DNS cache on every node, and spec.kubernetes.nodelocaldns is not there (`kubexm-install create` removes it)"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Applies the manifest; none if the cluster has no DNS cache.
pub fn step(draft: &mut Draft<'_>, first: &PlannedHost<'_>, undo: Undo) -> Result<Option<Step>, RecipeError> {
    let Some(cache) = of(draft.cx.cluster) else { return Ok(None) };
    let objects = objects(draft, first, cache)?;
    let blob = draft.text(yaml::documents("manifest of the DNS cache", &objects)?);
    let (name, namespace) = (RECORD.to_owned(), NAMESPACE.to_owned());
    let wait_s = rollout::wait(draft.cx.cluster);
    let step = Step::on(first.name(), "dns.nodelocaldns", "Start a DNS cache on every node")
        .timeout_s(release::timeout(wait_s))
        .ensure(Manifests { name, namespace, blob, in_plan: true, slots: Vec::new(), wait_s })
        .undo(undo)
        .build();
    Ok(Some(step))
}

fn objects(draft: &Draft<'_>, first: &PlannedHost<'_>, cache: &NodeLocalDns) -> Result<Vec<Value>, RecipeError> {
    let cx = draft.cx;
    let key = ArtifactKey::FeatureImage(IMAGE.to_owned());
    let image = &cx.artifact(&key, first.platform)?.name;
    let own = cache.address.to_string();
    let addresses = [own.clone(), cx.service_address(CLUSTER_DNS)?.to_string()];
    // It puts the address of the Service in the place of `__PILLAR__CLUSTER__DNS__` itself. Names outside of the cluster go to CoreDNS, too, and not to the
    // node's name servers: a node may have none, and what a site has written into CoreDNS' own configuration counts.
    let corefile = templates::render(
        template!("Corefile-cache"),
        context! { addresses => &addresses, metrics_port => METRICS_PORT, health => format!("{own}:{HEALTH_PORT}") },
    )?;
    let metadata = json!({"name": NAME, "namespace": NAMESPACE, "labels": {"k8s-app": NAME}});
    Ok(vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": false}),
        upstream(),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"Corefile": corefile}}),
        daemon_set(cx.cluster, image, &own, &addresses.join(",")),
    ])
}

/// CoreDNS by another address than that of cluster DNS.
fn upstream() -> Value {
    let port = |name: &str, protocol: &str| json!({"name": name, "port": 53, "protocol": protocol, "targetPort": 53});
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": UPSTREAM, "namespace": NAMESPACE, "labels": {"k8s-app": "kube-dns"}},
        "spec": {"selector": {"k8s-app": "kube-dns"}, "ports": [port("dns", "UDP"), port("dns-tcp", "TCP")]},
    })
}

/// `own` is the address on which it says whether it works.
fn daemon_set(cluster: &Cluster, image: &str, own: &str, addresses: &str) -> Value {
    let labels = json!({"k8s-app": NAME});
    let works = json!({"httpGet": {"host": own, "path": "/health", "port": HEALTH_PORT}, "timeoutSeconds": 5});
    let mut alive = works.clone();
    alive["initialDelaySeconds"] = 60.into();
    let mut set = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": rollout::AT_ONCE}},
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": METRICS_PORT.to_string()},
                },
                "spec": {
                    "hostNetwork": true,
                    // Not itself.
                    "dnsPolicy": "Default",
                    "priorityClassName": "system-node-critical",
                    "serviceAccountName": NAME,
                    "automountServiceAccountToken": false,
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "tolerations": [
                        {"operator": "Exists", "effect": "NoSchedule"},
                        {"operator": "Exists", "effect": "NoExecute"},
                    ],
                    "containers": [{
                        "name": "node-cache",
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "terminationMessagePolicy": "FallbackToLogsOnError",
                        // The Service's address is in a variable of its environment.
                        "args": [
                            "-localip", addresses,
                            "-conf", "/etc/Corefile",
                            "-upstreamsvc", UPSTREAM,
                            "-health-port", HEALTH_PORT.to_string(),
                            "-pidfile", "/tmp/node-cache.pid",
                        ],
                        "resources": {"requests": {"cpu": "25m", "memory": "5Mi"}},
                        // Its iptables is a link that the image's own program sets when it first runs, so its root is not read-only.
                        "securityContext": {
                            "allowPrivilegeEscalation": false,
                            "capabilities": {"add": ["NET_ADMIN"]},
                            "seccompProfile": {"type": "RuntimeDefault"},
                        },
                        "ports": [
                            {"name": "dns", "containerPort": 53, "protocol": "UDP"},
                            {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
                            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
                        ],
                        "livenessProbe": alive,
                        "readinessProbe": works,
                        "volumeMounts": [
                            {"name": "xtables-lock", "mountPath": "/run/xtables.lock"},
                            {"name": "config", "mountPath": "/etc/coredns", "readOnly": true},
                        ],
                    }],
                    "volumes": [
                        {"name": "xtables-lock", "hostPath": {"path": "/run/xtables.lock", "type": "FileOrCreate"}},
                        {"name": "config", "configMap": {"name": NAME, "items": [{"key": "Corefile", "path": "Corefile.base"}]}},
                    ],
                },
            },
        },
    });
    if let Some(context) = selinux::host_pod(cluster) {
        set["spec"]["template"]["spec"]["securityContext"] = context;
    }
    set
}
