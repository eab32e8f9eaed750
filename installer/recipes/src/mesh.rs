//! Which hosts must reach each other on which ports, by their roles. Pure: agents listen and dial, and
//! [`crate::preflight::mesh`] interprets the result.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use kubexm_plan::Facts;
use kubexm_plan::mesh::{ConnectionCheck, PodAddress, Port, Protocol};
use kubexm_spec::cluster::{API_PORT, RegistryKind, Roles, overlap};
use kubexm_spec::names::FAN_OUT_PORT;

use crate::context::PlanContext;
use crate::{adoption, balancer, fan_out, network};

/// kube-apiserver.
pub const API_SERVER: u16 = API_PORT;
/// etcd, for the API servers and other clients.
const ETCD_CLIENTS: u16 = 2379;
/// etcd, between its members.
const ETCD_PEERS: u16 = 2380;
/// kubelet, for logs, exec and metrics.
const KUBELET: u16 = 10250;
/// Target name for connections to the user's own load balancer; a host cannot have this name.
pub const LOAD_BALANCER: &str = "load balancer";
/// Target name for connections to the NFS server of `spec.storage.nfs`; a host cannot have this name.
pub const NFS_SERVER: &str = "NFS server";
/// nfsd, of NFS 4 alone and of NFS 3 among others (RFC 7530).
pub const NFS_PORT: u16 = 2049;

/// The ports that each host listens on and connects to, by host name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mesh {
    /// Ports that others connect to.
    pub listen: BTreeMap<String, Vec<Port>>,
    /// Ports of other hosts and of the load balancer to connect to.
    pub dials: BTreeMap<String, Vec<ConnectionCheck>>,
}

struct Host<'a> {
    name: &'a str,
    ip: IpAddr,
    /// Of the other family, where pods have both.
    second: Option<IpAddr>,
    roles: Roles,
    /// UDP ports that are in use, so that the agent cannot echo on them.
    taken: Vec<u16>,
    /// The load balancer's port is in use on it: by our proxy, which has it on the virtual address alone, and so the agent cannot
    /// listen there on the host's own.
    balances: bool,
    /// Nothing on it uses the pod network: no stamp, no other cluster, no address or route inside.
    has_room_for_pods: bool,
}

/// The last addresses of the pod network, which plugins give out last. None for a network of IPv6, and for one that the
/// operator installs.
fn pod_address(cx: &PlanContext<'_>) -> Option<PodAddress> {
    if network::is_left_to_operator(cx.cluster) {
        return None;
    }
    let IpNet::V4(pods) = cx.cluster.network.pod_cidr else { return None };
    let last = u32::from(pods.broadcast());
    Some(PodAddress { pod: Ipv4Addr::from(last - 1), host: Ipv4Addr::from(last - 2) })
}

/// Every port between two different hosts, and the API server of each new control plane as its own pods reach it. A host
/// whose address or facts are not known is left out: preflight reports it.
pub fn mesh(cx: &PlanContext<'_>) -> Mesh {
    let hosts = hosts(cx);
    let mut dials: BTreeMap<&str, BTreeSet<ConnectionCheck>> = BTreeMap::new();
    let mut listen: BTreeMap<&str, BTreeSet<Port>> = BTreeMap::new();
    for from in &hosts {
        for to in hosts.iter().filter(|to| to.name != from.name && to.ip != from.ip) {
            let mut check = |address: IpAddr, port: Port| {
                let dial =
                    ConnectionCheck { to: to.name.to_owned(), address, port, pod: None, authority: None, router: None };
                dials.entry(from.name).or_default().insert(dial);
                listen.entry(to.name).or_default().insert(port);
            };
            ports(cx, from, to).into_iter().for_each(|port| check(to.ip, port));
            // Packets between pods go by the nodes' addresses of the same family.
            if let Some(second) = to.second.filter(|_| from.roles.in_cluster() && to.roles.in_cluster()) {
                of_pods(cx, to).into_iter().for_each(|port| check(second, port));
            }
        }
    }
    let mode = &cx.cluster.load_balancer.mode;
    if let Some(vip) = mode.vip() {
        let port = mode.port();
        for control_plane in hosts.iter().filter(|host| host.roles.control_plane) {
            listen.entry(control_plane.name).or_default().insert(tcp(API_SERVER));
        }
        // It takes some seconds, and nothing comes of it where the load balancer runs.
        let router = balancer::external::router_id(cx.cluster).filter(|_| !has_balancer(cx));
        // A host of the load balancer is in the network of the address: whether somebody has it already is seen from there.
        let asks = |host: &&Host<'_>| host.ip != vip && (host.roles.in_cluster() || host.roles.load_balancer);
        for from in hosts.iter().filter(asks) {
            let dial = ConnectionCheck {
                to: LOAD_BALANCER.to_owned(),
                address: vip,
                port: tcp(port),
                pod: None,
                authority: None,
                router: router.filter(|_| from.roles.load_balancer),
            };
            dials.entry(from.name).or_default().insert(dial);
        }
    }
    for host in hosts.iter().filter(|host| host.roles.control_plane && host.has_room_for_pods) {
        // A pod's connection to another host comes from its own host's address, and is among those above.
        let Some(pod) = pod_address(cx) else { continue };
        listen.entry(host.name).or_default().insert(tcp(API_SERVER));
        let dial = ConnectionCheck {
            to: host.name.to_owned(),
            address: host.ip,
            port: tcp(API_SERVER),
            pod: Some(pod),
            authority: None,
            router: None,
        };
        dials.entry(host.name).or_default().insert(dial);
    }
    Mesh {
        listen: listen.into_iter().map(|(host, ports)| (host.to_owned(), ports.into_iter().collect())).collect(),
        dials: dials.into_iter().map(|(host, dials)| (host.to_owned(), dials.into_iter().collect())).collect(),
    }
}

