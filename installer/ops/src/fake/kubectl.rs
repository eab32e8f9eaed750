//! `kubectl`: a table of objects.

use kubexm_plan::kubeadm_certificates::READ_BY;
use serde_json::{Value, json};

use super::control_plane::CA_FILE;
use super::objects::{documents, file_name, with_server_fields, without_namespace, without_server_fields};
use super::releases;
use super::rooted::{FOLDER, RootedSystem};
use super::state::State;
use super::versions;
use crate::system::Output;

const KINDS: &str = "configmaps cm v1 true ConfigMap\nsecrets v1 true Secret\nnamespaces ns v1 false Namespace\n\
                     persistentvolumeclaims pvc v1 true PersistentVolumeClaim\ndeployments deploy apps/v1 true Deployment\n\
                     jobs batch/v1 true Job\nwidgets example.com/v1 true Widget\n";

pub(super) fn kubectl(system: &RootedSystem, state: &mut State, args: &[&str], stdin: &[u8]) -> Output {
    // Every kubeconfig of the fake reaches any control plane that is up.
    // `api-down`: it runs, and does not answer.
    let reachable = system.at("/etc/kubernetes/admin.conf").is_file()
        && state.cluster.has_quorum()
        && !system.at("/run/kubexm-double/api-down").exists();
    if !reachable || state.cluster.nodes.is_empty() {
        return Output::failed(1, "The connection to the server was refused - did you specify the right host or port?");
    }
    let text = String::from_utf8_lossy(stdin).into_owned();
    let args: Vec<&str> = args.iter().copied().skip(4).collect();
    match args.as_slice() {
        ["get", "--raw", "/readyz"] => Output::text("ok"),
        // `without-loopback`: 127.0.0.1 is not in its certificate, as kubeadm makes it by itself.
        ["--server", "https://127.0.0.1:6443", "get", "--raw", "/readyz"]
            if system.setting("without-loopback").unwrap_or(false) =>
        {
            let why =
                "tls: failed to verify certificate: x509: certificate is valid for 10.233.0.1, 10.0.0.1, not 127.0.0.1";
            Output::failed(1, format!("Unable to connect to the server: {why}"))
        }
        ["--server", "https://127.0.0.1:6443", "get", "--raw", "/readyz"]
        | ["--server", "https://127.0.0.1:6443", "--tls-server-name", "kubernetes", "get", "--raw", "/readyz"] => {
            let answers = state.api_server.as_ref().is_some_and(|server| !server.ended);
            if answers {
                Output::text("ok")
            } else {
                Output::failed(1, "The connection to the server 127.0.0.1:6443 was refused")
            }
        }
        ["--server", "https://127.0.0.1:6443", "get", "-o", "json", "nodes"] => {
            Output::text(json!({"items": state.cluster.nodes.values().collect::<Vec<_>>()}).to_string())
        }
        ["--server", "https://127.0.0.1:6443", "delete", "node", names @ .., "--ignore-not-found", "--wait=false"] => {
            names.iter().for_each(|name| drop(state.cluster.nodes.remove(*name)));
            Output::text("deleted\n")
        }
        ["get", "--raw", path] => raw(system, state, path),
        ["get", "-o", "json", "node", name] => match state.cluster.nodes.get(*name) {
            Some(node) => Output::text(node.to_string()),
            None => Output::failed(1, format!("Error from server (NotFound): nodes \"{name}\" not found")),
        },
        ["get", "-o", "json", "--ignore-not-found", "node", name] => {
            Output::text(state.cluster.nodes.get(*name).map(Value::to_string).unwrap_or_default())
        }
        ["get", "-o", "json", "configmap", name @ ("kubeadm-config" | "kubelet-config"), ..] => {
            let key = format!("ConfigMap/{name}");
            if let Some(document) = state.cluster.objects.get(&key) {
                return Output::text(with_server_fields(&key, document).to_string());
            }
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
        ["get", "-o", "json", "pods", "--namespace", "kube-system", "--selector", "tier=control-plane"] => {
            Output::text(json!({"items": control_plane_pods(state)}).to_string())
        }
        // `workloads.json` has what the cluster runs, of any kind.
        ["get", "-o", "json", "--all-namespaces", _] => {
            Output::text(json!({"kind": "List", "items": workloads(system)}).to_string())
        }
        ["get", "lease", name, ..] => {
            Output::text(state.cluster.objects.get(&format!("Lease/{name}")).cloned().unwrap_or_default())
        }
        ["delete", "lease", name, ..] => {
            state.cluster.objects.remove(&format!("Lease/{name}"));
            Output::default()
        }
        // `kube-proxy-image`: what its DaemonSet has.
        ["get", "-o", "json", "daemonset", "kube-proxy", ..] => match system.setting::<String>("kube-proxy-image") {
            Some(image) => Output::text(kube_proxy(&image).to_string()),
            None => Output::default(),
        },
        ["get", "-o", "json", "pods", ..] => Output::text(pods(state)),
        ["get", "-o", "json", "pod", ..] => Output::text(pod("kubexm-check", &[])),
        ["get", "--namespace", _, _, "daemonset/kube-proxy", ..]
            if !state.cluster.objects.contains_key("DaemonSet/kube-proxy") =>
        {
            Output::failed(1, "Error from server (NotFound): daemonsets.apps \"kube-proxy\" not found")
        }
        ["get", "--namespace", ..] => Output::text("deployment.apps/coredns\ndaemonset.apps/kube-proxy\n"),
        // `incomplete-apis`: an aggregated API does not answer.
        ["api-resources", ..] if system.setting("incomplete-apis").unwrap_or(false) => {
            let error =
                "error: unable to retrieve the complete list of server APIs: metrics.k8s.io/v1beta1: not available";
            Output { stdout: KINDS.into(), ..Output::failed(1, error) }
        }
        ["api-resources", ..] => Output::text(KINDS),
        ["rollout" | "wait", ..] => Output::default(),
        ["logs", ..] => Output::text("the check found nothing\n"),
        ["annotate", "--overwrite", "--namespace", namespace, "secret", name, note] => {
            releases::annotate(state, namespace, name, note)
        }
        ["annotate", ..] => Output::default(),
        ["replace", "--filename", "-"] => {
            let kept = documents(&text).map(|(key, document)| (key, without_server_fields(document)));
            state.cluster.objects.extend(kept);
            Output::default()
        }
        ["replace", "--namespace", namespace, ..] => releases::replace(state, namespace, &text),
        ["get", options @ ..] => {
            let namespace = options.iter().zip(options.iter().skip(1)).find(|(option, _)| **option == "--namespace");
            let there = documents(&text).filter_map(|(key, _)| {
                let document = state.cluster.objects.get(&key)?;
                let mut object = with_server_fields(&key, document);
                if let (Some((_, namespace)), false) = (namespace, key.starts_with("Namespace/")) {
                    object["metadata"]["namespace"] = (*namespace).into();
                }
                Some(object)
            });
            let there: Vec<Value> = there.collect();
            if there.is_empty() {
                return Output::default();
            }
            Output::text(json!({"apiVersion": "v1", "kind": "List", "items": there}).to_string())
        }
        ["diff", options @ ..] => {
            let namespace = options.iter().zip(options.iter().skip(1)).find(|(option, _)| **option == "--namespace");
            let namespace = namespace.map_or("default", |(_, namespace)| namespace);
            let has = |key: &String| state.cluster.objects.get(key).map(|document| without_namespace(document));
            let differ = documents(&text).filter(|(key, document)| has(key) != Some(without_namespace(document)));
            let name = |(_, document): (String, String)| file_name(&document, namespace);
            let lines: String =
                differ.map(name).map(|name| format!("diff -u -N /tmp/LIVE/{name} /tmp/MERGED/{name}\n")).collect();
            Output { code: i32::from(!lines.is_empty()), ..Output::text(lines) }
        }
        ["create", ..] => create(state, &text),
        ["delete", "--ignore-not-found", "--namespace", _, "configmap", name] => {
            state.cluster.objects.remove(&format!("ConfigMap/{name}"));
            Output::default()
        }
        ["delete", "node", name, ..] => {
            state.cluster.nodes.remove(*name);
            // As the garbage collector does, by the owner.
            state.cluster.objects.remove(&format!("ConfigMap/kubexm-node-{name}"));
            Output::default()
        }
        ["drain", name, options @ ..] => drain(system, state, name, options),
        ["uncordon", name] => match state.cluster.nodes.get_mut(*name).and_then(|node| node["spec"].as_object_mut()) {
            Some(spec) => {
                spec.remove("unschedulable");
                Output::text(format!("node/{name} uncordoned\n"))
            }
            None => Output::failed(1, format!("Error from server (NotFound): nodes \"{name}\" not found")),
        },
        ["patch", "node", name, "--type=merge", "--patch", patch] => match state.cluster.nodes.get_mut(*name) {
            Some(node) => {
                merge(node, &serde_json::from_str(patch).unwrap_or_default());
                // As the API server writes it out.
                if let Some(metadata) = node["metadata"].as_object_mut()
                    && metadata.get("annotations").is_some_and(|all| *all == json!({}))
                {
                    metadata.remove("annotations");
                }
                Output::text(format!("node/{name} patched\n"))
            }
            None => Output::failed(1, format!("Error from server (NotFound): nodes \"{name}\" not found")),
        },
        ["patch", "configmap", name, "--namespace", _, "--type=merge", "--patch", patch] => {
            let key = format!("ConfigMap/{name}");
            let Some(document) = state.cluster.objects.get_mut(&key) else {
                return Output::failed(1, format!("Error from server (NotFound): configmaps \"{name}\" not found"));
            };
            let mut object: Value = serde_json::from_str(document).unwrap_or_default();
            merge(&mut object, &serde_json::from_str(patch).unwrap_or_default());
            *document = object.to_string();
            Output::text(format!("configmap/{name} patched\n"))
        }
        ["delete", .., "namespace", name] => {
            state.cluster.objects.remove(&format!("Namespace/{name}"));
            Output::default()
        }
        ["delete", "pod", name, ..] => {
            state.cluster.objects.remove(&format!("Pod/{name}"));
            Output::default()
        }
        ["apply", options @ ..] => {
            let namespace = options.iter().zip(options.iter().skip(1)).find(|(option, _)| **option == "--namespace");
            let namespace = namespace.map_or("default", |(_, namespace)| namespace);
            let text = releases::put_back(state, namespace, &text);
            // An object that names the namespace which it is given anyway is the same one.
            let named = format!("\"namespace\":\"{namespace}\"");
            let stored = |(key, document): (String, String)| match document.contains(&named) {
                true => (key, without_namespace(&document)),
                false => (key, document),
            };
            state.cluster.objects.extend(documents(&text).map(stored));
            Output::default()
        }
        ["delete", ..] => {
            for (key, _) in documents(&text) {
                state.cluster.objects.remove(&key);
            }
            Output::default()
        }
        ["taint", rest @ ..] => taint(state, rest),
        other => Output::failed(1, format!("the fake kubectl does not know `{}`", other.join(" "))),
    }
}

/// A JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(object) = target.as_object_mut() else { return };
    for (key, value) in fields {
        if value.is_null() {
            object.remove(key);
        } else {
            merge(object.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Pods that a test has put into `workloads.json` of the host that is asked.
fn workloads(system: &RootedSystem) -> Vec<Value> {
    system.setting("workloads.json").unwrap_or_default()
}

/// Pods in a namespace with a budget (`budgets.json`) stay; those without a controller need `--force`.
fn drain(system: &RootedSystem, state: &mut State, name: &str, options: &[&str]) -> Output {
    let Some(spec) = state.cluster.nodes.get_mut(name).and_then(|node| node["spec"].as_object_mut()) else {
        return Output::failed(1, format!("Error from server (NotFound): nodes \"{name}\" not found"));
    };
    spec.insert("unschedulable".to_owned(), json!(true));
    let (there, mut rest): (Vec<Value>, Vec<Value>) =
        workloads(system).into_iter().partition(|pod| pod["spec"]["nodeName"] == name);
    if !options.contains(&"--force") && there.iter().any(|pod| pod["metadata"]["ownerReferences"].is_null()) {
        return Output::failed(1, "cannot delete Pods that declare no controller (use --force to override)");
    }
    let budgets: Vec<Value> = system.setting("budgets.json").unwrap_or_default();
    let held =
        |pod: &&Value| budgets.iter().any(|budget| budget["metadata"]["namespace"] == pod["metadata"]["namespace"]);
    let left: Vec<Value> = there.iter().filter(held).cloned().collect();
    let stays = !left.is_empty();
    rest.extend(left);
    if system.at(&format!("{FOLDER}/workloads.json")).exists()
        && let Err(error) = system.put("workloads.json", Value::Array(rest).to_string().as_bytes())
    {
        return Output::failed(1, error.full());
    }
    if stays {
        return Output::failed(1, "error when evicting pods: global timeout reached");
    }
    Output::text(format!("node/{name} drained\n"))
}

/// The API server's answer for a path.
/// Its DaemonSet.
fn kube_proxy(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"image": image}]}}}})
}

