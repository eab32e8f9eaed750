//! The members of etcd in kubeadm's configuration of the cluster.

use kubexm_plan::etcd;
use kubexm_plan::op::{EtcdEndpoints, NamedServers};
use serde_json::Value;

use crate::kube::{self, kubectl};
use crate::{Converge, Machine, OpError, Wave};

const CONFIG_MAP: [&str; 4] = ["configmap", "kubeadm-config", "--namespace", "kube-system"];
/// The key with the text.
const KEY: &str = "/data/ClusterConfiguration";

impl Converge for EtcdEndpoints {
    fn observe(&self, machine: &Machine) -> Result<NamedServers, OpError> {
        if !kube::has_admin_conf(machine) {
            return Ok(NamedServers { servers: None, configured: None });
        }
        let found = kube::get(machine, CONFIG_MAP)?;
        Ok(NamedServers { servers: etcd::endpoints_of(text_of(&found)), configured: None })
    }

    fn satisfied(&self, found: &NamedServers, _: &Machine) -> bool {
        found.are(&self.endpoints)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        name(machine, &self.endpoints)
    }

    fn restore(&self, machine: &Machine, before: &NamedServers, wave: Wave) -> Result<(), OpError> {
        match &before.servers {
            Some(endpoints) if wave == Wave::Stop && kube::has_control_plane(machine) => name(machine, endpoints),
            _ => Ok(()),
        }
    }
}

fn text_of(config_map: &Value) -> &str {
    config_map.pointer(KEY).and_then(Value::as_str).unwrap_or_default()
}

/// Replaces the object as it was read: the API server refuses it if somebody has changed it since.
fn name(machine: &Machine, endpoints: &[String]) -> Result<(), OpError> {
    let mut found = kube::get(machine, CONFIG_MAP)?;
    let changed = etcd::with_endpoints(text_of(&found), endpoints).ok_or_else(|| {
        OpError::other(
            "ClusterConfiguration of the ConfigMap kubeadm-config in kube-system has no list etcd.external.endpoints, though etcd is not kubeadm's: \
             `kubectl --namespace kube-system edit configmap kubeadm-config` mends it, then run again",
        )
    })?;
    match found.pointer_mut(KEY) {
        Some(text) if text.as_str() != Some(&changed) => *text = changed.into(),
        _ => return Ok(()),
    }
    machine.run(&kubectl(["replace", "--filename", "-"]).stdin(found.to_string())).map(drop)
}

#[cfg(test)]
impl crate::cases::Cases for EtcdEndpoints {
    const TESTED: crate::cases::Tested<crate::cases::Case<Self>> = crate::cases::Tested::In("etcd_members.rs");
}
