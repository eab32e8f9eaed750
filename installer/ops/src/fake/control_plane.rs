//! The files and objects that kubeadm creates on a control plane, and its preflight.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_plan::kubeadm_certificates::{CLUSTER_CA, MANAGED, READ_BY, SHARED, authorities_of as authorities};
use kubexm_plan::{etcd, runtime};
use serde_json::Value;

use super::api_server;
use super::rooted::RootedSystem;
use super::state::{State, Unit};
use crate::OpError;

pub(super) const STATIC_PODS: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"];
pub(super) const CONFIGS: [&str; 5] =
    ["super-admin.conf", "kubelet.conf", "controller-manager.conf", "scheduler.conf", "admin.conf"];
pub(super) const TAINT: &str = "node-role.kubernetes.io/control-plane";

pub(super) const CA_FILE: &str = CLUSTER_CA;
/// A real certificate as kubeadm makes it, since it is parsed and renewed. Nothing but tests trusts it.
pub(crate) const CA: &str = include_str!("ca.crt");
/// Its key.
pub(crate) const CA_KEY: &str = include_str!("ca.key");
/// Hash of its public key.
pub(super) const CA_HASH: &str = "sha256:5b19a756a0e4b17e84d1a4afd7145914725861545f22723b8af0baefca9ca74b";

pub(super) fn put(system: &RootedSystem, path: &str, text: &str) -> Result<(), OpError> {
    let real = system.at(path);
    crate::fsio::make_parent(&real)?;
    std::fs::write(&real, text).map_err(OpError::path("write", &real))
}

/// kubeadm keeps what is there.
pub(super) fn put_new(system: &RootedSystem, path: &str, text: &str) -> Result<(), OpError> {
    if system.at(path).exists() { Ok(()) } else { put(system, path, text) }
}

/// A certificate, key or public key in PEM; real ones of authorities.
fn pem(path: &str) -> String {
    match path.rsplit_once("ca.") {
        Some((_, "crt")) => return CA.to_owned(),
        Some((_, "key")) => return CA_KEY.to_owned(),
        _ => {}
    }
    let tag = match path.rsplit('.').next() {
        Some("key") => "RSA PRIVATE KEY",
        Some("pub") => "PUBLIC KEY",
        _ => "CERTIFICATE",
    };
    format!("-----BEGIN {tag}-----\nZG91Ymxl\n-----END {tag}-----\n")
}

/// The content of the file that `--config` names.
pub(super) fn config(system: &RootedSystem, args: &[&str]) -> Option<String> {
    args.windows(2).find(|pair| pair[0] == "--config").and_then(|pair| system.read(pair[1]))
}