fn raw(system: &RootedSystem, state: &State, path: &str) -> Output {
    if let Some(revisions) = releases::listed(state, path) {
        return revisions;
    }
    if let Some(query) = path.strip_prefix("/api/v1/pods?fieldSelector=spec.nodeName%3D") {
        let number = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.parse::<usize>().ok());
        let (first, most) = (number("continue=").unwrap_or(0), number("limit=").unwrap_or(usize::MAX));
        let node = query.split(['%', '&']).next().unwrap_or_default();
        let is_there = |pod: &Value| {
            let ended = ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase);
            pod["spec"]["nodeName"] == node && !ended
        };
        let mut there = workloads(system).into_iter().filter(is_there).skip(first);
        let page: Vec<Value> = there.by_ref().take(most).collect();
        let next = there.next().map(|_| (first + page.len()).to_string());
        return Output::text(json!({"metadata": {"continue": next}, "items": page}).to_string());
    }
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let page_of = |all: Vec<Value>| {
        let number = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.parse::<usize>().ok());
        let (first, most) = (number("continue=").unwrap_or(0), number("limit=").unwrap_or(usize::MAX));
        let mut there = all.into_iter().skip(first);
        let page: Vec<Value> = there.by_ref().take(most).collect();
        let next = there.next().map(|_| (first + page.len()).to_string());
        json!({"metadata": {"continue": next}, "items": page})
    };
    let budgets = || system.setting::<Vec<Value>>("budgets.json").unwrap_or_default();
    let found = match path.trim_start_matches("/api/v1/") {
        "/version" => Some(json!({"gitVersion": versions::version_of_api(state)})),
        "/metrics" => return Output::text(String::new()),
        "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy" => {
            system.setting::<String>("kube-proxy-image").map(|image| kube_proxy(&image))
        }
        "/apis/policy/v1/poddisruptionbudgets" => Some(page_of(budgets())),
        "nodes" => Some(json!({"items": state.cluster.nodes.values().collect::<Vec<_>>()})),
        "namespaces/kube-system/configmaps" => {
            let maps = state.cluster.objects.iter().filter(|(key, _)| key.starts_with("ConfigMap/kubexm-"));
            let maps: Vec<Value> = maps.map(|(key, document)| with_server_fields(key, document)).collect();
            Some(json!({ "items": maps }))
        }
        "namespaces/kube-system/pods" => Some(json!({"items": static_pods(state)})),
        // As the controller manager of any control plane writes it.
        "namespaces/kube-system/configmaps/kube-root-ca.crt" => {
            system.read(CA_FILE).map(|ca| json!({"data": {"ca.crt": ca}}))
        }
        other if is_namespace(state, other) => Some(json!({"kind": "Namespace"})),
        other => {
            let folders = ["namespaces/kube-system/configmaps/", "namespaces/kube-public/configmaps/"];
            let name = folders.iter().find_map(|folder| other.strip_prefix(folder)).unwrap_or_default();
            let key = format!("ConfigMap/{name}");
            state.cluster.objects.get(&key).map(|document| with_server_fields(&key, document))
        }
    };
    match found {
        Some(object) => Output::text(object.to_string()),
        None => Output::failed(1, format!("Error from server (NotFound): {path} not found")),
    }
}

