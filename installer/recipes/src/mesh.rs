//! Which hosts must reach each other on which ports, by their roles. Pure: agents listen and dial, and
//! [`crate::preflight::mesh`] interprets the result.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use kubexm_plan::mesh::{Dial, Port, Protocol};
use kubexm_spec::cluster::{LoadBalancerMode, RegistryKind, Roles};
use kubexm_spec::names::DEPOT_PORT;

use crate::context::PlanCx;
use crate::network;

/// kube-apiserver.
pub const API_SERVER: u16 = 6443;
/// etcd, for the API servers and for whoever asks a member.
const ETCD_CLIENTS: u16 = 2379;
/// etcd, between its members.
const ETCD_PEERS: u16 = 2380;
/// kubelet, for logs, exec and metrics.
const KUBELET: u16 = 10250;
/// Target name for connections to the user's own load balancer; a host cannot have this name.
pub const LOAD_BALANCER: &str = "load balancer";

/// The ports that each host listens on and connects to, by host name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mesh {
    /// Ports that others connect to.
    pub listen: BTreeMap<String, Vec<Port>>,
    /// Ports of other hosts and of the load balancer to connect to.
    pub dials: BTreeMap<String, Vec<Dial>>,
}

struct Host<'a> {
    name: &'a str,
    ip: IpAddr,
    roles: Roles,
    /// UDP ports that are in use, so that the agent cannot echo on them.
    taken: Vec<u16>,
}

/// Every port between two different hosts. A host whose address or facts are not known is left out: preflight names it.
pub fn mesh(cx: &PlanCx<'_>) -> Mesh {
    let hosts = hosts(cx);
    let mut dials: BTreeMap<&str, BTreeSet<Dial>> = BTreeMap::new();
    let mut listen: BTreeMap<&str, BTreeSet<Port>> = BTreeMap::new();
    for from in &hosts {
        for to in hosts.iter().filter(|to| to.name != from.name && to.ip != from.ip) {
            for port in ports(cx, from, to) {
                let dial = Dial { to: to.name.to_owned(), address: to.ip, port };
                dials.entry(from.name).or_default().insert(dial);
                listen.entry(to.name).or_default().insert(port);
            }
        }
    }
    if let LoadBalancerMode::External { vip, port, .. } = cx.cluster.load_balancer.mode {
        for control_plane in hosts.iter().filter(|host| host.roles.control_plane) {
            listen.entry(control_plane.name).or_default().insert(tcp(API_SERVER));
        }
        for from in hosts.iter().filter(|host| host.ip != vip && host.roles.in_cluster()) {
            let dial = Dial { to: LOAD_BALANCER.to_owned(), address: vip, port: tcp(port) };
            dials.entry(from.name).or_default().insert(dial);
        }
    }
    Mesh {
        listen: listen.into_iter().map(|(host, ports)| (host.to_owned(), ports.into_iter().collect())).collect(),
        dials: dials.into_iter().map(|(host, dials)| (host.to_owned(), dials.into_iter().collect())).collect(),
    }
}

fn hosts<'a>(cx: &PlanCx<'a>) -> Vec<Host<'a>> {
    let seen = cx.cluster.hosts.iter().filter_map(|host| {
        let facts = cx.facts.get(&host.name)?;
        let udp = facts.listeners.iter().filter(|listener| listener.protocol == "udp");
        Some(Host {
            name: &host.name,
            ip: host.node_ip()?,
            roles: cx.cluster.roles(&host.name),
            taken: udp.map(|listener| listener.port).collect(),
        })
    });
    seen.collect()
}

fn ports(cx: &PlanCx<'_>, from: &Host<'_>, to: &Host<'_>) -> Vec<Port> {
    let mut ports = Vec::new();
    let (dials, serves) = (from.roles, to.roles);
    if serves.control_plane && (dials.in_cluster() || dials.load_balancer) {
        ports.push(tcp(API_SERVER));
    }
    if serves.load_balancer && dials.in_cluster() {
        ports.push(tcp(cx.cluster.load_balancer.mode.port()));
    }
    if serves.etcd && (dials.etcd || dials.control_plane) {
        ports.push(tcp(ETCD_CLIENTS));
    }
    if serves.etcd && dials.etcd {
        ports.push(tcp(ETCD_PEERS));
    }
    if dials.in_cluster() && serves.in_cluster() {
        if dials.control_plane {
            ports.push(tcp(KUBELET));
        }
        let network = network::of(cx.cluster).map(|network| network.udp_ports).unwrap_or_default();
        let free = network.iter().filter(|number| !to.taken.contains(number));
        ports.extend(free.map(|number| Port { protocol: Protocol::Udp, number: *number }));
    }
    if serves.registry {
        ports.push(tcp(DEPOT_PORT));
        if cx.cluster.registry.kind != RegistryKind::None {
            ports.push(tcp(cx.cluster.registry.port));
        }
    }
    ports
}

const fn tcp(number: u16) -> Port {
    Port { protocol: Protocol::Tcp, number }
}
