//! `kubeadm` and `kubectl`: the files an init leaves, and a table of objects.

use serde_json::{Value, json};

use super::state::{Cluster, State};
use super::{FOLDER, RootedSystem, etcd, join};
use crate::OpError;
use crate::system::{Output, System};

const STATIC_PODS: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"];
const CONFIGS: [&str; 5] =
    ["super-admin.conf", "kubelet.conf", "controller-manager.conf", "scheduler.conf", "admin.conf"];
pub(super) const TAINT: &str = "node-role.kubernetes.io/control-plane";

pub(super) const CA_FILE: &str = "/etc/kubernetes/pki/ca.crt";
/// A certificate whose key nobody has; what reads it wants a real one.
pub(super) const CA: &str = "-----BEGIN CERTIFICATE-----\n\
MIIBgDCCASegAwIBAgIULS/YkelPLSpjjDldY8oEwznOfGMwCgYIKoZIzj0EAwIw\n\
FTETMBEGA1UEAwwKa3ViZXJuZXRlczAgFw0yNjExMjExNTA5NDVaGA8yMTI2MTAy\n\
ODE1MDk0NVowFTETMBEGA1UEAwwKa3ViZXJuZXRlczBZMBMGByqGSM49AgEGCCqG\n\
SM49AwEHA0IABBBRs19cQ28PkFVdfdJisw6RNI79WTYH3cbDFwlwTog8nzD0XltG\n\
+EPYmkqqFnlZwVX+GcOEYE33qmYgJRi7TUqjUzBRMB0GA1UdDgQWBBSO0wkT/lwK\n\
CGnGDDp4o0pm+RZnfzAfBgNVHSMEGDAWgBSO0wkT/lwKCGnGDDp4o0pm+RZnfzAP\n\
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIHEky4zs6GQ9dhOgeFE6\n\
vcPwwYXdamsP2gglJY9HRGg8AiAAsJYzqmkIPodESpshgUAIizE7rD/xC7xHZ7cY\n\
pPS9RA==\n\
-----END CERTIFICATE-----\n";
/// Of its public key.
pub(super) const CA_HASH: &str = "sha256:4357c8f91a776f3105a26a97ab1e87b397cf2e8210b2ca6187e831e695c1a98c";

pub(super) fn kubeadm(
    system: &RootedSystem,
    state: &mut State,
    args: &[&str],
    hidden: &[String],
) -> Result<Output, OpError> {
    match args.first().copied() {
        Some("init") if args.get(1..3) == Some(&["phase", "upload-certs"]) => join::upload_certs(system, state, args),
        Some("init") => init(system, state, args),
        Some("join") => join::join(system, state, args),
        Some("reset") => reset(system, state, hidden),
        other => Ok(Output::failed(1, format!("the double of kubeadm does not know {other:?}"))),
    }
}

pub(super) fn put(system: &RootedSystem, path: &str, text: &str) -> Result<(), OpError> {
    let real = system.at(path);
    crate::fsio::make_parent(&real)?;
    std::fs::write(&real, text).map_err(OpError::path("write", &real))
}

/// What `--config` names.
pub(super) fn config(system: &RootedSystem, args: &[&str]) -> Option<String> {
    args.windows(2).find(|pair| pair[0] == "--config").and_then(|pair| system.read(pair[1]))
}

/// What kubeadm's preflight misses of a host.
pub(super) fn not_ready(system: &RootedSystem, state: &State, args: &[&str]) -> Option<String> {
    if !state.units.get("containerd.service").is_some_and(|unit| unit.active) {
        return Some("CRI: the container runtime is not running".to_owned());
    }
    if !state.known.contains_key("kubelet.service") {
        return Some("there is no kubelet.service".to_owned());
    }
    for name in STATIC_PODS {
        if system.at(&format!("/etc/kubernetes/manifests/{name}.yaml")).exists() {
            return Some(format!("FileAvailable--etc-kubernetes-manifests-{name}.yaml"));
        }
    }
    let check = "DirAvailable--var-lib-etcd";
    let ignored = args.iter().filter_map(|arg| arg.strip_prefix("--ignore-preflight-errors="));
    let ignored = ignored.flat_map(|checks| checks.split(',')).any(|ignored| ignored == check);
    let etcd = std::fs::read_dir(system.at("/var/lib/etcd")).is_ok_and(|mut entries| entries.next().is_some());
    (etcd && !ignored).then(|| format!("{check}: /var/lib/etcd is not empty"))
}

/// Certificates that ask etcd.
pub(super) fn put_etcd_keys(system: &RootedSystem) -> Result<(), OpError> {
    for name in ["ca.crt", "healthcheck-client.crt", "healthcheck-client.key"] {
        put(system, &format!("/etc/kubernetes/pki/etcd/{name}"), &format!("double: etcd's {name}\n"))?;
    }
    Ok(())
}