/// Whether a host that may have the virtual IP is in the cluster already.
pub(crate) fn has_balancer(cx: &PlanContext<'_>) -> bool {
    let mode = &cx.cluster.load_balancer.mode;
    let may_have_it = |host: &&kubexm_spec::cluster::Host| mode.moves_to(cx.cluster.roles(&host.name));
    let ours = |host: &kubexm_spec::cluster::Host| {
        let stamp = cx.facts.get(&host.name).and_then(|facts| facts.stamp.as_ref());
        stamp.is_some_and(|stamp| stamp.cluster == cx.cluster.name)
    };
    cx.cluster.hosts.iter().filter(may_have_it).any(ours)
}

fn hosts<'a>(cx: &PlanContext<'a>) -> Vec<Host<'a>> {
    let port = cx.cluster.load_balancer.mode.port();
    let hosts = cx.cluster.hosts.iter().filter_map(|host| {
        let facts = cx.facts.get(&host.name)?;
        let udp = facts.listeners.iter().filter(|listener| listener.protocol == "udp");
        Some(Host {
            name: &host.name,
            ip: host.node_ip()?,
            second: host.second_node_ip().filter(|_| cx.cluster.network.has_two_stacks()),
            roles: cx.cluster.roles(&host.name),
            taken: udp.map(|listener| listener.port).collect(),
            balances: facts.listeners.iter().any(|one| one.protocol == "tcp" && one.port == port),
            has_room_for_pods: has_room_for_pods(cx, facts),
        })
    });
    hosts.collect()
}

/// The check as from a pod gives the host an address and a route of the pod network for some seconds: where something there
/// uses that network already, its packets would be lost. Preflight refuses such hosts.
fn has_room_for_pods(cx: &PlanContext<'_>, facts: &Facts) -> bool {
    let pods = cx.cluster.network.pod_cidr;
    let addresses = facts.interfaces.iter().flat_map(|interface| &interface.addresses);
    let mut networks = addresses.chain(&facts.routes).filter_map(|text| text.parse::<IpNet>().ok());
    facts.stamp.is_none()
        && facts.unreadable_stamp.is_none()
        && facts.leftovers.is_empty()
        && !networks.any(|network| overlap(pods, network))
}

fn ports(cx: &PlanContext<'_>, from: &Host<'_>, to: &Host<'_>) -> Vec<Port> {
    let mut ports = Vec::new();
    let (client, server) = (from.roles, to.roles);
    if server.control_plane && (client.in_cluster() || client.load_balancer) {
        ports.push(tcp(API_SERVER));
    }
    if server.load_balancer && client.in_cluster() && !to.balances {
        ports.push(tcp(cx.cluster.load_balancer.mode.port()));
    }
    if server.etcd && (client.etcd || client.control_plane) {
        ports.push(tcp(ETCD_CLIENTS));
    }
    if server.etcd && client.etcd {
        ports.push(tcp(ETCD_PEERS));
    }
    if client.in_cluster() && server.in_cluster() {
        if client.control_plane {
            ports.push(tcp(KUBELET));
        }
        ports.extend(of_pods(cx, to));
    }
    if fan_out::is_used(cx.cluster) && !cx.without_fan_out {
        ports.push(tcp(FAN_OUT_PORT));
    }
    // An adopted cluster has no depot.
    if server.registry && !adoption::is_adopted(cx.cluster, cx.facts) {
        let registry = &cx.cluster.registry;
        ports.push(tcp(registry.depot_port()));
        if registry.kind != RegistryKind::None && registry.port != registry.depot_port() {
            ports.push(tcp(registry.port));
        }
    }
    ports
}

/// Ports of the pod network on a node.
fn of_pods(cx: &PlanContext<'_>, to: &Host<'_>) -> Vec<Port> {
    let network = network::of(cx.cluster);
    let free = network.udp_ports.iter().filter(|number| !to.taken.contains(number));
    let udp = free.map(|number| Port { protocol: Protocol::Udp, number: *number });
    let of_control_planes = network.control_plane_ports.iter().filter(|_| to.roles.control_plane);
    udp.chain(network.tcp_ports.iter().chain(of_control_planes).copied().map(tcp)).collect()
}

const fn tcp(number: u16) -> Port {
    Port { protocol: Protocol::Tcp, number }
}
