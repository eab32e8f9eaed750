//! Multus before the pod network: pods get further interfaces by NetworkAttachmentDefinitions. A manifest of kubexm's for the thin plugin
//! (multus 4.2), and its configuration for the runtime as a file of each node (decision 0087).

use kubexm_plan::network::multus::{CONFIG, CREDENTIALS, NETWORK, TRAITS};
use kubexm_plan::network::{self, NetworkTraits};
use kubexm_plan::op::{File, Link, Manifests};
use kubexm_plan::{ClusterFacts, Step, Undo};
use kubexm_spec::ArtifactKey;
use kubexm_spec::cluster::Cluster;
use serde_json::{Value, json};

use super::rollout;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::identity::Identity;
use crate::modules::release;
use crate::{paths, selinux, yaml};

const NAMESPACE: &str = "kube-system";
/// Its account, role and image's feature.
const NAME: &str = "multus";
const DAEMON_SET: &str = "kube-multus-ds";
/// No label, so that no add-on can have this name.
const RECORD: &str = "network.multus";
const GROUP: &str = "k8s.cni.cncf.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const IMAGE: &str = "multus-cni";
/// The CNI version of its configuration: that of all networks before which it can be.
const CNI_VERSION: &str = "0.3.1";
/// What `thin_entrypoint` is given as the network that it is before: see [`daemon`].
const UNUSED: &str = "kube-multus-unused";
/// A container that ends at once is not taken for one that runs, in seconds.
const STEADY: u64 = 3;

/// Its traits, if a cluster has it.
pub(super) fn traits(cluster: &Cluster) -> Option<&'static NetworkTraits> {
    cluster.network.multus.then_some(&TRAITS)
}

/// That a running cluster does not have it yet, as text for people.
pub(super) fn added(cluster: &Cluster, running: &ClusterFacts) -> Option<String> {
    let applied = running.applied.as_ref()?.cluster.pointer("/spec/network")?;
    let has = applied.get("multus").and_then(Value::as_bool).unwrap_or(false);
    (cluster.network.multus && !has).then(|| {
        "spec.network.multus is true, and the cluster has no multus (`kubexm-install create` installs it on every node)".to_owned()
    })
}

/// Applies the manifest; none if the cluster has no multus.
pub fn step(draft: &mut Draft<'_>, first: &PlannedHost<'_>, undo: Undo) -> Result<Option<Step>, RecipeError> {
    if !draft.cx.cluster.network.multus {
        return Ok(None);
    }
    let objects = objects(draft.cx, first)?;
    let blob = draft.text(yaml::documents("multus manifest", &objects)?);
    let (name, namespace) = (RECORD.to_owned(), NAMESPACE.to_owned());
    let wait_s = rollout::wait(draft.cx.cluster);
    let step = Step::on(first.name(), "network.multus", "Install multus before the pod network")
        .timeout_s(release::timeout(wait_s))
        .ensure(Manifests { name, namespace, blob, in_plan: true, slots: Vec::new(), wait_s })
        .undo(undo)
        .build();
    Ok(Some(step))
}

/// Puts multus before the pod network of a node; none if the cluster has no multus.
pub fn config(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Option<Step>, RecipeError> {
    if !draft.cx.cluster.network.multus {
        return Ok(None);
    }
    let primary = primary(draft.cx.cluster)?;
    let link = Link { path: format!("{NETWORK}/primary.conflist"), target: primary.to_owned(), accepted: Vec::new() };
    let file = config_file(draft, primary)?;
    let step = Step::on(node.name(), "network.multus-config", "Put multus before the pod network");
    Ok(Some(step.ensure(link).ensure(file).undo(Undo::RestoreBefore).build()))
}

/// Whether a node's configuration has to wait until multus runs. One that joins has it before: it may get pods as soon as its network is
/// ready, and without multus they would run without their further interfaces. One that is in the cluster must be able to start pods until then.
pub fn waits(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> bool {
    Identity::of(cx.cluster, cx.facts).has_joined(cx.cluster, node.name(), node.facts)
}

/// The configuration that the pod network's own pods write.
fn primary(cluster: &Cluster) -> Result<&'static str, RecipeError> {
    let plugin = cluster.network.plugin;
    let configs = network::of(plugin).cni_configs;
    let found = configs.iter().copied().find(|config| config.ends_with(".conflist"));
    found.ok_or_else(|| RecipeError::Unsupported {
        what: format!("spec.network.multus before {plugin}"),
        hint: "name flannel, calico or cilium as spec.network.plugin, or leave multus out".to_owned(),
    })
}

/// Multus reads the configuration of the network before which it is for each pod, so what that network's pods change (its MTU) counts for
/// new ones; it waits until the file is there. A folder is named and not the file: of a list that is named as a file, multus 4.2 remembers
/// less than the plugins need to free a pod's addresses.
fn config_file(draft: &mut Draft<'_>, primary: &str) -> Result<File, RecipeError> {
    let config = json!({
        "cniVersion": CNI_VERSION,
        "name": "multus-cni-network",
        "type": "multus",
        // The runtime hands over only what is named here; each network takes what it knows.
        "capabilities": {"bandwidth": true, "portMappings": true},
        "clusterNetwork": NETWORK,
        "kubeconfig": format!("{CREDENTIALS}/multus.kubeconfig"),
        "readinessindicatorfile": primary,
    });
    let fault = |e: serde_json::Error| RecipeError::Document { name: "multus config", reason: e.to_string() };
    let text = serde_json::to_string_pretty(&config).map_err(fault)? + "\n";
    Ok(draft.file(CONFIG, 0o644, text))
}

fn objects(cx: &PlanContext<'_>, first: &PlannedHost<'_>) -> Result<Vec<Value>, RecipeError> {
    let key = ArtifactKey::FeatureImage(IMAGE.to_owned());
    let image = &cx.artifact(&key, first.platform)?.name;
    let mut objects = vec![definition()];
    objects.extend(account());
    objects.push(unused());
    objects.push(daemon_set(cx, image));
    Ok(objects)
}

/// As the "Kubernetes Network Custom Resource Definition De-facto Standard" (version 1) has it.
fn definition() -> Value {
    let text = |text: &str| json!({"type": "string", "description": text});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("network-attachment-definitions.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": "NetworkAttachmentDefinition",
                "plural": "network-attachment-definitions",
                "singular": "network-attachment-definition",
                "shortNames": ["net-attach-def"],
            },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "A network to which pods can be attached by the annotation k8s.v1.cni.cncf.io/networks.",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"config": text("Its CNI configuration, as JSON.")},
                            },
                        },
                    },
                },
            }],
        },
    })
}

