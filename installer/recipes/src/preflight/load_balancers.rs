//! Hosts of the load balancer, where it is ours: nothing of anybody's where keepalived and the proxy would be, and a network
//! that the address can move in.

use kubexm_spec::cluster::LoadBalancerMode;

use super::report::{Report, Severity, Words};
use super::site::{Seen, Site};
use ipnet::IpNet;

const KEEPALIVED: &str = "keepalived";

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    let Some(proxy) = site.cx.cluster.load_balancer.mode.proxy() else { return };
    let hosts: Vec<&Seen<'_>> = site.load_balancers().collect();
    if let [only] = hosts.as_slice() {
        let words = Words {
            found: format!("{} as the only host of the load balancer", only.name()),
            needed: "two or more, between which the address can move".to_owned(),
            fix: "name a second one in `roleGroups.loadbalancer`: without it this host must not fail".to_owned(),
        };
        report.add(Severity::Warn, None, words);
    }
    for seen in hosts {
        for program in [KEEPALIVED, proxy] {
            foreign(seen, program, report);
        }
        address(site, seen, report);
    }
}

/// A service of somebody else. One that is installed and idle is replaced; one that runs has users.
fn foreign(seen: &Seen<'_>, program: &str, report: &mut Report) {
    if seen.ours {
        return;
    }
    for service in seen.facts.balancers.iter().filter(|service| service.program == program && !service.ours) {
        if let Some(pid) = service.pid {
            report.fail(
                seen.name(),
                format!("{program} running (pid {pid})"),
                format!("a host without a {program} of its own"),
                "use another host, or stop it and remove its package if nobody needs it: ours would replace it",
            );
        } else if let Some(config) = &service.config {
            report.warn(
                seen.name(),
                format!("{config}, of a {program} that does not run"),
                format!("a host without a {program} of its own"),
                "it would be replaced: keep a copy if anybody needs it",
            );
        }
    }
}

/// keepalived announces the address in the network of one interface.
fn address(site: &Site<'_>, seen: &Seen<'_>, report: &mut Report) {
    let LoadBalancerMode::External { vip, interface, .. } = &site.cx.cluster.load_balancer.mode else { return };
    let interfaces = &seen.facts.interfaces;
    let found: Vec<String> = interfaces.iter().map(|i| format!("{} {}", i.name, i.addresses.join(" "))).collect();
    let wanted = |name: &str| interface.as_deref().is_none_or(|wanted| wanted == name);
    let mut candidates = interfaces.iter().filter(|one| wanted(&one.name)).peekable();
    if candidates.peek().is_none() {
        let name = interface.as_deref().unwrap_or_default();
        report.fail(
            seen.name(),
            format!("no interface {name} ({})", found.join(", ")),
            "the interface that `spec.loadBalancer.interface` names",
            "correct it, or leave it out: the node's address then decides",
        );
        return;
    }
    let holds = |text: &String| text.parse::<IpNet>().is_ok_and(|network| network.contains(vip));
    if !candidates.any(|one| one.addresses.iter().any(holds)) {
        report.warn(
            seen.name(),
            format!("no interface in a network with {vip} ({})", found.join(", ")),
            "the load balancer's address in a network of its hosts, which keepalived announces it in",
            "choose an address of that network, or make sure that routers follow it when it moves",
        );
    }
}
