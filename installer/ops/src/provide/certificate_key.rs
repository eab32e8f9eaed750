//! Uploads the control plane's certificates to the cluster, encrypted with a new key (`kubeadm init phase
//! upload-certs`); the cluster deletes kubeadm's Secret `kubeadm-certs` after two hours.

use super::random::{hex, random};
use crate::ops::act::kubeadm_join::SecretFile;
use crate::system::Program;
use crate::{Machine, OpError, fsio, kube, paths};

/// Exists only during the call.
const CONFIG: &str = "/run/kubexm/kubeadm-upload-certs.yaml";
const PREFIX: &str = "kubeadm.k8s.io/";

pub(super) fn upload(machine: &Machine) -> Result<String, OpError> {
    let key = hex(&random::<32>()?);
    let version = api_version(machine)?;
    let cluster = cluster_configuration(machine)?;
    // In a file, since every user of the host can see arguments. Without the ClusterConfiguration kubeadm would look up
    // the latest stable release on the internet.
    let text = format!("apiVersion: {version}\nkind: InitConfiguration\ncertificateKey: \"{key}\"\n---\n{cluster}");
    let _config = SecretFile::write(machine, CONFIG, text.as_bytes())?;
    let upload = Program::new("kubeadm")
        .args(["init", "phase", "upload-certs", "--upload-certs", "--config", CONFIG, "--skip-certificate-key-print"])
        .within(120);
    machine.run(&upload).map_err(|error| match error {
        OpError::Program { program, status, stderr } => {
            OpError::Program { program, status, stderr: stderr.replace(&key, "(secret)") }
        }
        other => other,
    })?;
    Ok(key)
}

/// From the config of kubexm's init, or from the cluster if this control plane has joined.
fn cluster_configuration(machine: &Machine) -> Result<String, OpError> {
    let ours = fsio::read_text(&machine.path(paths::KUBEADM_CONFIG))?.unwrap_or_default();
    if let Some(document) = document(&ours, "ClusterConfiguration") {
        return Ok(document.to_owned());
    }
    let config = kube::get(machine, ["configmap", "kubeadm-config", "--namespace", "kube-system"])?;
    config["data"]["ClusterConfiguration"].as_str().map(str::to_owned).ok_or_else(|| {
        OpError::other(
            "the ConfigMap kubeadm-config of kube-system has no ClusterConfiguration: the cluster was not made by kubeadm, \
             or the entry was removed; put it back with `kubeadm init phase upload-config kubeadm`",
        )
    })
}

fn api_version(machine: &Machine) -> Result<String, OpError> {
    let cluster = cluster_configuration(machine)?;
    let line = cluster.lines().find_map(|line| line.strip_prefix("apiVersion:"));
    let version = line.map(|value| value.trim().trim_matches(['"', '\'']).to_owned()).unwrap_or_default();
    if version.starts_with(PREFIX) {
        return Ok(version);
    }
    Err(OpError::other(format!(
        "kubeadm's ClusterConfiguration says apiVersion {version:?}, and {PREFIX}v1beta3 or v1beta4 is expected"
    )))
}

/// The YAML document with a kind.
fn document<'a>(text: &'a str, kind: &str) -> Option<&'a str> {
    let is_kind =
        |line: &str| line.strip_prefix("kind:").is_some_and(|value| value.trim().trim_matches(['"', '\'']) == kind);
    text.split("\n---")
        .find(|document| document.lines().any(is_kind))
        .map(|document| document.trim_start_matches("---\n"))
}
