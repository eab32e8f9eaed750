//! Where each node is the gateway to its pods, all nodes have an address on one link: no router between them would know where pods are.

use ipnet::IpNet;

use super::input::{ObservedHost, PreflightInput};
use super::report::Report;
use crate::network;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    if !network::needs_one_link(input.cx.cluster) {
        return;
    }
    let nodes: Vec<(&ObservedHost<'_>, IpNet)> =
        input.nodes().filter_map(|host| Some((host, gateway(input, host)?))).collect();
    for (host, own) in &nodes {
        let network = own.trunc();
        let beyond = nodes.iter().filter(|(_, other)| !network.contains(&other.addr()));
        let beyond: Vec<String> = beyond.map(|(other, net)| format!("{} ({})", other.name(), net.addr())).collect();
        if let Some(first) = beyond.first() {
            let more = beyond.len().saturating_sub(1);
            let others = if more == 0 { String::new() } else { format!(" and {more} more") };
            report.fail(
                host.name(),
                format!("{} in {network}, without {first}{others}", own.addr()),
                "all nodes in one network, without a router between them, for `backend: host-gw`",
                "set `spec.network.options.backend: vxlan`, with `directRouting: true` for those nodes that are in one network",
            );
        }
    }
}

/// The address by which a node is the gateway to its pods, with its network: the node's own, or the first one of the interface that is named.
fn gateway(input: &PreflightInput<'_>, host: &ObservedHost<'_>) -> Option<IpNet> {
    let named = network::interface(input.cx.cluster);
    let interfaces = host.facts.interfaces.iter().filter(|interface| named.is_none_or(|name| interface.name == name));
    let addresses = interfaces.flat_map(|interface| &interface.addresses);
    let mut addresses =
        addresses.filter_map(|address| address.parse::<IpNet>().ok()).filter(|net| net.addr().is_ipv4());
    match named {
        Some(_) => addresses.next(),
        None => addresses.find(|net| Some(net.addr()) == host.ip),
    }
}