fn is_namespace(state: &State, path: &str) -> bool {
    let name = path.strip_prefix("namespaces/").unwrap_or_default();
    ["default", "kube-system"].contains(&name) || state.cluster.objects.contains_key(&format!("Namespace/{name}"))
}

/// The API server of each control plane whose etcd is up.
fn static_pods(state: &State) -> Vec<Value> {
    let pod = |name: &str| {
        let image = versions::image_of(state, name, "kube-apiserver");
        json!({
            "metadata": {"name": format!("kube-apiserver-{name}"), "labels": {"component": "kube-apiserver"}},
            "spec": {"nodeName": name, "containers": [{"image": image}]},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"restartCount": 1}],
            },
        })
    };
    state.cluster.api_servers().into_iter().map(pod).collect()
}

/// Every static pod of each control plane whose etcd is up.
fn control_plane_pods(state: &State) -> Vec<Value> {
    let stacked = !state.cluster.apart;
    let pods = || READ_BY.into_iter().map(|(pod, _)| pod).filter(|pod| stacked || *pod != "etcd");
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let pod = |node: &str, name: &str| {
        let image = versions::image_of(state, node, name);
        json!({
            "metadata": {"name": format!("{name}-{node}")},
            "spec": {"containers": [{"image": image}]},
            "status": ready,
        })
    };
    let up = state.cluster.api_servers();
    up.iter().flat_map(|node| pods().map(|name| pod(node, name))).collect()
}

