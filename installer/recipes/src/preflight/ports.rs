//! The ports that a host's roles need are free, or used by the cluster's own processes.

use kubexm_plan::runtime;
use kubexm_spec::cluster::{API_PORT, BALANCER_STATUS_PORT, EtcdKind, RegistryKind, Roles};
use kubexm_spec::names::FAN_OUT_PORT;

use super::input::{ObservedHost, PreflightInput};
use super::report::{Report, Severity, Words};
use crate::modules::harbor;
use crate::{balancer, fan_out, network, time_servers};

/// A port and the process that will listen on it.
struct Port {
    number: u16,
    protocol: &'static str,
    /// Process name in the kernel (15 characters); none for a socket of the kernel itself.
    process: Option<&'static str>,
}

const fn tcp(number: u16, process: &'static str) -> Port {
    Port { number, protocol: "tcp", process: Some(process) }
}

const CONTROL_PLANE: [Port; 3] =
    [tcp(API_PORT, "kube-apiserver"), tcp(10257, "kube-controller"), tcp(10259, "kube-scheduler")];
const ETCD: [Port; 2] = [tcp(2379, "etcd"), tcp(2380, "etcd")];
/// Health and metrics of an etcd of kubexm's; kubeadm's own has the port as well, and starts later.
const ETCD_METRICS: Port = tcp(2381, "etcd");
const NODE: Port = tcp(10250, "kubelet");
const PROXY: Port = tcp(10256, "kube-proxy");

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let cluster = input.cx.cluster;
    if cluster.registry.fan_out
        && !input.cx.without_fan_out
        && let Some(field) = fan_out::port_of(cluster)
    {
        let found = format!("{field} is {FAN_OUT_PORT}, so hosts take no content from each other");
        let needed = "that port free while a run lasts";
        let fix = "nothing, for a few hosts; choose another port, or write `registry.fanOut: false`";
        report.add(Severity::Warn, None, Words { found, needed: needed.to_owned(), fix: fix.to_owned() });
    }
    for host in &input.hosts {
        for port in of_roles(input, host.roles) {
            taken(host, &port, report);
        }
        if host.roles.in_cluster() && cluster.kubernetes.as_ref().is_some_and(|of| of.nodelocaldns.is_some()) {
            dns_taken(host, report);
        }
        if fan_out::is_used(cluster) && !input.cx.without_fan_out {
            not_shared(host, report);
        }
        // A time service that is a unit is stopped by the plan; chrony is kept.
        if time_servers::is_server(input.cx.cluster, host.spec) && host.facts.time_services.is_empty() {
            taken(host, &Port { number: 123, protocol: "udp", process: Some("chronyd") }, report);
        }
    }
}

