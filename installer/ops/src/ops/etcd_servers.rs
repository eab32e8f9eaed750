//! The members of etcd that the API server of a control plane asks.
//!
//! kubelet replaces the pod of a manifest that has changed: its container gets another id, and is awaited until it answers.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use kubexm_plan::etcd;
use kubexm_plan::op::{EtcdServers, NamedServers};
use kubexm_spec::Digest;

use super::act::{kubeadm_files, kubeadm_init, mark};
use crate::fsio::Access;
use crate::kube::{API_SERVER, own_server};
use crate::{Converge, Machine, OpError, Wave, containers, fsio, paths};

/// The name of its container.
const CONTAINER: &str = "kube-apiserver";
/// How long kubelet and the pod may take. kubelet looks for other manifests every 20 s where it is not notified.
const READY: Duration = Duration::from_secs(240);
const PAUSE: Duration = Duration::from_millis(500);

impl Converge for EtcdServers {
    fn observe(&self, machine: &Machine) -> Result<NamedServers, OpError> {
        let manifest = fsio::read_text(&machine.path(API_SERVER))?;
        let config = fsio::read_text(&machine.path(paths::KUBEADM_CONFIG))?;
        let configured = config.as_deref().and_then(etcd::endpoints_of);
        Ok(NamedServers { servers: manifest.as_deref().and_then(etcd::servers_of), configured })
    }

    fn satisfied(&self, found: &NamedServers, _: &Machine) -> bool {
        found.are(&self.servers) && found.configured.as_ref().is_none_or(|endpoints| *endpoints == self.servers)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        name(machine, self, &self.servers, &self.servers)
    }

    fn restore(&self, machine: &Machine, before: &NamedServers, wave: Wave) -> Result<(), OpError> {
        match &before.servers {
            // With the control plane its manifest is gone.
            Some(servers) if wave == Wave::Start && machine.path(API_SERVER).is_file() => {
                name(machine, self, servers, before.configured.as_deref().unwrap_or(servers))
            }
            _ => Ok(()),
        }
    }
}

/// Changes kubeadm's files, if they name others, and waits until the API server answers with its own.
fn name(machine: &Machine, op: &EtcdServers, servers: &[String], configured: &[String]) -> Result<(), OpError> {
    let path = machine.path(API_SERVER);
    let text = fsio::read_text(&path)?.unwrap_or_default();
    let changed = etcd::with_servers(&text, servers).ok_or_else(|| {
        OpError::other(format!(
            "{API_SERVER} has no flag --etcd-servers in a line of its own, as kubeadm writes it: restore that line, then run again"
        ))
    })?;
    name_in_config(machine, configured)?;
    kubeadm_files::rewrite(machine, API_SERVER, |text| etcd::with_servers(text, servers))?;
    if changed == text {
        return Ok(());
    }
    let before = running(machine, op)?;
    let mode = std::fs::metadata(&path).map_err(OpError::path("look at", &path))?.permissions().mode() & 0o7777;
    machine.write_file(API_SERVER, changed.as_bytes(), Access::mode(mode))?;
    await_it(machine, op, before.as_deref(), servers)
}

/// kubeadm's config on the host that was initialised with it, and the record that the cluster has this one now. One that somebody has edited
/// is changed, and stays none that the cluster has.
fn name_in_config(machine: &Machine, servers: &[String]) -> Result<(), OpError> {
    let Some(text) = fsio::read_text(&machine.path(paths::KUBEADM_CONFIG))? else { return Ok(()) };
    let Some(changed) = etcd::with_endpoints(&text, servers) else { return Ok(()) };
    let is_the_clusters = kubeadm_init::config_of_the_cluster(machine)? == Some(Digest::of(&text));
    machine.write_file(paths::KUBEADM_CONFIG, changed.as_bytes(), Access::mode(0o644))?;
    if is_the_clusters { mark::configured_with(machine, Some(Digest::of(&changed))) } else { Ok(()) }
}

fn running(machine: &Machine, op: &EtcdServers) -> Result<Option<String>, OpError> {
    let all = containers::of_system_pod(machine, op.runtime, CONTAINER)?;
    Ok(all.into_iter().find(|container| container.running).map(|container| container.id))
}

fn await_it(machine: &Machine, op: &EtcdServers, before: Option<&str>, servers: &[String]) -> Result<(), OpError> {
    let begun = Instant::now();
    loop {
        let now = running(machine, op)?;
        // On a machine that is only a directory nothing happens by itself.
        let is_new = now.is_some() && now.as_deref() != before || !machine.is_real();
        if is_new && own_server::answers(machine)? {
            return Ok(());
        }
        if begun.elapsed() > READY || !machine.is_real() {
            return Err(OpError::other(format!(
                "the API server of this host was given other members of etcd ({}), and does not answer after {} s: look at the end of the newest \
                 log in /var/log/pods/kube-system_{CONTAINER}-*/{CONTAINER} and at `journalctl -u kubelet` on this host, mend what they name, \
                 and run again",
                servers.join(" "),
                READY.as_secs(),
            )));
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
impl crate::cases::Cases for EtcdServers {
    const TESTED: crate::cases::Tested<crate::cases::Case<Self>> = crate::cases::Tested::In("etcd_members.rs");
}
