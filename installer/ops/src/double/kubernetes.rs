//! `kubeadm` and `kubectl`: the files an init leaves, and a table of objects.

use serde_json::json;

use super::state::State;
use super::{FOLDER, RootedSystem};
use crate::OpError;
use crate::system::{Output, System};

const STATIC_PODS: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"];
const CONFIGS: [&str; 5] =
    ["super-admin.conf", "kubelet.conf", "controller-manager.conf", "scheduler.conf", "admin.conf"];
const TAINT: &str = "node-role.kubernetes.io/control-plane";

pub(super) fn kubeadm(system: &RootedSystem, state: &mut State, args: &[&str]) -> Result<Output, OpError> {
    match args.first().copied() {
        Some("init") => init(system, state, args),
        Some("reset") => reset(system, state),
        other => Ok(Output::failed(1, format!("the double of kubeadm does not know {other:?}"))),
    }
}

fn put(system: &RootedSystem, path: &str, text: &str) -> Result<(), OpError> {
    let real = system.at(path);
    crate::fsio::make_parent(&real)?;
    std::fs::write(&real, text).map_err(OpError::path("write", &real))
}

fn init(system: &RootedSystem, state: &mut State, args: &[&str]) -> Result<Output, OpError> {
    let refuse = |why: String| Ok(Output::failed(1, format!("[preflight] [ERROR] {why}")));
    let Some(config) = args.windows(2).find(|pair| pair[0] == "--config").and_then(|pair| system.read(pair[1])) else {
        return refuse("--config does not name a file".to_owned());
    };
    if !state.units.get("containerd.service").is_some_and(|unit| unit.active) {
        return refuse("CRI: the container runtime is not running".to_owned());
    }
    if !state.known.contains_key("kubelet.service") {
        return refuse("there is no kubelet.service".to_owned());
    }
    for name in STATIC_PODS {
        if system.at(&format!("/etc/kubernetes/manifests/{name}.yaml")).exists() {
            return refuse(format!("FileAvailable--etc-kubernetes-manifests-{name}.yaml"));
        }
    }
    if system.at("/var/lib/etcd/member").exists() {
        return refuse("DirAvailable--var-lib-etcd: /var/lib/etcd is not empty".to_owned());
    }
    put(system, "/etc/kubernetes/pki/ca.crt", "double: cluster CA\n")?;
    put(system, "/var/lib/etcd/member/snap/db", "double: etcd's data\n")?;
    let kill = system.at(&format!("{FOLDER}/kill-kubeadm-init"));
    if kill.exists() {
        crate::fsio::remove(&kill)?;
        put(system, "/etc/kubernetes/manifests/etcd.yaml", "double: static pod etcd\n")?;
        return Ok(Output::failed(137, "killed half-way"));
    }
    for name in STATIC_PODS {
        put(system, &format!("/etc/kubernetes/manifests/{name}.yaml"), &format!("double: static pod {name}\n"))?;
    }
    for name in CONFIGS {
        put(system, &format!("/etc/kubernetes/{name}"), &format!("double: {name}\n"))?;
    }
    put(system, "/var/lib/kubelet/config.yaml", "double: kubelet's config\n")?;
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
    state.nodes.insert(name, node);
    for (kind, name) in [("Deployment", "coredns"), ("DaemonSet", "kube-proxy")] {
        state.objects.insert(format!("{kind}/{name}"), format!("kind: {kind}\n"));
    }
    state.starts += 1;
    let invocation = format!("{:032x}", state.starts);
    state.units.insert("kubelet.service".to_owned(), super::state::Unit { active: true, invocation });
    Ok(Output::text("Your Kubernetes control-plane has initialized successfully!\n"))
}

/// `name:` of `nodeRegistration:` in kubeadm's config.
fn node_name(config: &str) -> Option<String> {
    let after = config.split_once("nodeRegistration:")?.1;
    let block = after.lines().skip(1).take_while(|line| line.starts_with(' '));
    let name = block.map(str::trim).find_map(|line| line.strip_prefix("name:"))?;
    Some(name.trim().trim_matches('"').to_owned())
}

