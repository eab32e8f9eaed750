//! `kubeadm upgrade` on a simulated host, and the versions of what runs.

use kubexm_plan::Step;
use kubexm_plan::op::{DrainedFor, PACKAGES, UpgradeOf};

use super::names::{BEFORE_UPGRADE, KUBELET_CONFIG, UPGRADED};
use super::world::World;

/// What kubelet is started from.
const KUBELET_PROGRAM: &str = "path:/usr/local/bin/kubelet";
/// Version of clusters whose config nobody has read.
const VERSION: &str = "v1.34.4";

impl World {
    /// The version that the cluster was created with.
    fn made_with(&self) -> &str {
        self.cluster.get("serverVersion").map_or(VERSION, String::as_str)
    }

    /// The version that a node's kubelet reports.
    pub(super) fn kubelet_version(&self, node: &str) -> &str {
        self.cluster.get(&format!("kubelet:{node}")).map_or_else(|| self.made_with(), String::as_str)
    }

    /// Whether a node has what it is drained for.
    pub(super) fn has_all(&self, node: &str, wanted: DrainedFor<'_>) -> bool {
        let packages = self.cluster.get(&format!("annotation:{node}:{PACKAGES}")).map(String::as_str);
        wanted.is_there(self.kubelet_version(node), packages)
    }

    /// The version of a control plane's API server.
    pub(super) fn api_version(&self, node: &str) -> &str {
        self.cluster.get(&format!("apiserver:{node}")).map_or_else(|| self.made_with(), String::as_str)
    }

    /// kubeadm must be the new one; and no node may be upgraded before the cluster is.
    pub(super) fn refuse_upgrade(
        &self,
        host: &str,
        step: &Step,
        (version, of): (&str, &UpgradeOf),
    ) -> Result<(), String> {
        self.read(host, step, "path:/usr/local/bin/kubeadm")?;
        let apiservers = || self.cluster.iter().filter(|(key, _)| key.starts_with("apiserver:"));
        let is_first = matches!(of, UpgradeOf::Cluster { .. });
        if !is_first && !apiservers().any(|(_, has)| has == version) {
            return Err(format!("kubeadm upgrade node: the cluster's config is not of {version}"));
        }
        let old = self.members().find(|member| self.api_version(member) != version);
        if let (UpgradeOf::Worker, Some(old)) = (of, old) {
            return Err(format!("{host} would be upgraded before the API server of {old}"));
        }
        Ok(())
    }

    /// Its effects; a control plane's static pods start again, too.
    pub(super) fn upgrade_node(
        &mut self,
        host: &str,
        step: &Step,
        (version, of): (&str, &UpgradeOf),
    ) -> Result<(), String> {
        match of {
            UpgradeOf::Worker => {
                let before = self.host(host)?.state.get(KUBELET_CONFIG).cloned().unwrap_or_default();
                self.set(host, step, BEFORE_UPGRADE, &before)?;
            }
            UpgradeOf::Cluster { .. } | UpgradeOf::ControlPlane => {
                self.cluster.insert(format!("apiserver:{host}"), version.to_owned());
            }
        }
        self.set(host, step, KUBELET_CONFIG, &format!("file 0644 kubelet {version}"))
    }

    /// As before the upgrade of a worker.
    pub(super) fn restore_kubelet_config(&mut self, host: &str) -> Result<(), String> {
        if let Some(before) = self.host(host)?.state.get(BEFORE_UPGRADE).cloned() {
            self.restore_key(host, KUBELET_CONFIG, &before);
            self.remove(host, BEFORE_UPGRADE)?;
        }
        self.remove(host, UPGRADED)
    }

    /// A step starts kubelet: its program is the one of the node's last upgrade.
    pub(super) fn kubelet_upgraded(&mut self, host: &str) -> Result<(), String> {
        let here = &self.host(host)?.state;
        if let (Some(program), Some(version)) = (here.get(KUBELET_PROGRAM).cloned(), here.get(UPGRADED).cloned()) {
            self.kubelets.insert(program, version);
        }
        self.kubelet_restarted(host)
    }

    /// A kubelet that starts reports the version of its program.
    pub(super) fn kubelet_restarted(&mut self, host: &str) -> Result<(), String> {
        let program = self.host(host)?.state.get(KUBELET_PROGRAM);
        let version = program.and_then(|program| self.kubelets.get(program)).cloned();
        let key = format!("kubelet:{host}");
        match version {
            Some(version) => drop(self.cluster.insert(key, version)),
            None => drop(self.cluster.remove(&key)),
        }
        Ok(())
    }

    /// The version in kubeadm's config at this path.
    pub(super) fn configured_version(&self, host: &str, config: &str) -> Option<String> {
        let value = self.hosts.get(host)?.state.get(&format!("path:{config}"))?;
        let text = self.texts.get(value.rsplit(' ').next()?)?;
        let line = text.lines().find_map(|line| line.trim().strip_prefix("kubernetesVersion:"))?;
        Some(line.trim().trim_matches('"').to_owned())
    }
}