/// The problem that kubeadm's preflight finds, if there is one.
pub(super) fn not_ready(system: &RootedSystem, state: &State, args: &[&str]) -> Option<String> {
    if !runtime::INSTALLED.iter().any(|runtime| state.units.get(runtime.unit).is_some_and(|unit| unit.active)) {
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
    let data = state.cluster.etcd_folder();
    let check = format!("DirAvailable-{}", data.replace('/', "-"));
    let ignored = args.iter().filter_map(|arg| arg.strip_prefix("--ignore-preflight-errors="));
    let ignored = ignored.flat_map(|checks| checks.split(',')).any(|ignored| ignored == check);
    let etcd = std::fs::read_dir(system.at(&data)).is_ok_and(|mut entries| entries.next().is_some());
    (etcd && !state.cluster.apart && !ignored).then(|| format!("{check}: {data} is not empty"))
}

/// Client certificates for etcd.
pub(super) fn put_etcd_keys(system: &RootedSystem) -> Result<(), OpError> {
    for name in ["ca.crt", "healthcheck-client.crt", "healthcheck-client.key"] {
        let path = format!("/etc/kubernetes/pki/etcd/{name}");
        // A CA that is there is kept.
        match name {
            "ca.crt" => put_new(system, &path, CA)?,
            _ => put(system, &path, &format!("double: etcd's {name}\n"))?,
        }
    }
    Ok(())
}

/// `etcd.external` of kubeadm's config.
pub(super) fn has_external_etcd(config: &str) -> bool {
    config.lines().any(|line| line.trim() == "external:")
}

/// How an API server reaches an etcd that is not kubeadm's.
fn etcd_flags(state: &State) -> String {
    let own = state.cluster.members.values().map(|one| format!("https://{}:2379", one.address));
    let urls: Vec<String> = state.cluster.their_etcd.iter().cloned().chain(own).collect();
    let flags = [
        ("etcd-servers", urls.join(",")),
        ("etcd-cafile", etcd::CLIENT_CA.to_owned()),
        ("etcd-certfile", etcd::CLIENT_CERT.to_owned()),
        ("etcd-keyfile", etcd::CLIENT_KEY.to_owned()),
    ];
    flags.iter().map(|(name, value)| format!("    - --{name}={value}\n")).collect()
}

/// Static pods and kubeconfigs of a control plane.
pub(super) fn put_control_plane(system: &RootedSystem, state: &State) -> Result<(), OpError> {
    let stacked = !state.cluster.apart;
    let is_of_etcd = |path: &str| path.contains("/pki/etcd/") || path.ends_with("/apiserver-etcd-client.crt");
    let made = |path: &str| path.ends_with(".crt") && (stacked || !is_of_etcd(path));
    for (name, path) in MANAGED.iter().filter(|(_, path)| made(path)) {
        put_new(system, path, &format!("double: certificate {name}\n"))?;
        put_new(system, &path.replace(".crt", ".key"), &format!("double: key of {name}\n"))?;
    }
    for path in SHARED.into_iter().filter(|path| stacked || !path.contains("/etcd/")) {
        put_new(system, path, &pem(path))?;
    }
    for (name, files) in READ_BY.into_iter().filter(|(name, _)| stacked || *name != "etcd") {
        let files = files.iter().copied().filter(|path| stacked || !is_of_etcd(path));
        let files: Vec<&str> = files.chain(authorities(name, stacked)).collect();
        let ours = state.cluster.api_server_files.iter().map(String::as_str).filter(|_| name == "kube-apiserver");
        let mut text = api_server::manifest(name, ours.chain(files.iter().copied()));
        if !stacked && name == "kube-apiserver" {
            text += &etcd_flags(state);
        }
        put(system, &format!("/etc/kubernetes/manifests/{name}.yaml"), &text)?;
    }
    let members: Vec<String> =
        state.cluster.members.values().map(|m| format!("{}=https://{}:2380", m.name, m.address)).collect();
    let own = system.address()?;
    let flags = format!(
        "    - --initial-advertise-peer-urls=https://{own}:2380\n    - --initial-cluster={}\n",
        members.join(",")
    );
    let read = READ_BY.into_iter().find(|(name, _)| *name == "etcd").map_or(&[][..], |(_, files)| files);
    if stacked {
        let text = api_server::manifest("etcd", read.iter().copied().chain(authorities("etcd", true))) + &flags;
        put(system, "/etc/kubernetes/manifests/etcd.yaml", &text)?;
    }
    for name in CONFIGS {
        put_kubeconfig(system, name)?;
    }
    Ok(())
}

/// As kubeadm writes it, with the authority that it finds.
pub(super) fn put_kubeconfig(system: &RootedSystem, name: &str) -> Result<(), OpError> {
    let ca = BASE64.encode(system.read(CA_FILE).unwrap_or_default());
    let text = format!("double: {name}\n    certificate-authority-data: {ca}\n");
    put_new(system, &format!("/etc/kubernetes/{name}"), &text)
}

/// Adds a node to the cluster, and starts its kubelet.
pub(super) fn register(system: &RootedSystem, state: &mut State, name: String, node: Value) -> Result<(), OpError> {
    put(system, "/var/lib/kubelet/config.yaml", "double: kubelet's config\n")?;
    state.cluster.nodes.insert(name.clone(), node);
    super::versions::kubelet_started(system, state, &name);
    state.starts += 1;
    let invocation = format!("{:032x}", state.starts);
    state.units.insert("kubelet.service".to_owned(), Unit { active: true, invocation, ..Unit::default() });
    Ok(())
}

/// `name:` of `nodeRegistration:` in kubeadm's config.
pub(super) fn node_name(config: &str) -> Option<String> {
    let after = config.split_once("nodeRegistration:")?.1;
    let block = after.lines().skip(1).take_while(|line| line.starts_with(' '));
    let name = block.map(str::trim).find_map(|line| line.strip_prefix("name:"))?;
    Some(name.trim().trim_matches('"').to_owned())
}

/// `etcd.local.dataDir` of kubeadm's config.
pub(super) fn etcd_folder(config: &str) -> Option<String> {
    let value = config.lines().find_map(|line| line.trim().strip_prefix("dataDir:"));
    value.map(|value| value.trim().trim_matches('"').to_owned())
}