fn of_roles(input: &PreflightInput<'_>, roles: Roles) -> Vec<Port> {
    let cluster = input.cx.cluster;
    let mut ports = Vec::new();
    if roles.control_plane {
        ports.extend(CONTROL_PLANE);
    }
    if roles.etcd {
        ports.extend(ETCD);
    }
    if roles.etcd && cluster.etcd.kind == EtcdKind::Kubexm {
        ports.push(ETCD_METRICS);
    }
    if roles.in_cluster() {
        ports.push(NODE);
        if !network::replaces_kube_proxy(cluster) {
            ports.push(PROXY);
        }
        let traits = network::all_of(cluster);
        let udp = traits.iter().flat_map(|network| network.udp_ports);
        ports.extend(udp.map(|number| Port { number: *number, protocol: "udp", process: None }));
        let tcp = traits.iter().flat_map(|network| network.tcp_ports.iter().chain(network.local_ports));
        let of_runtime = runtime::of(cluster.runtime.kind).ports.iter();
        ports.extend(of_runtime.map(|number| Port { number: *number, protocol: "tcp", process: None }));
        let of_control_planes = traits
            .iter()
            .flat_map(|network| network.control_plane_ports.iter().chain(network.control_plane_local_ports));
        let tcp = tcp.chain(of_control_planes.filter(|_| roles.control_plane));
        // Whatever the plugin's program is called.
        ports.extend(tcp.map(|number| Port { number: *number, protocol: "tcp", process: None }));
    }
    if let (true, Some(proxy)) = (roles.load_balancer, cluster.load_balancer.mode.proxy()) {
        ports.extend([tcp(cluster.load_balancer.mode.port(), proxy), tcp(BALANCER_STATUS_PORT, proxy)]);
    }
    if let Some(proxy) = balancer::on(cluster, roles) {
        ports.extend([tcp(API_PORT, proxy.program), tcp(balancer::STATUS_PORT, proxy.program)]);
    }
    if roles.registry {
        ports.push(tcp(cluster.registry.depot_port(), "kubexm-install"));
        if cluster.registry.kind == RegistryKind::Registry {
            ports.push(tcp(cluster.registry.port, "registry"));
        }
        if cluster.registry.kind == RegistryKind::Harbor {
            let all = [cluster.registry.port, harbor::http_port(&harbor::config(input.cx)), harbor::LOG_PORT];
            ports.extend(all.map(|port| tcp(port, "docker-proxy")));
        }
    }
    ports
}

/// Without its port a host only takes content and serves none.
fn not_shared(host: &ObservedHost<'_>, report: &mut Report) {
    let Some((found, _)) = held(host, &tcp(FAN_OUT_PORT, "kubexm-install")) else { return };
    report.warn(
        host.name(),
        found,
        "a free port for content that hosts take from each other while a run lasts",
        "stop that process if there are many hosts; without it this one serves nobody, and the run takes longer",
    );
}

/// The DNS cache binds two addresses that are nobody else's, so only a server that listens on all addresses is in its way; whether one
/// does is not known. systemd-resolved does not.
fn dns_taken(host: &ObservedHost<'_>, report: &mut Report) {
    let of_others = |l: &&kubexm_plan::facts::Listener| {
        l.port == 53 && !l.ours && !matches!(l.process.as_deref(), Some("systemd-resolve" | "node-cache"))
    };
    let Some(found) = host.facts.listeners.iter().find(of_others) else { return };
    let process = found.process.as_deref().unwrap_or("a process that could not be found");
    report.warn(
        host.name(),
        format!("53/{} in use by {process}", found.protocol),
        "a DNS server that listens on its own addresses only, beside the DNS cache of spec.kubernetes.nodelocaldns",
        "if it listens on every address (0.0.0.0), name its own in its configuration (dnsmasq: bind-interfaces and listen-address): the cache cannot start beside it",
    );
}

fn taken(host: &ObservedHost<'_>, port: &Port, report: &mut Report) {
    let Some((found, needed)) = held(host, port) else { return };
    report.fail(host.name(), found, needed, "stop that process, or use another host");
}

/// Who holds a port, if it is nobody of the cluster's, and for whom it should be free.
fn held(host: &ObservedHost<'_>, port: &Port) -> Option<(String, String)> {
    let at = |l: &&kubexm_plan::facts::Listener| l.port == port.number && l.protocol == port.protocol;
    // On a host with this cluster's stamp, the expected process on its port is the cluster's even if the ledger
    // has no record of it: static pods are started by kubelet, and the vxlan socket belongs to no process.
    let ours = |l: &kubexm_plan::facts::Listener| {
        l.ours || (host.ours && l.process.as_deref().is_none_or(|name| Some(name) == port.process))
    };
    let holder = host.facts.listeners.iter().filter(at).find(|l| !ours(l))?;
    let process = holder.process.as_deref().unwrap_or("a process that could not be found");
    let pid = holder.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    let found = format!("{}/{} in use by {process}{pid}", port.number, port.protocol);
    Some((found, format!("a free port for {}", port.process.unwrap_or("the pod network"))))
}
