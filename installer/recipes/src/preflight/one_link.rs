//! Where each node is the gateway to its pods, all nodes have an address on one link: no router between them would know where pods are.

use ipnet::IpNet;

use super::input::{ObservedHost, PreflightInput};
use super::report::{Report, Severity, Words};
use crate::network;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let Some(instead) = network::needs_one_link(input.cx.cluster) else { return };
    let nodes: Vec<(&ObservedHost<'_>, IpNet)> =
        input.nodes().filter_map(|host| Some((host, gateway(input, host)?))).collect();
    // One is enough: in a fleet each host lacks the same others.
    for (host, own) in &nodes {
        let network = own.trunc();
        let mut beyond = nodes.iter().filter(|(_, other)| !network.contains(&other.addr()));
        let Some((other, address)) = beyond.next() else { continue };
        let more = match beyond.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let words = Words {
            found: format!("{} with {own}, and {} with {}{more}", host.name(), other.name(), address.addr()),
            needed: "all nodes in one network, without a router between them".to_owned(),
            fix: instead.to_owned(),
        };
        return report.add(Severity::Fail, None, words);
    }
}

/// The address by which a node is the gateway to its pods, with its network: the node's own, or the first one of the interface that is named.
fn gateway(input: &PreflightInput<'_>, host: &ObservedHost<'_>) -> Option<IpNet> {
    let named = network::pods_interface(input.cx.cluster);
    let interfaces = host.facts.interfaces.iter().filter(|interface| named.is_none_or(|name| interface.name == name));
    let addresses = interfaces.flat_map(|interface| &interface.addresses);
    let mut addresses =
        addresses.filter_map(|address| address.parse::<IpNet>().ok()).filter(|net| net.addr().is_ipv4());
    match named {
        Some(_) => addresses.next(),
        None => addresses.find(|net| Some(net.addr()) == host.ip),
    }
}
