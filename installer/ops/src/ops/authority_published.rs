//! The cluster's authority in the ConfigMaps from which pods and joining nodes get it.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_plan::kubeadm_certificates::CLUSTER_CA;
use kubexm_plan::op::{AuthorityPublished, Published};
use serde_json::{Value, json};

use super::kubeconfig_authority::with_authority;
use crate::kube::{self, kubectl};
use crate::{Converge, Machine, OpError, Wave, fsio};

const INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
/// The key with the kubeconfig.
const KEY: &str = "/data/kubeconfig";
const ROOT: &str = "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt";
/// How long a controller manager that was just started may take: the one before keeps its lease for 15 s.
const LIMIT: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_secs(1);

impl Converge for AuthorityPublished {
    fn observe(&self, machine: &Machine) -> Result<Published, OpError> {
        if !kube::has_admin_conf(machine) {
            return Ok(Published { info: None, settled: false });
        }
        let info = kube::raw(machine, INFO)?.unwrap_or_default();
        let text = text_of(&info);
        let settled = with_authority(text, &own(machine)?) == Ok(None) && is_given_to_pods(machine)?;
        Ok(Published { info: named(text).map(str::to_owned), settled })
    }

    fn satisfied(&self, found: &Published, _: &Machine) -> bool {
        found.settled
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        publish(machine, &own(machine)?)?;
        let begun = Instant::now();
        while !is_given_to_pods(machine)? {
            if begun.elapsed() > LIMIT || !machine.is_real() {
                return Err(OpError::other(format!(
                    "the controller managers have not written {CLUSTER_CA} of this host into the ConfigMap kube-root-ca.crt of kube-system after \
                     {} s: look at the newest log in /var/log/pods/kube-system_kube-controller-manager-*/ of each control plane (one must hold the \
                     lease), mend what it names, and run again",
                    LIMIT.as_secs()
                )));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn restore(&self, machine: &Machine, before: &Published, wave: Wave) -> Result<(), OpError> {
        let info = before.info.as_deref().and_then(|info| BASE64.decode(info).ok());
        match info.and_then(|info| String::from_utf8(info).ok()) {
            // Controller managers write the other one as soon as they are started with the certificate of before.
            Some(ca) if wave == Wave::Stop && kube::has_control_plane(machine) => publish(machine, &ca),
            _ => Ok(()),
        }
    }
}

fn own(machine: &Machine) -> Result<String, OpError> {
    fsio::read_text(&machine.path(CLUSTER_CA))?.ok_or_else(|| {
        OpError::other(format!("{CLUSTER_CA} is not there: bring it back from a backup, then run again"))
    })
}

fn text_of(config_map: &Value) -> &str {
    config_map.pointer(KEY).and_then(Value::as_str).unwrap_or_default()
}

/// The certificate in a kubeconfig, as it stands there.
fn named(kubeconfig: &str) -> Option<&str> {
    kubeconfig.lines().find_map(|line| line.trim().strip_prefix("certificate-authority-data:")).map(str::trim)
}

fn is_given_to_pods(machine: &Machine) -> Result<bool, OpError> {
    let given = kube::raw(machine, ROOT)?.unwrap_or_default();
    let text = given.pointer("/data/ca.crt").and_then(Value::as_str);
    Ok(text.map(str::trim) == Some(own(machine)?.trim()))
}

/// Changes that kubeconfig alone; the signatures beside it are made anew by the controller manager.
fn publish(machine: &Machine, ca: &str) -> Result<(), OpError> {
    let info = kube::raw(machine, INFO)?.unwrap_or_default();
    let changed = with_authority(text_of(&info), ca).map_err(|why| {
        OpError::other(format!(
            "the ConfigMap cluster-info of kube-public has another authority than {CLUSTER_CA} of this host ({why}): \
             `kubectl --namespace kube-public edit configmap cluster-info` mends it, then run again"
        ))
    })?;
    let Some(changed) = changed else { return Ok(()) };
    let patch = json!({"data": {"kubeconfig": changed}}).to_string();
    let object = ["patch", "configmap", "cluster-info", "--namespace", "kube-public"];
    machine.run(&kubectl(object).args(["--type=merge", "--patch", &patch])).map(drop)
}

#[cfg(test)]
impl crate::cases::Cases for AuthorityPublished {
    const TESTED: crate::cases::Tested<crate::cases::Case<Self>> = crate::cases::Tested::In("authorities.rs");
}
