//! Links that a pod network makes: none of the host's own is in its way, and the names that they get are not too long.

use super::input::{ObservedHost, PreflightInput};
use super::report::Report;
use crate::network;

/// The kernel's longest name of a link (`IFNAMSIZ`, with its zero).
const LONGEST: usize = 15;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let network = network::of(input.cx.cluster);
    for host in input.nodes() {
        if let Some(datapath) = network.datapath.filter(|_| !host.ours) {
            switch(host, datapath.name, report);
        }
        for end in network.link_ends {
            name(input, host, end, report);
            if !host.facts.default_route {
                report.fail(
                    host.name(),
                    "no default route of IPv4",
                    "one: the pod network finds by it the link to the other nodes, and ends without it",
                    "add a default route on the host, or name another network",
                );
            }
        }
    }
}

/// The kernel has one datapath of this name, and the network's own switch would take it over from the host's.
fn switch(host: &ObservedHost<'_>, datapath: &str, report: &mut Report) {
    if host.facts.interfaces.iter().any(|link| link.name == datapath) {
        report.fail(
            host.name(),
            format!("a switch of Open vSwitch's ({datapath})"),
            "none: the pod network brings Open vSwitch of its own, and the kernel has one such switch",
            "give the host's own bridges up, stop and disable its service (`openvswitch-switch`, `openvswitch`), and remove what is left \
             (`ovs-dpctl del-dp`, or a reboot); or name another network",
        );
    }
}

/// A link that is called after the host's.
fn name(input: &PreflightInput<'_>, host: &ObservedHost<'_>, end: &str, report: &mut Report) {
    let named = network::pods_interface(input.cx.cluster);
    let of_address = || {
        let has = |address: &String| address.split('/').next().and_then(|ip| ip.parse().ok()) == host.ip;
        host.facts.interfaces.iter().find(|link| host.ip.is_some() && link.addresses.iter().any(has))
    };
    let Some(below) = named.map(str::to_owned).or_else(|| Some(of_address()?.name.clone())) else { return };
    if below.len() + end.len() > LONGEST {
        report.fail(
            host.name(),
            format!("the link {below}"),
            format!("a name of at most {} characters: the pod network makes a link {below}{end}", LONGEST - end.len()),
            "give the link a shorter name (a `.link` file of systemd), name another in spec.network.interface, or another network",
        );
    }
}
