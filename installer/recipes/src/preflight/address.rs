//! The node's address is on one of its interfaces: kubelet, etcd and flannel are configured to use it.

use super::report::Report;
use super::site::Site;

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    for seen in &site.hosts {
        let interfaces = &seen.facts.interfaces;
        let found: Vec<String> = interfaces.iter().map(|i| format!("{} {}", i.name, i.addresses.join(" "))).collect();
        let Some(ip) = seen.ip else {
            report.fail(
                seen.name(),
                format!("the address {:?}, a name", seen.host.address),
                "an address of the node's own",
                format!("add `internalAddress` to the host in cluster.yaml (interfaces: {})", found.join(", ")),
            );
            continue;
        };
        let has = |text: &String| text.split_once('/').map_or(text.as_str(), |(ip, _)| ip).parse() == Ok(ip);
        if ip.is_loopback() || !interfaces.iter().any(|i| i.addresses.iter().any(has)) {
            report.fail(
                seen.name(),
                format!("no interface with {ip} ({})", found.join(", ")),
                "the address in cluster.yaml on an interface, and not on loopback",
                "set `internalAddress` to the address that the other nodes reach it by",
            );
        }
        let same = |other: &&super::site::Seen<'_>| other.ip == Some(ip) && other.name() != seen.name();
        if let Some(other) = site.hosts.iter().take_while(|other| other.name() != seen.name()).find(same) {
            report.fail(
                seen.name(),
                format!("the address {ip}, that of {}", other.name()),
                "an address of its own inside the cluster",
                "correct `internalAddress` in cluster.yaml",
            );
        }
        if let Some(name) = &site.cx.cluster.network.interface
            && seen.roles.in_cluster()
            && !interfaces.iter().any(|i| i.name == *name)
        {
            report.fail(
                seen.name(),
                format!("no interface {name} ({})", found.join(", ")),
                "the interface that `spec.network.interface` names",
                "correct it, or leave it out: the node's address then decides",
            );
        }
    }
}
