//! Where each node is the gateway to its pods, all nodes have an address on one link: no router between them would know where pods are.

use std::net::IpAddr;

use ipnet::IpNet;

use super::input::{ObservedHost, PreflightInput};
use super::report::Report;
use crate::network;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    if !network::needs_one_link(input.cx.cluster) {
        return;
    }
    let nodes: Vec<(&ObservedHost<'_>, IpAddr)> = input.nodes().filter_map(|host| Some((host, host.ip?))).collect();
    for (host, ip) in &nodes {
        let Some(network) = network_of(host, *ip) else { continue };
        let beyond = nodes.iter().filter(|(_, other)| !network.contains(other));
        let beyond: Vec<String> = beyond.map(|(other, ip)| format!("{} ({ip})", other.name())).collect();
        if let Some(first) = beyond.first() {
            let more = beyond.len().saturating_sub(1);
            let others = if more == 0 { String::new() } else { format!(" and {more} more") };
            report.fail(
                host.name(),
                format!("{ip} in {network}, without {first}{others}"),
                "all nodes in one network, without a router between them, for `backend: host-gw`",
                "set `spec.network.options.backend: vxlan`, with `directRouting: true` for those nodes that are in one network",
            );
        }
    }
}

/// The network in which a host has its address.
fn network_of(host: &ObservedHost<'_>, ip: IpAddr) -> Option<IpNet> {
    let addresses = host.facts.interfaces.iter().flat_map(|interface| &interface.addresses);
    addresses.filter_map(|address| address.parse::<IpNet>().ok()).find(|net| net.addr() == ip).map(|net| net.trunc())
}
