//! Pod network: flannel, from kubexm's own manifest with flannel's documented settings (Documentation/configuration.md, backends.md and
//! kubernetes.md of flannel 0.28).

use kubexm_plan::network::NetworkTraits;
use kubexm_plan::network::flannel::{HOST_GW, WIREGUARD};
use kubexm_plan::op::KubeObject;
use kubexm_plan::{Step, Undo};
use kubexm_spec::ClusterImage;
use kubexm_spec::cluster::{Cluster, NetworkPlugin};
use serde_json::{Value, json};

use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::{paths, selinux, yaml};

/// Namespace of the DaemonSet.
const NAMESPACE: &str = "kube-flannel";
const CONFIG: &str = "kube-flannel-cfg";

/// How packets travel between nodes when cluster.yaml does not say.
pub(super) const BACKEND: &str = "vxlan";

fn option<'c>(cluster: &'c Cluster, name: &str) -> Option<&'c Value> {
    cluster.network.options.get(name)
}

fn backend(cluster: &Cluster) -> &str {
    option(cluster, "backend").and_then(Value::as_str).unwrap_or(BACKEND)
}

/// What it has on a node with another backend than VXLAN.
pub(super) fn traits(cluster: &Cluster) -> Option<&'static NetworkTraits> {
    match backend(cluster) {
        "host-gw" => Some(&HOST_GW),
        "wireguard" => Some(&WIREGUARD),
        _ => None,
    }
}

/// What else can be chosen where each node is the gateway to its pods, which only nodes on its own link reach; none where it is not.
pub(super) fn needs_one_link(cluster: &Cluster) -> Option<&'static str> {
    let is_gateway = cluster.network.plugin == NetworkPlugin::Flannel && backend(cluster) == "host-gw";
    is_gateway.then_some(
        "set `spec.network.options.backend: vxlan`, with `directRouting: true` for those nodes that are in one network",
    )
}

/// Applies the manifest.
pub fn step(draft: &mut Draft<'_>, node: &PlannedHost<'_>, undo: Undo) -> Result<Step, RecipeError> {
    let text = yaml::documents("flannel manifest", &manifest(draft.cx, node)?)?;
    let text = draft.text(text);
    Ok(Step::on(node.name(), "network.flannel", "Apply the pod network")
        .ensure(KubeObject::new("flannel", text))
        .retries(3)
        .undo(undo)
        .build())
}

fn manifest(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Vec<Value>, RecipeError> {
    let daemon = &cx.image(ClusterImage::Flannel, node.platform)?.name;
    let plugin = &cx.image(ClusterImage::FlannelCniPlugin, node.platform)?.name;
    let mut documents = identity();
    documents.push(config(cx)?);
    documents.push(daemon_set(cx, daemon, plugin));
    Ok(documents)
}

fn identity() -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io";
    vec![
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": NAMESPACE,
                "labels": {"k8s-app": "flannel", "pod-security.kubernetes.io/enforce": "privileged"},
            },
        }),
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "flannel", "namespace": NAMESPACE, "labels": {"k8s-app": "flannel"}},
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"),
            "kind": "ClusterRole",
            "metadata": {"name": "flannel", "labels": {"k8s-app": "flannel"}},
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
            ],
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"),
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "flannel", "labels": {"k8s-app": "flannel"}},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "flannel"},
            "subjects": [{"kind": "ServiceAccount", "name": "flannel", "namespace": NAMESPACE}],
        }),
    ]
}

/// A node is Ready as soon as its CNI config is there, and pods are started at once. Upstream's manifest puts it there
/// before flanneld has its subnet: the first pods fail, and kubelet tries them again only many seconds later.
const INSTALL_CNI: &str = "until [ -s /run/flannel/subnet.env ]; do sleep 1; done; \
                           exec cp -f /etc/kube-flannel/cni-conf.json /etc/cni/net.d/10-flannel.conflist";

fn config(cx: &PlanContext<'_>) -> Result<Value, RecipeError> {
    let cni = json!({
        "name": "cbr0",
        "cniVersion": "0.3.1",
        "plugins": [
            {"type": "flannel", "delegate": {"hairpinMode": true, "isDefaultGateway": true}},
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    let network = &cx.cluster.network;
    let mut backend = json!({"Type": backend(cx.cluster)});
    for (name, of_flannel) in [("directRouting", "DirectRouting"), ("mtu", "MTU")] {
        if let Some(value) = option(cx.cluster, name) {
            backend[of_flannel] = value.clone();
        }
    }
    let mut net = json!({"Network": network.pod_cidr, "Backend": backend});
    if let Some(v6) = network.more_pod_cidrs.first() {
        net["EnableIPv6"] = json!(true);
        net["IPv6Network"] = json!(v6);
    }
    Ok(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": CONFIG,
            "namespace": NAMESPACE,
            "labels": {"app": "flannel", "k8s-app": "flannel", "tier": "node"},
        },
        "data": {"cni-conf.json": text(&cni)?, "net-conf.json": text(&net)?},
    }))
}

fn text(value: &Value) -> Result<String, RecipeError> {
    let fault = |e: serde_json::Error| RecipeError::Document { name: "flannel config", reason: e.to_string() };
    Ok(serde_json::to_string_pretty(value).map_err(fault)? + "\n")
}

