//! Links that a pod network makes: none of the host's own is in its way, and the names that they get are not too long.

use kubexm_plan::network::Datapath;

use super::input::{ObservedHost, PreflightInput};
use super::report::Report;
use crate::network;

/// The kernel's longest name of a link (`IFNAMSIZ`, with its zero).
const LONGEST: usize = 15;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let network = network::of(input.cx.cluster);
    for host in input.nodes() {
        if let Some(datapath) = network.datapath.filter(|_| !host.ours) {
            switch(host, datapath, report);
        }
        for end in network.link_ends {
            below(input, host, end, report);
        }
    }
}

/// The kernel has one datapath of this name, and the network's own switch would take over the host's, with its folders and its programs.
fn switch(host: &ObservedHost<'_>, datapath: &Datapath, report: &mut Report) {
    let links = host.facts.interfaces.iter().map(|link| &link.name);
    let links = links.filter(|name| datapath.any_links.contains(&name.as_str()));
    let found: Vec<String> = links.chain(&host.facts.own_switch.processes).cloned().collect();
    if !found.is_empty() {
        report.fail(
            host.name(),
            format!("an Open vSwitch of the host's own ({})", found.join(", ")),
            "none: the pod network brings one of its own, with the same folders, and the kernel has one",
            "give the host's own bridges up, stop and disable its service (`openvswitch-switch`, `openvswitch`), and remove what is left \
             (`ovs-dpctl del-dp`, or a reboot); or name another network",
        );
    }
}

/// The link that the network's own is called after: the one that is named, or that of the default route.
fn below(input: &PreflightInput<'_>, host: &ObservedHost<'_>, end: &str, report: &mut Report) {
    let named = input.cx.cluster.network.interface.as_deref();
    let Some(below) = named.or(host.facts.default_link.as_deref()) else {
        report.fail(
            host.name(),
            "no default route of IPv4",
            "one: the pod network finds by it the link to the other nodes",
            "add a default route on the host, or name another network",
        );
        return;
    };
    if below.len() + end.len() > LONGEST {
        report.fail(
            host.name(),
            format!("the link {below}"),
            format!("a name of at most {} characters: the pod network makes a link {below}{end}", LONGEST - end.len()),
            "give the link a shorter name (a `.link` file of systemd), name another in spec.network.interface, or another network",
        );
    }
    let has = |address: &String| address.split('/').next().and_then(|ip| ip.parse().ok()) == host.ip;
    let own = host.facts.interfaces.iter().find(|link| host.ip.is_some() && link.addresses.iter().any(has));
    if let Some(own) = own.filter(|own| named.is_none() && own.name != below) {
        report.warn(
            host.name(),
            format!("the default route by {below}, and the node's address on {}", own.name),
            "pods of other nodes are reached by the link of the default route",
            format!("write `spec.network.interface: {}` if nodes reach each other there", own.name),
        );
    }
}