/// Static pods and kubeconfigs of a control plane.
pub(super) fn put_control_plane(system: &RootedSystem, state: &State) -> Result<(), OpError> {
    for name in STATIC_PODS {
        put(system, &format!("/etc/kubernetes/manifests/{name}.yaml"), &format!("double: static pod {name}\n"))?;
    }
    let members: Vec<String> =
        state.cluster.members.values().map(|m| format!("{}=https://{}:2380", m.name, m.address)).collect();
    let own = system.address()?;
    let flags = format!(
        "    - --initial-advertise-peer-urls=https://{own}:2380\n    - --initial-cluster={}\n",
        members.join(",")
    );
    put(system, "/etc/kubernetes/manifests/etcd.yaml", &format!("double: static pod etcd\n{flags}"))?;
    for name in CONFIGS {
        put(system, &format!("/etc/kubernetes/{name}"), &format!("double: {name}\n"))?;
    }
    Ok(())
}

/// A node of the cluster whose kubelet runs.
pub(super) fn register(system: &RootedSystem, state: &mut State, name: String, node: Value) -> Result<(), OpError> {
    put(system, "/var/lib/kubelet/config.yaml", "double: kubelet's config\n")?;
    state.cluster.nodes.insert(name, node);
    state.starts += 1;
    let invocation = format!("{:032x}", state.starts);
    state.units.insert("kubelet.service".to_owned(), super::state::Unit { active: true, invocation });
    Ok(())
}