/// flanneld uses the interface of the default route unless `--iface` is set. It is always set: hosts of an isolated VLAN
/// have no default route, and where there are two networks the default route is often the wrong one. `status.hostIP` is
/// kubelet's `--node-ip`, the node's address in cluster.yaml.
fn iface(cx: &PlanContext<'_>) -> String {
    format!("--iface={}", interface(cx.cluster).unwrap_or("$(NODE_IP)"))
}

/// The interface whose first address flanneld takes, if it is not the node's own address. It may become one that moves.
pub fn interface(cluster: &Cluster) -> Option<&str> {
    cluster.network.interface.as_deref().filter(|_| !cluster.load_balancer.mode.moves())
}

/// With two stacks flanneld wants the node's address of IPv6 as well (`--public-ipv6`), which is the last of `status.hostIPs`: kubelet's
/// `--node-ip` again. Kubernetes cannot take it out of the list, a shell can.
fn command(cx: &PlanContext<'_>) -> (Vec<String>, Vec<String>) {
    const FLANNELD: &str = "/opt/bin/flanneld";
    let arguments = ["--ip-masq".to_owned(), "--kube-subnet-mgr".to_owned(), iface(cx)];
    if !cx.cluster.network.has_two_stacks() {
        return (vec![FLANNELD.to_owned()], arguments.into());
    }
    let script = format!("exec {FLANNELD} \"$@\" --public-ipv6=\"${{NODE_IPS##*,}}\"");
    let shell = ["sh".to_owned(), "-c".to_owned(), script, "flanneld".to_owned()];
    (shell.into(), arguments.into())
}

fn daemon_set(cx: &PlanContext<'_>, daemon: &str, plugin: &str) -> Value {
    let labels = json!({"app": "flannel", "k8s-app": "flannel", "tier": "node"});
    let mut daemon_set = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "kube-flannel-ds", "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app": "flannel"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "hostNetwork": true,
                    "priorityClassName": "system-node-critical",
                    "serviceAccountName": "flannel",
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "tolerations": [
                        {"operator": "Exists", "effect": "NoSchedule"},
                        {"operator": "Exists", "effect": "NoExecute"},
                    ],
                    "initContainers": [
                        init_container(
                            "install-cni-plugin",
                            plugin,
                            ["/flannel", "/opt/cni/bin/flannel"],
                            json!([{"name": "cni-plugin", "mountPath": "/opt/cni/bin"}]),
                        ),
                    ],
                    "containers": [flanneld(cx, daemon)],
                    "volumes": [
                        {"name": "run", "hostPath": {"path": "/run/flannel"}},
                        {"name": "cni-plugin", "hostPath": {"path": paths::CNI_BIN}},
                        {"name": "cni", "hostPath": {"path": paths::CNI_CONF}},
                        {"name": "flannel-cfg", "configMap": {"name": CONFIG}},
                        {"name": "xtables-lock", "hostPath": {"path": "/run/xtables.lock", "type": "FileOrCreate"}},
                    ],
                },
            },
        },
    });
    if let Some(context) = selinux::host_pod(cx.cluster) {
        daemon_set["spec"]["template"]["spec"]["securityContext"] = context;
    }
    daemon_set
}

fn init_container(name: &str, image: &str, [from, to]: [&str; 2], mounts: Value) -> Value {
    json!({
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["cp"],
        "args": ["-f", from, to],
        "volumeMounts": mounts,
    })
}

/// flanneld asks the API by the control plane's name, not by the service's address, whose rules kube-proxy may write only
/// after flanneld's first connection: that connection then hangs until its timeout of 30 s. It is the name that
/// kube-proxy itself uses (`controlPlaneEndpoint`), so nothing new can fail: kubelet gives pods of the host's network
/// the host's /etc/hosts, which has every control plane or the load balancer ([`crate::modules::endpoint`]). A single
/// address here would tie all nodes to one control plane, and a DaemonSet has one value for all nodes.
fn flanneld(cx: &PlanContext<'_>, image: &str) -> Value {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let plain = |name: &str, value: String| json!({"name": name, "value": value});
    let (command, arguments) = command(cx);
    let mut container = json!({
        "name": "kube-flannel",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "args": arguments,
        "lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", INSTALL_CNI]}}},
        "resources": {"requests": {"cpu": "100m", "memory": "50Mi"}},
        "securityContext": {"privileged": false, "capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
        "env": [
            field("POD_NAME", "metadata.name"),
            field("POD_NAMESPACE", "metadata.namespace"),
            field("NODE_IP", "status.hostIP"),
            plain("KUBERNETES_SERVICE_HOST", cx.control_plane_name()),
            plain("KUBERNETES_SERVICE_PORT", cx.cluster.control_plane_port().to_string()),
        ],
        "volumeMounts": [
            {"name": "run", "mountPath": "/run/flannel"},
            {"name": "cni", "mountPath": "/etc/cni/net.d"},
            {"name": "flannel-cfg", "mountPath": "/etc/kube-flannel/"},
            {"name": "xtables-lock", "mountPath": "/run/xtables.lock"},
        ],
    });
    if cx.cluster.network.has_two_stacks()
        && let Some(environment) = container["env"].as_array_mut()
    {
        environment.push(field("NODE_IPS", "status.hostIPs"));
    }
    container
}
