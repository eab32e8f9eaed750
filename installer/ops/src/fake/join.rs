//! `kubeadm join`, and `upload-certs` on a control plane.

use serde_json::json;

use super::control_plane::{self, TAINT};
use super::etcd;
use super::external_ca;
use super::rooted::{FOLDER, RootedSystem};
use super::state::State;
use crate::OpError;
use crate::system::{Output, System};

/// `kubeadm init phase upload-certs`.
pub(super) fn upload_certs(system: &RootedSystem, state: &mut State, args: &[&str]) -> Result<Output, OpError> {
    let config = control_plane::config(system, args).unwrap_or_default();
    if !args.contains(&"--skip-certificate-key-print") {
        return Ok(Output::failed(1, "the fake does not print keys: use --skip-certificate-key-print"));
    }
    let Some(key) = value(&config, "certificateKey:") else { return Ok(Output::failed(1, "no certificateKey")) };
    if !config.contains("kind: ClusterConfiguration") {
        return Ok(Output::failed(1, "could not fetch a Kubernetes version from the internet"));
    }
    if key.len() != 64 || !key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(Output::failed(1, "certificateKey: not a hex encoded key of 32 bytes"));
    }
    state.cluster.certificate_key = Some(key);
    Ok(Output::text("[upload-certs] Storing the certificates in Secret \"kubeadm-certs\"\n"))
}

pub(super) fn join(system: &RootedSystem, state: &mut State, args: &[&str]) -> Result<Output, OpError> {
    let refuse = |why: String| Ok(Output::failed(1, format!("[preflight] [ERROR] {why}")));
    let Some(config) = control_plane::config(system, args) else {
        return refuse("--config does not name a file".to_owned());
    };
    let token = value(&config, "token:").unwrap_or_default();
    if !state.cluster.has_quorum() || !state.cluster.tokens.contains(&token) {
        return refuse(format!("couldn't validate the identity of the API Server: no such token {token}"));
    }
    if !config.contains(control_plane::CA_HASH) {
        return refuse("cluster CA found in cluster-info ConfigMap is invalid: none of the hashes match".to_owned());
    }
    let control_plane = config.contains("controlPlane:");
    let given = external_ca::is_given(system, args);
    let stacked = !state.cluster.apart;
    if control_plane && given {
        if let Some(missing) = external_ca::missing_to_join(system, stacked) {
            return refuse(format!("failure loading certificate: {missing}"));
        }
    } else if control_plane && value(&config, "certificateKey:") != state.cluster.certificate_key {
        return refuse("error downloading certs: Secret \"kubeadm-certs\" cannot be decrypted".to_owned());
    }
    if let Some(why) = control_plane::not_ready(system, state, args) {
        return refuse(why);
    }
    let has_ca = !(given && control_plane) && system.at(control_plane::CA_FILE).exists();
    if has_ca || (!given && system.at("/etc/kubernetes/kubelet.conf").exists()) {
        return refuse("FileAvailable--etc-kubernetes-kubelet.conf".to_owned());
    }
    let name = match control_plane::node_name(&config) {
        Some(name) => name,
        None => system.hostname()?,
    };
    control_plane::put_new(system, control_plane::CA_FILE, control_plane::CA)?;
    if control_plane && stacked {
        control_plane::put_etcd_keys(system)?;
        etcd::add(system, state, &name)?;
    } else if control_plane {
        state.cluster.planes.insert(name.clone());
    }
    let kill = system.at(&format!("{FOLDER}/kill-kubeadm-join"));
    if kill.exists() {
        crate::fsio::remove(&kill)?;
        return Ok(Output::failed(137, "killed half-way"));
    }
    if control_plane {
        control_plane::put_control_plane(system, state)?;
        if stacked {
            let data = format!("{}/member/snap/db", state.cluster.etcd_folder());
            control_plane::put(system, &data, "double: etcd's data\n")?;
        }
    } else {
        control_plane::put_kubeconfig(system, "kubelet.conf")?;
    }
    let mut node = json!({
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    if control_plane {
        node["metadata"]["labels"][TAINT] = json!("");
        node["spec"]["taints"] = json!([{"key": TAINT, "effect": "NoSchedule"}]);
    }
    control_plane::register(system, state, name, node)?;
    Ok(Output::text("This node has joined the cluster\n"))
}

/// A quoted or plain value of a line of YAML.
fn value(config: &str, key: &str) -> Option<String> {
    let line = config.lines().find_map(|line| line.trim().trim_start_matches("- ").strip_prefix(key))?;
    Some(line.trim().trim_matches(['"', '\'']).to_owned())
}
