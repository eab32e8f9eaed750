//! The node's address is on one of its interfaces: kubelet, etcd and flannel are configured to use it.

use super::input::PreflightInput;
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
