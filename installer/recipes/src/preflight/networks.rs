//! Pod and service networks overlap neither each other nor networks that the hosts reach.

use ipnet::IpNet;
use kubexm_plan::network::NetworkTraits;
use kubexm_spec::cluster::overlap;

use crate::network;

use super::input::{ObservedHost, PreflightInput};
use super::report::{Report, Severity, Words};

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let cluster = input.cx.cluster;
    let (pods, services) = (cluster.network.pod_cidr, cluster.network.service_cidr);
    if overlap(pods, services) {
        let words = Words {
            found: format!("podCidr {pods} and serviceCidr {services}"),
            needed: "two networks that share no address".to_owned(),
            fix: "choose another for one of them in cluster.yaml".to_owned(),
        };
        report.add(Severity::Fail, None, words);
    }
    if network::is_left_to_operator(cluster) {
        let words = Words {
            found: "spec.network.plugin none".to_owned(),
            needed: "a pod network".to_owned(),
            fix: "install one after create: until then nodes are NotReady and pods stay Pending, those of cluster DNS too".to_owned(),
        };
        report.add(Severity::Warn, None, words);
    }
    let nodes = cluster.hosts.iter().filter(|host| cluster.roles(&host.name).in_cluster()).count();
    if let Some(shares) = network::shares(cluster).filter(|shares| u64::try_from(nodes).unwrap_or(u64::MAX) > *shares) {
        let words = Words {
            found: format!("podCidr {pods} with {shares} blocks of addresses, for {nodes} nodes"),
            needed: "a block for each node".to_owned(),
            fix: "name a larger podCidr, or smaller blocks (spec.network.options.blockSize, 26 when left out: a larger number)"
                .to_owned(),
        };
        report.add(Severity::Fail, None, words);
    }
    let ours: Vec<(&str, IpNet)> = cluster
        .network
        .pod_cidrs()
        .map(|network| ("podCidr", network))
        .chain(cluster.network.service_cidrs().map(|network| ("serviceCidr", network)))
        .chain(network::further(cluster))
        .collect();
    if let Some((field, further)) = network::further(cluster) {
        let taken = ours.iter().find(|(name, other)| *name != field && overlap(*other, further));
        if let Some((name, other)) = taken {
            let words = Words {
                found: format!("{field} {further} and {name} {other}"),
                needed: "two networks that share no address".to_owned(),
                fix: "choose another for one of them in cluster.yaml".to_owned(),
            };
            report.add(Severity::Fail, None, words);
        }
    }
    for host in input.nodes() {
        overlaps(host, &ours, report);
        tunnels(host, network::of(cluster), report);
    }
}

/// Links of the kernel's that a network's pods take for their own, with every address that others have given them.
fn tunnels(host: &ObservedHost<'_>, network: &'static NetworkTraits, report: &mut Report) {
    let Some(known) = network.pod_routes.filter(|_| !host.ours) else { return };
    let taken = host.facts.interfaces.iter().filter(|link| known.links.contains(&link.name.as_str()));
    for link in taken {
        let is_v4 = |address: &&String| address.parse::<IpNet>().is_ok_and(|address| address.addr().is_ipv4());
        let addresses: Vec<&str> = link.addresses.iter().filter(is_v4).map(String::as_str).collect();
        if addresses.is_empty() {
            continue;
        }
        report.fail(
            host.name(),
            format!("{} on {}", addresses.join(", "), link.name),
            "no address there: the pod network takes that link for its own, and removes them",
            format!(
                "`ip address delete ADDRESS dev {}` for what an earlier pod network has left; move others to another link, or name another network",
                link.name
            ),
        );
    }
}

fn overlaps(host: &ObservedHost<'_>, ours: &[(&str, IpNet)], report: &mut Report) {
    let interfaces =
        host.facts.interfaces.iter().flat_map(|i| {
            i.addresses.iter().map(move |address| (format!("{address} on {}", i.name), address.as_str()))
        });
    let routes = host.facts.routes.iter().map(|route| (format!("a route to {route}"), route.as_str()));
    for (what, text) in interfaces.chain(routes) {
        let Ok(theirs) = text.parse::<IpNet>() else { continue };
        // On a host of this cluster, cni0, flannel.1 and the routes to other nodes' pods are inside.
        let overlap =
            |(_, network): &&(&str, IpNet)| overlap(*network, theirs) && !(host.ours && network.contains(&theirs));
        if let Some((field, _)) = ours.iter().find(overlap) {
            report.fail(
                host.name(),
                what,
                format!("nothing that overlaps spec.network.{field}"),
                format!("choose another {field} in cluster.yaml"),
            );
        }
    }
    let ips = host.ip.into_iter().chain(host.spec.second_node_ip());
    for (field, ip) in ips.filter_map(|ip| Some((ours.iter().find(|(_, network)| network.contains(&ip))?.0, ip))) {
        report.fail(
            host.name(),
            format!("the node's address {ip}"),
            format!("one outside spec.network.{field}"),
            format!("choose another {field} in cluster.yaml"),
        );
    }
}
