//! The ports that a host's roles need are free, or used by the cluster's own processes.

use kubexm_spec::cluster::RegistryKind;

use super::report::Report;
use super::site::{Seen, Site};
use crate::{network, time_servers};

/// A port and the process that will listen on it.
struct Port {
    number: u16,
    protocol: &'static str,
    /// Process name in the kernel (15 characters); none for a socket of the kernel itself.
    process: Option<&'static str>,
    control_plane: bool,
}

const fn tcp(number: u16, process: &'static str, control_plane: bool) -> Port {
    Port { number, protocol: "tcp", process: Some(process), control_plane }
}

const PORTS: &[Port] = &[
    tcp(6443, "kube-apiserver", true),
    tcp(2379, "etcd", true),
    tcp(2380, "etcd", true),
    tcp(10257, "kube-controller", true),
    tcp(10259, "kube-scheduler", true),
    tcp(10250, "kubelet", false),
    tcp(10256, "kube-proxy", false),
];

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    let registry = &site.cx.cluster.registry;
    let mut served = vec![tcp(registry.depot_port(), "kubexm-install", false)];
    if registry.kind == RegistryKind::Registry {
        served.push(tcp(registry.port, "registry", false));
    }
    let network = network::of(site.cx.cluster).map(|network| network.udp_ports).unwrap_or_default();
    let network: Vec<Port> = network
        .iter()
        .map(|number| Port { number: *number, protocol: "udp", process: None, control_plane: false })
        .collect();
    for seen in &site.hosts {
        let by_role = PORTS.iter().filter(|port| seen.control_plane || !port.control_plane);
        for port in by_role.chain(&network).chain(served.iter().filter(|_| seen.registry)) {
            taken(seen, port, report);
        }
        // A time service that runs as a unit is stopped before; chrony is kept.
        if time_servers::is_server(site.cx.cluster, seen.host) && seen.facts.time_services.is_empty() {
            taken(seen, &Port { number: 123, protocol: "udp", process: Some("chronyd"), control_plane: false }, report);
        }
    }
}

fn taken(seen: &Seen<'_>, port: &Port, report: &mut Report) {
    let at = |l: &&kubexm_plan::facts::Listener| l.port == port.number && l.protocol == port.protocol;
    // On a host with this cluster's stamp, the expected process on its port is the cluster's even if the ledger
    // has no record of it: static pods are started by kubelet, and the vxlan socket belongs to no process.
    let ours = |l: &kubexm_plan::facts::Listener| {
        l.ours || (seen.ours && l.process.as_deref().is_none_or(|name| Some(name) == port.process))
    };
    let Some(holder) = seen.facts.listeners.iter().filter(at).find(|l| !ours(l)) else { return };
    let process = holder.process.as_deref().unwrap_or("a process that could not be found");
    let pid = holder.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    report.fail(
        seen.name(),
        format!("{}/{} held by {process}{pid}", port.number, port.protocol),
        format!("a free port for {}", port.process.unwrap_or("the pod network")),
        "stop that process, or use another host",
    );
}
