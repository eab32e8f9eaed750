//! `kubeadm init` and `kubeadm reset`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_plan::etcd::KEYSPACE;
use kubexm_plan::kubeadm_certificates::{CLUSTER_CA_SECRET, MANAGED};
use serde_json::json;

use super::control_plane::{
    CA, CA_FILE, CA_KEY, CONFIGS, TAINT, config, has_external_etcd, node_name, not_ready, put, put_control_plane,
    put_etcd_keys, register,
};
use super::rooted::{FOLDER, RootedSystem};
use super::state::{Cluster, ETCD_FOLDER, State};
use super::{api_server, control_plane, etcd, external_ca, join, upgrade};
use crate::OpError;
use crate::system::{Output, System as _};

pub(super) fn kubeadm(
    system: &RootedSystem,
    state: &mut State,
    args: &[&str],
    hidden: &[String],
) -> Result<Output, OpError> {
    match args.first().copied() {
        Some("init") if args.get(1..3) == Some(&["phase", "upload-certs"]) => join::upload_certs(system, state, args),
        Some("init") if args.get(1..3) == Some(&["phase", "upload-config"]) => {
            upgrade::upload_config(system, state, args)
        }
        Some("init") => init(system, state, args),
        Some("config") if args.get(1) == Some(&"images") => Ok(upgrade::images(system, state, args)),
        Some("config") => Ok(upgrade::validate(system, args)),
        Some("upgrade") => upgrade::upgrade(system, state, args),
        Some("join") => join::join(system, state, args),
        Some("reset") => reset(system, state, hidden),
        Some("certs") => certs(system, args),
        Some("kubeconfig") => kubeconfig(args),
        other => Ok(Output::failed(1, format!("the fake kubeadm does not know {other:?}"))),
    }
}