/// `kubectl create`, which is used for bootstrap tokens only.
fn create(state: &mut State, text: &str) -> Output {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
        line.map(|value| value.trim().trim_matches('"').to_owned())
    };
    if let Some((key, document)) = documents(text).find(|(key, _)| key.starts_with("Lease/")) {
        if state.cluster.objects.contains_key(&key) {
            return Output::failed(1, format!("Error from server (AlreadyExists): {key} already exists"));
        }
        state.cluster.objects.insert(key, document);
        return Output::default();
    }
    match (field("token-id:"), field("token-secret:"), field("type:")) {
        (Some(id), Some(secret), Some(kind)) if kind == "bootstrap.kubernetes.io/token" => {
            state.cluster.tokens.push(format!("{id}.{secret}"));
            Output::text(format!("secret/bootstrap-token-{id} created\n"))
        }
        _ => Output::failed(1, "the fake kubectl creates bootstrap tokens and leases alone"),
    }
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
    let Some(spec) = state.cluster.nodes.get_mut(*node).map(|node| &mut node["spec"]) else {
        return Output::failed(1, format!("Error from server (NotFound): nodes \"{node}\" not found"));
    };
    if spec["taints"].is_null() {
        spec["taints"] = json!([]);
    }
    let Some(taints) = spec["taints"].as_array_mut() else { return Output::failed(1, "taints is no list") };
    let removes = taint.strip_suffix('-');
    let (name, effect) =
        removes.unwrap_or(taint).split_once(':').map_or((removes.unwrap_or(taint), None), |(n, e)| (n, Some(e)));
    let (key, value) = name.split_once('=').unwrap_or((name, ""));
    let same = |one: &Value| one["key"] == key && effect.is_none_or(|effect| one["effect"] == effect);
    let found = taints.iter().any(same);
    match (removes, effect) {
        (Some(what), _) if !found => return Output::failed(1, format!("error: taint \"{what}\" not found")),
        (Some(_), _) => taints.retain(|one| !same(one)),
        (None, Some(effect)) => {
            taints.retain(|one| !same(one));
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
