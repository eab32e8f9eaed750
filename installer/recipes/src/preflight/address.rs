//! The node's address is on one of its interfaces: kubelet, etcd and flannel are configured to use it.

use std::net::IpAddr;

use super::input::{ObservedHost, PreflightInput};
use super::report::Report;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for host in &input.hosts {
        let interfaces = &host.facts.interfaces;
        let found: Vec<String> = interfaces.iter().map(|i| format!("{} {}", i.name, i.addresses.join(" "))).collect();
        let Some(ip) = host.ip else {
            report.fail(
                host.name(),
                format!("the address {:?}, a name", host.spec.address),
                "an IP address of the node itself",
                format!("add `internalAddress` to the host in cluster.yaml (interfaces: {})", found.join(", ")),
            );
            continue;
        };
        let has = |text: &String| text.split_once('/').map_or(text.as_str(), |(ip, _)| ip).parse() == Ok(ip);
        if ip.is_loopback() || !interfaces.iter().any(|i| i.addresses.iter().any(has)) {
            report.fail(
                host.name(),
                format!("no interface with {ip} ({})", found.join(", ")),
                "the address in cluster.yaml on an interface, and not on loopback",
                "set `internalAddress` to the address that the other nodes reach it by",
            );
        }
        if host.roles.in_cluster() {
            second(host, input.cx.cluster.network.interface.as_deref(), report);
        }
        let same = |other: &&super::input::ObservedHost<'_>| other.ip == Some(ip) && other.name() != host.name();
        if let Some(other) = input.hosts.iter().take_while(|other| other.name() != host.name()).find(same) {
            report.fail(
                host.name(),
                format!("the address {ip}, which {} also has", other.name()),
                "an address of its own inside the cluster",
                "correct `internalAddress` in cluster.yaml",
            );
        }
        if let Some(name) = &input.cx.cluster.network.interface
            && host.roles.in_cluster()
            && !interfaces.iter().any(|i| i.name == *name)
        {
            report.fail(
                host.name(),
                format!("no interface {name} ({})", found.join(", ")),
                "the interface that `spec.network.interface` names",
                "correct it, or remove it to use the interface that has the node's address",
            );
        }
    }
}

/// flanneld takes both addresses from one interface, and none of another one.
fn second(host: &ObservedHost<'_>, named: Option<&str>, report: &mut Report) {
    let Some(second) = host.spec.second_node_ip() else { return };
    let on = |ip: IpAddr| {
        let has = |text: &String| text.split_once('/').map_or(text.as_str(), |(ip, _)| ip).parse() == Ok(ip);
        host.facts.interfaces.iter().find(|interface| interface.addresses.iter().any(has)).map(|i| i.name.as_str())
    };
    let (field, wanted) = match named {
        Some(name) => ("`spec.network.interface`", Some(name)),
        None => ("the first address", host.ip.and_then(on)),
    };
    let wanted = wanted.unwrap_or_default();
    match on(second) {
        None => report.fail(
            host.name(),
            format!("no interface with {second}"),
            format!("the second address of `internalAddress` on {wanted}, the interface of {field}"),
            "add it there, now and at boot, or correct it in cluster.yaml",
        ),
        Some(interface) if interface != wanted && !wanted.is_empty() => report.fail(
            host.name(),
            format!("{second} on {interface}"),
            format!("the second address of `internalAddress` on {wanted}, the interface of {field}"),
            "correct `internalAddress` in cluster.yaml",
        ),
        Some(_) => {}
    }
    if !host.facts.routers_asked_on.is_empty() {
        let interfaces = host.facts.routers_asked_on.join(", ");
        report.fail(
            host.name(),
            format!("routes or addresses of IPv6 that a router has announced on {interfaces}, with accept_ra = 1"),
            "those that stay: a host that forwards packets, as every node does, loses the default route at once, and the address later",
            format!(
                "`sysctl -w net/ipv6/conf/INTERFACE/accept_ra=2` for {interfaces}, and the same in /etc/sysctl.d; or set address and route by hand"
            ),
        );
    }
}