fn init(system: &RootedSystem, state: &mut State, args: &[&str]) -> Result<Output, OpError> {
    let refuse = |why: String| Ok(Output::failed(1, format!("[preflight] [ERROR] {why}")));
    let Some(config) = config(system, args) else {
        return refuse("--config does not name a file".to_owned());
    };
    if let Some(why) = not_ready(system, state, args) {
        return refuse(why);
    }
    put(system, CA_FILE, CA)?;
    put_etcd_keys(system)?;
    put(system, "/var/lib/etcd/member/snap/db", "double: etcd's data\n")?;
    let kill = system.at(&format!("{FOLDER}/kill-kubeadm-init"));
    if kill.exists() {
        crate::fsio::remove(&kill)?;
        put(system, "/etc/kubernetes/manifests/etcd.yaml", "double: static pod etcd\n")?;
        return Ok(Output::failed(137, "killed half-way"));
    }
    let name = match node_name(&config) {
        Some(name) => name,
        None => system.hostname()?,
    };
    let node = json!({
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, TAINT: ""}},
        "spec": {"taints": [{"key": TAINT, "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    etcd::add(system, state, &name)?;
    put_control_plane(system, state)?;
    register(system, state, name, node)?;
    for (kind, name) in [("Deployment", "coredns"), ("DaemonSet", "kube-proxy")] {
        state.cluster.objects.insert(format!("{kind}/{name}"), format!("kind: {kind}\n"));
    }
    Ok(Output::text("Your Kubernetes control-plane has initialized successfully!\n"))
}

/// `name:` of `nodeRegistration:` in kubeadm's config.
pub(super) fn node_name(config: &str) -> Option<String> {
    let after = config.split_once("nodeRegistration:")?.1;
    let block = after.lines().skip(1).take_while(|line| line.starts_with(' '));
    let name = block.map(str::trim).find_map(|line| line.strip_prefix("name:"))?;
    Some(name.trim().trim_matches('"').to_owned())
}

fn reset(system: &RootedSystem, state: &mut State, hidden: &[String]) -> Result<Output, OpError> {
    let hides = |path: &str| hidden.iter().any(|folder| std::path::Path::new(path).starts_with(folder));
    let folders = ["/etc/kubernetes/manifests", "/etc/kubernetes/pki", "/var/lib/etcd", "/var/lib/kubelet"];
    for path in folders.into_iter().filter(|path| !hides(path)) {
        let real = system.at(path);
        if real.is_dir() {
            std::fs::remove_dir_all(&real).map_err(OpError::path("remove", &real))?;
            // kubeadm empties these folders and leaves them.
            std::fs::create_dir_all(&real).map_err(OpError::path("make the folder", &real))?;
        }
    }
    for path in CONFIGS.map(|name| format!("/etc/kubernetes/{name}")).iter().filter(|path| !hides(path)) {
        crate::fsio::remove(&system.at(path))?;
    }
    // Without a cluster to ask, kubeadm leaves the member in the list: it is dead now. The last one takes all along.
    let own = system.address()?;
    state.cluster.members.values_mut().filter(|m| m.address == own).for_each(|member| member.dead = true);
    if state.cluster.members.values().all(|member| member.dead) {
        state.cluster = Cluster::default();
    }
    if let Some(kubelet) = state.units.get_mut("kubelet.service") {
        kubelet.active = false;
        kubelet.invocation.clear();
    }
    Ok(Output::text("[reset] done\n"))
}

pub(super) fn kubectl(system: &RootedSystem, state: &mut State, args: &[&str], stdin: &[u8]) -> Output {
    // Every kubeconfig of the double leads to any control plane that is up.
    let reachable = system.at("/etc/kubernetes/admin.conf").is_file() && state.cluster.has_quorum();
    if !reachable || state.cluster.nodes.is_empty() {
        return Output::failed(1, "The connection to the server was refused - did you specify the right host or port?");
    }
    let text = String::from_utf8_lossy(stdin).into_owned();
    let args: Vec<&str> = args.iter().copied().skip(4).collect();
    match args.as_slice() {
        ["get", "--raw", "/readyz"] => Output::text("ok"),
        ["get", "-o", "json", "node", name] => match state.cluster.nodes.get(*name) {
            Some(node) => Output::text(node.to_string()),
            None => Output::failed(1, format!("Error from server (NotFound): nodes \"{name}\" not found")),
        },
        ["get", "-o", "json", "--ignore-not-found", "node", name] => {
            Output::text(state.cluster.nodes.get(*name).map(Value::to_string).unwrap_or_default())
        }
        ["get", "-o", "json", "configmap", "kubeadm-config", ..] => {
            let text = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n";
            Output::text(json!({"data": {"ClusterConfiguration": text}}).to_string())
        }
        ["get", "-o", "json", "pods", "--namespace", "kube-system", "--selector", "component=etcd"] => {
            let pods = state.cluster.members.values().map(|member| {
                let url = format!("https://{}:2379", member.address);
                json!({"metadata": {"annotations": {"kubeadm.kubernetes.io/etcd.advertise-client-urls": url}}})
            });
            Output::text(json!({"items": pods.collect::<Vec<_>>()}).to_string())
        }
        ["get", "-o", "json", "pods", ..] => Output::text(pods(state)),
        ["get", "-o", "json", "pod", ..] => Output::text(pod("kubexm-check", &[])),
        ["get", "--namespace", ..] => Output::text("deployment.apps/coredns\ndaemonset.apps/kube-proxy\n"),
        ["get", ..] => {
            let there = documents(&text).filter_map(|(key, _)| {
                let document = state.cluster.objects.get(&key)?;
                Some(as_the_server_has_it(&key, document))
            });
            let there: Vec<Value> = there.collect();
            if there.is_empty() {
                return Output::default();
            }
            Output::text(json!({"apiVersion": "v1", "kind": "List", "items": there}).to_string())
        }
        ["diff", ..] => {
            let same = documents(&text).all(|(key, document)| state.cluster.objects.get(&key) == Some(&document));
            if same { Output::default() } else { Output { code: 1, ..Output::text("+ different") } }
        }
        ["create", ..] => create(state, &text),
        ["delete", "node", name, ..] => {
            state.cluster.nodes.remove(*name);
            Output::default()
        }
        ["delete", "pod", name, ..] => {
            state.cluster.objects.remove(&format!("Pod/{name}"));
            Output::default()
        }
        ["apply", ..] => {
            state.cluster.objects.extend(documents(&text));
            Output::default()
        }
        ["delete", ..] => {
            for (key, _) in documents(&text) {
                state.cluster.objects.remove(&key);
            }
            Output::default()
        }
        ["taint", rest @ ..] => taint(state, rest),
        ["label", rest @ ..] => label(state, rest),
        other => Output::failed(1, format!("the double of kubectl does not know `{}`", other.join(" "))),
    }
}

/// A bootstrap token: without it there is nothing that would be created and not applied.
fn create(state: &mut State, text: &str) -> Output {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
        line.map(|value| value.trim().trim_matches('"').to_owned())
    };
    match (field("token-id:"), field("token-secret:"), field("type:")) {
        (Some(id), Some(secret), Some(kind)) if kind == "bootstrap.kubernetes.io/token" => {
            state.cluster.tokens.push(format!("{id}.{secret}"));
            Output::text(format!("secret/bootstrap-token-{id} created\n"))
        }
        _ => Output::failed(1, "the double of kubectl creates bootstrap tokens alone"),
    }
}

/// An object with what the API server adds to each. A text that is no JSON comes whole, and goes back so.
fn as_the_server_has_it(key: &str, document: &str) -> Value {
    let (kind, name) = key.split_once('/').unwrap_or((key, ""));
    let whole = || json!({"kind": kind, "metadata": {"name": name}, "document": document});
    let mut object = serde_json::from_str(document).unwrap_or_else(|_| whole());
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.insert(field.to_owned(), "of the server".into());
        }
        metadata.insert("managedFields".to_owned(), json!([{"manager": "kubexm"}]));
    }
    if let Some(fields) = object.as_object_mut() {
        fields.insert("status".to_owned(), json!({}));
    }
    object
}