/// The plugin runs as root on every node with these rights: it reads the pod that it attaches and the networks that the pod names, writes
/// into the pod's status what it got, and reports what went wrong.
fn account() -> [Value; 3] {
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": NAMESPACE}}),
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "ClusterRole",
            "metadata": {"name": NAME},
            "rules": [
                {"apiGroups": [GROUP], "resources": ["network-attachment-definitions"], "verbs": ["get"]},
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
                {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["update"]},
                {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
            ],
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
        }),
    ]
}

fn unused() -> Value {
    let network = json!({"cniVersion": CNI_VERSION, "name": "unused", "type": "unused"});
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": UNUSED, "namespace": NAMESPACE, "labels": {"app": NAME}},
        "data": {"unused.conf": network.to_string()},
    })
}

fn daemon_set(cx: &PlanContext<'_>, image: &str) -> Value {
    let labels = json!({"app": NAME, "name": NAME});
    let mut set = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": DAEMON_SET, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"name": NAME}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": rollout::AT_ONCE}},
            "minReadySeconds": STEADY,
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "hostNetwork": true,
                    "priorityClassName": "system-node-critical",
                    "serviceAccountName": NAME,
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "tolerations": [
                        {"operator": "Exists", "effect": "NoSchedule"},
                        {"operator": "Exists", "effect": "NoExecute"},
                    ],
                    "terminationGracePeriodSeconds": 5,
                    "initContainers": [container("install", image, json!({
                        "command": ["/install_multus"],
                        "args": ["--type", "thin", "--dest-dir", "/programs"],
                        "volumeMounts": [{"name": "programs", "mountPath": "/programs"}],
                    }))],
                    "containers": [container(NAME, image, daemon(cx))],
                    "volumes": [
                        {"name": "programs", "hostPath": {"path": paths::CNI_BIN}},
                        {"name": "credentials", "hostPath": {"path": CREDENTIALS, "type": "DirectoryOrCreate"}},
                        {"name": "own", "emptyDir": {}},
                        {"name": "unused", "configMap": {"name": UNUSED}},
                    ],
                },
            },
        },
    });
    if let Some(context) = selinux::host_pod(cx.cluster) {
        set["spec"]["template"]["spec"]["securityContext"] = context;
    }
    set
}

/// Root, for the host's folders, and no capability beside.
fn container(name: &str, image: &str, of: Value) -> Value {
    let mut container = json!({
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}, "limits": {"memory": "100Mi"}},
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    });
    yaml::merge(&mut container, of.as_object().unwrap_or(&serde_json::Map::new()));
    container
}

/// What multus has for this is one program, which also writes the runtime's configuration and removes it when it ends: pods that start
/// then, as all do after a reboot, would lack their further interfaces without a word. But only with that it writes the kubeconfig
/// again when its token changes. So it writes the configuration into a folder of its own, for a network that does not exist, and
/// only the kubeconfig into the host's. Its owner alone can read that.
///
/// The plugin runs on the host and asks the API by the control plane's name, as flannel does; the host's /etc/hosts has it.
fn daemon(cx: &PlanContext<'_>) -> Value {
    json!({
        "command": ["/thin_entrypoint"],
        "args": [
            "--skip-multus-binary-copy",
            "--cni-bin-dir=/own",
            "--cni-conf-dir=/own",
            "--multus-cni-conf-dir=/own/unused",
            "--multus-autoconfig-dir=/unused",
            "--multus-master-cni-file-name=unused.conf",
            "--cleanup-config-on-exit",
        ],
        "env": [
            {"name": "KUBERNETES_SERVICE_HOST", "value": cx.control_plane_name()},
            {"name": "KUBERNETES_SERVICE_PORT", "value": cx.cluster.control_plane_port().to_string()},
        ],
        "volumeMounts": [
            {"name": "own", "mountPath": "/own"},
            {"name": "credentials", "mountPath": "/own/multus.d"},
            {"name": "unused", "mountPath": "/unused", "readOnly": true},
        ],
    })
}