fn init(system: &RootedSystem, state: &mut State, args: &[&str]) -> Result<Output, OpError> {
    let refuse = |why: String| Ok(Output::failed(1, format!("[preflight] [ERROR] {why}")));
    let Some(config) = config(system, args) else {
        return refuse("--config does not name a file".to_owned());
    };
    state.cluster.etcd_folder = control_plane::etcd_folder(&config).filter(|folder| folder != ETCD_FOLDER);
    if let Some(why) = not_ready(system, state, args) {
        return refuse(why);
    }
    // kubeadm signs with a CA that it finds, and makes one otherwise.
    match (system.at(CA_FILE).exists(), system.at(CLUSTER_CA_SECRET).exists()) {
        (true, true) => {}
        (true, false) => {
            if let Some(missing) = external_ca::missing(system) {
                return refuse(format!("invalid or incomplete external CA: {missing}"));
            }
        }
        (false, _) => {
            put(system, CA_FILE, CA)?;
            put(system, CLUSTER_CA_SECRET, CA_KEY)?;
        }
    }
    let external = has_external_etcd(&config);
    if let Some(keyspace) = system.read(KEYSPACE).filter(|_| external) {
        state.cluster.apart = true;
        state.cluster.their_etcd = keyspace.lines().skip(1).map(str::to_owned).collect();
    }
    let mut had = Vec::new();
    if external && !state.cluster.has_quorum() {
        return refuse("ExternalEtcdVersion: etcd does not answer".to_owned());
    }
    if !external {
        put_etcd_keys(system)?;
        let data = format!("{}/member/snap/db", state.cluster.etcd_folder());
        match system.read(&data) {
            // Of a backup; a line of it names the nodes that it has.
            Some(text) => had = nodes_in(&text),
            None => put(system, &data, "double: etcd's data\n")?,
        }
    }
    let kill = system.at(&format!("{FOLDER}/kill-kubeadm-init"));
    if kill.exists() {
        crate::fsio::remove(&kill)?;
        let pod = if external { "kube-apiserver" } else { "etcd" };
        put(system, &format!("/etc/kubernetes/manifests/{pod}.yaml"), &format!("double: static pod {pod}\n"))?;
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
    state.cluster.version = upgrade::configured(&config);
    state.cluster.made_with.clone_from(&state.cluster.version);
    match external {
        true => {
            state.cluster.planes.insert(name.clone());
            let text =
                config.split("---\n").find(|text| text.contains("kind: ClusterConfiguration")).unwrap_or_default();
            let metadata = json!({"name": "kubeadm-config", "namespace": "kube-system"});
            let object = json!({"kind": "ConfigMap", "metadata": metadata, "data": {"ClusterConfiguration": text}});
            state.cluster.objects.insert("ConfigMap/kubeadm-config".to_owned(), object.to_string());
        }
        false => etcd::add(system, state, &name)?,
    }
    state.cluster.api_server_files = api_server::files(&config);
    put_control_plane(system, state)?;
    let info = format!(
        "clusters:\n- cluster:\n    certificate-authority-data: {}\n",
        BASE64.encode(system.read(CA_FILE).unwrap_or_default())
    );
    let metadata = json!({"name": "cluster-info", "namespace": "kube-public"});
    let object = json!({"kind": "ConfigMap", "metadata": metadata, "data": {"kubeconfig": info}});
    state.cluster.objects.insert("ConfigMap/cluster-info".to_owned(), object.to_string());
    register(system, state, name, node)?;
    for name in had {
        let node = json!({"kind": "Node", "metadata": {"name": name}, "spec": {}, "status": {"conditions": []}});
        state.cluster.nodes.entry(name).or_insert(node);
    }
    let skipped = |name: &str| config.contains(&format!("- addon/{name}"));
    for (kind, name) in [("Deployment", "coredns"), ("DaemonSet", "kube-proxy")] {
        if skipped(name) {
            continue;
        }
        state.cluster.objects.insert(format!("{kind}/{name}"), format!("kind: {kind}\n"));
    }
    Ok(Output::text("Your Kubernetes control-plane has initialized successfully!\n"))
}

/// `nodes: node1 node2`.
fn nodes_in(data: &str) -> Vec<String> {
    let line = data.lines().find_map(|line| line.strip_prefix("nodes: ")).unwrap_or_default();
    line.split_whitespace().map(str::to_owned).collect()
}

/// `kubeadm certs renew NAME`: the content is another one each time, and the same for every run that renews it once.
fn certs(system: &RootedSystem, args: &[&str]) -> Result<Output, OpError> {
    let Some(["certs", "renew", name]) = args.get(..3) else { return Ok(Output::failed(1, "unknown command")) };
    let Some((_, path)) = MANAGED.iter().find(|(known, _)| known == name) else {
        return Ok(Output::failed(1, format!("unknown command {name:?} for \"kubeadm certs renew\"")));
    };
    if !system.at(CA_FILE).is_file() {
        return Ok(Output::failed(1, "couldn't load CA certificate"));
    }
    for file in [(*path).to_owned(), path.replace(".crt", ".key")] {
        let Some(text) = system.read(&file) else {
            return Ok(Output::failed(1, format!("failed to load existing certificate {name}: no {file}")));
        };
        let renewed = format!("{text}renewed\n");
        let real = system.at(&file);
        std::fs::write(&real, renewed).map_err(OpError::path("write", &real))?;
        if !path.ends_with(".crt") {
            break;
        }
    }
    Ok(Output::text(format!("certificate {name} renewed\n")))
}

/// `kubeadm kubeconfig user`, with a certificate and a key in it.
fn kubeconfig(args: &[&str]) -> Result<Output, OpError> {
    let name = args.windows(2).find(|pair| pair[0] == "--client-name").map(|pair| pair[1]);
    let (Some("user"), Some(name)) = (args.get(1).copied(), name) else {
        return Ok(Output::failed(1, "required flag(s) \"client-name\" not set"));
    };
    let block =
        |tag: &str| BASE64.encode(format!("-----BEGIN {tag}-----\n{}\n-----END {tag}-----\n", BASE64.encode(name)));
    Ok(Output::text(format!(
        "    client-certificate-data: {}\n    client-key-data: {}\n",
        block("CERTIFICATE"),
        block("RSA PRIVATE KEY")
    )))
}

fn reset(system: &RootedSystem, state: &mut State, hidden: &[String]) -> Result<Output, OpError> {
    let hides = |path: &str| hidden.iter().any(|folder| std::path::Path::new(path).starts_with(folder));
    let folders = ["/etc/kubernetes/manifests", "/etc/kubernetes/pki", ETCD_FOLDER, "/var/lib/kubelet"];
    for path in folders.into_iter().filter(|path| !hides(path)) {
        let real = system.at(path);
        if real.is_dir() {
            std::fs::remove_dir_all(&real).map_err(OpError::path("remove", &real))?;
            // kubeadm empties these folders but keeps them.
            std::fs::create_dir_all(&real).map_err(OpError::path("make the folder", &real))?;
        }
    }
    for path in CONFIGS.map(|name| format!("/etc/kubernetes/{name}")).iter().filter(|path| !hides(path)) {
        crate::fsio::remove(&system.at(path))?;
    }
    // Without an API server, kubeadm leaves the member in the list, and it is dead. With the last one the cluster is gone.
    // An etcd that is not kubeadm's goes on, with everything that is in it.
    if state.cluster.apart {
        state.cluster.planes.remove(&system.hostname()?);
    } else {
        let own = system.address()?;
        state.cluster.members.values_mut().filter(|m| m.address == own).for_each(|member| member.dead = true);
        if state.cluster.members.values().all(|member| member.dead) {
            state.cluster = Cluster::default();
        }
    }
    if let Some(kubelet) = state.units.get_mut("kubelet.service") {
        kubelet.active = false;
        kubelet.invocation.clear();
    }
    Ok(Output::text("[reset] done\n"))
}