/// `Kind/name` and text of every document; of a list, of each in it.
fn documents(text: &str) -> impl Iterator<Item = (String, String)> + '_ {
    text.split("\n---").map(str::trim).filter(|document| !document.is_empty()).flat_map(|document| {
        if let Ok(object) = serde_json::from_str::<Value>(document) {
            return match object.get("items").and_then(Value::as_array) {
                Some(items) => items.iter().map(of_json).collect(),
                None => vec![of_json(&object)],
            };
        }
        let find =
            |prefix: &str| document.lines().find_map(|line| line.strip_prefix(prefix)).unwrap_or_default().trim();
        vec![(format!("{}/{}", find("kind:"), find("  name:")), document.to_owned())]
    })
}

fn of_json(object: &Value) -> (String, String) {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    let key = format!("{}/{}", text("/kind").unwrap_or_default(), text("/metadata/name").unwrap_or_default());
    (key, text("/document").map_or_else(|| object.to_string(), str::to_owned))
}

fn pods(state: &State) -> String {
    let items: Vec<String> = state
        .cluster
        .objects
        .iter()
        .filter(|(key, _)| key.starts_with("Deployment/") || key.starts_with("DaemonSet/"))
        .map(|(key, document)| {
            let images =
                document.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("image:"));
            pod(key.rsplit('/').next().unwrap_or(key), &images.map(str::trim).collect::<Vec<_>>())
        })
        .collect();
    format!("{{\"items\":[{}]}}", items.join(","))
}

fn pod(name: &str, images: &[&str]) -> String {
    let containers: Vec<_> = images.iter().map(|image| json!({"name": "c", "image": image})).collect();
    json!({
        "metadata": {
            "name": name,
            "namespace": "kube-system",
            "uid": "double",
            "ownerReferences": [{"kind": "DaemonSet", "name": name}],
        },
        "spec": {"containers": containers},
        "status": {"phase": "Running", "podIP": "10.244.0.2", "conditions": [{"type": "Ready", "status": "True"}]},
    })
    .to_string()
}

fn taint(state: &mut State, args: &[&str]) -> Output {
    let words: Vec<&str> = args.iter().copied().filter(|arg| !arg.starts_with("--")).collect();
    let ["node", node, taint] = words.as_slice() else { return Output::failed(1, "taint: wrong arguments") };
    let Some(taints) =
        state.cluster.nodes.get_mut(*node).and_then(|node| node.pointer_mut("/spec/taints")?.as_array_mut())
    else {
        return Output::failed(1, format!("Error from server (NotFound): nodes \"{node}\" not found"));
    };
    match (taint.strip_suffix('-'), taint.split_once(':')) {
        (Some(key), _) if taints.iter().any(|taint| taint["key"] == key) => taints.retain(|taint| taint["key"] != key),
        (Some(key), _) => return Output::failed(1, format!("error: taint \"{key}\" not found")),
        (None, Some((key, effect))) => {
            let (key, value) = key.split_once('=').unwrap_or((key, ""));
            let mut taint = json!({"key": key, "effect": effect});
            if !value.is_empty() {
                taint["value"] = json!(value);
            }
            taints.push(taint);
        }
        (None, None) => return Output::failed(1, "taint: wrong arguments"),
    }
    Output::default()
}

fn label(state: &mut State, args: &[&str]) -> Output {
    let words: Vec<&str> = args.iter().copied().filter(|arg| !arg.starts_with("--")).collect();
    let ["node", node, label] = words.as_slice() else { return Output::failed(1, "label: wrong arguments") };
    let Some(labels) =
        state.cluster.nodes.get_mut(*node).and_then(|node| node.pointer_mut("/metadata/labels")?.as_object_mut())
    else {
        return Output::failed(1, format!("Error from server (NotFound): nodes \"{node}\" not found"));
    };
    match (label.split_once('='), label.strip_suffix('-')) {
        (Some((key, value)), _) => drop(labels.insert(key.to_owned(), json!(value))),
        (None, Some(key)) => drop(labels.remove(key)),
        (None, None) => return Output::failed(1, "label: wrong arguments"),
    }
    Output::default()
}