fn reset(system: &RootedSystem, state: &mut State) -> Result<Output, OpError> {
    for path in ["/etc/kubernetes/manifests", "/etc/kubernetes/pki", "/var/lib/etcd", "/var/lib/kubelet"] {
        let real = system.at(path);
        if real.is_dir() {
            std::fs::remove_dir_all(&real).map_err(OpError::path("remove", &real))?;
            // kubeadm empties these folders and leaves them.
            std::fs::create_dir_all(&real).map_err(OpError::path("make the folder", &real))?;
        }
    }
    for name in CONFIGS {
        crate::fsio::remove(&system.at(&format!("/etc/kubernetes/{name}")))?;
    }
    state.nodes.clear();
    state.objects.clear();
    if let Some(kubelet) = state.units.get_mut("kubelet.service") {
        kubelet.active = false;
        kubelet.invocation.clear();
    }
    Ok(Output::text("[reset] done\n"))
}

pub(super) fn kubectl(state: &mut State, args: &[&str], stdin: &[u8]) -> Output {
    if state.nodes.is_empty() {
        return Output::failed(1, "The connection to the server was refused - did you specify the right host or port?");
    }
    let text = String::from_utf8_lossy(stdin).into_owned();
    let args: Vec<&str> = args.iter().copied().skip(3).collect();
    match args.as_slice() {
        ["get", "--raw", "/readyz"] => Output::text("ok"),
        ["get", "-o", "json", "node", name] => match state.nodes.get(*name) {
            Some(node) => Output::text(node.to_string()),
            None => Output::failed(1, format!("Error from server (NotFound): nodes \"{name}\" not found")),
        },
        ["get", "-o", "json", "pods", ..] => Output::text(pods(state)),
        ["get", "-o", "json", "pod", ..] => Output::text(pod("kubexm-check", &[])),
        ["get", "--namespace", ..] => Output::text("deployment.apps/coredns\ndaemonset.apps/kube-proxy\n"),
        ["get", ..] => Output::text(
            documents(&text)
                .filter(|(key, _)| state.objects.contains_key(key))
                .map(|(key, _)| key + "\n")
                .collect::<String>(),
        ),
        ["diff", ..] => {
            let same = documents(&text).all(|(key, document)| state.objects.get(&key) == Some(&document));
            if same { Output::default() } else { Output { code: 1, ..Output::text("+ different") } }
        }
        ["apply", ..] => {
            state.objects.extend(documents(&text));
            Output::default()
        }
        ["delete", ..] => {
            for (key, _) in documents(&text) {
                state.objects.remove(&key);
            }
            Output::default()
        }
        ["taint", rest @ ..] => taint(state, rest),
        ["label", rest @ ..] => label(state, rest),
        other => Output::failed(1, format!("the double of kubectl does not know `{}`", other.join(" "))),
    }
}

/// `Kind/name` and text of every document.
fn documents(text: &str) -> impl Iterator<Item = (String, String)> + '_ {
    text.split("\n---").map(str::trim).filter(|document| !document.is_empty()).map(|document| {
        let find =
            |prefix: &str| document.lines().find_map(|line| line.strip_prefix(prefix)).unwrap_or_default().trim();
        (format!("{}/{}", find("kind:"), find("  name:")), document.to_owned())
    })
}

fn pods(state: &State) -> String {
    let items: Vec<String> = state
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
        "metadata": {"name": name, "namespace": "kube-system", "uid": "double"},
        "spec": {"containers": containers},
        "status": {"phase": "Running", "podIP": "10.244.0.2", "conditions": [{"type": "Ready", "status": "True"}]},
    })
    .to_string()
}

fn taint(state: &mut State, args: &[&str]) -> Output {
    let words: Vec<&str> = args.iter().copied().filter(|arg| !arg.starts_with("--")).collect();
    let ["node", node, taint] = words.as_slice() else { return Output::failed(1, "taint: wrong arguments") };
    let Some(taints) = state.nodes.get_mut(*node).and_then(|node| node.pointer_mut("/spec/taints")?.as_array_mut())
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
        state.nodes.get_mut(*node).and_then(|node| node.pointer_mut("/metadata/labels")?.as_object_mut())
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
