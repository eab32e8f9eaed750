//! Hosts of a load balancer that kubexm installs: they have no other keepalived or proxy, and an interface in the
//! network of the virtual IP. Workers with a proxy of ours, beside which another one runs.

use kubexm_plan::facts::Balancer;
use kubexm_spec::cluster::LoadBalancerMode;

use super::input::{ObservedHost, PreflightInput};
use super::report::{Report, Severity, Words};
use crate::balancer::{self, Proxy};
use ipnet::IpNet;

const KEEPALIVED: &str = "keepalived";

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for host in &input.hosts {
        earlier(input, host, report);
        if let Some(proxy) = balancer::on(input.cx.cluster, host.roles) {
            beside(host, proxy, report);
        }
    }
    let Some(proxy) = input.cx.cluster.load_balancer.mode.proxy() else { return };
    let hosts: Vec<&ObservedHost<'_>> = input.load_balancers().collect();
    if let [only] = hosts.as_slice() {
        let words = Words {
            found: format!("{} as the only host of the load balancer", only.name()),
            needed: "two or more, between which the address can move".to_owned(),
            fix: "add a second one to `roleGroups.loadbalancer`: with one host, the API is down when that host is"
                .to_owned(),
        };
        report.add(Severity::Warn, None, words);
    }
    for host in hosts {
        for program in [KEEPALIVED, proxy] {
            foreign(host, program, report);
        }
        address(input, host, report);
    }
}

/// A keepalived or proxy that kubexm did not install. One that does not run is replaced; one that runs is refused.
fn foreign(host: &ObservedHost<'_>, program: &str, report: &mut Report) {
    if host.ours {
        return;
    }
    for service in host.facts.balancers.iter().filter(|service| service.program == program && !service.ours) {
        if let Some(pid) = service.pid {
            report.fail(
                host.name(),
                format!("{program} running (pid {pid})"),
                format!("a host without a {program} of its own"),
                "use another host, or stop it and remove its package if nobody needs it: kubexm's would replace it",
            );
        } else if let Some(config) = &service.config {
            report.warn(
                host.name(),
                format!("{config}, of a {program} that does not run"),
                format!("a host without a {program} of its own"),
                "it would be replaced: keep a copy if anybody needs it",
            );
        }
    }
}

/// A proxy of the cluster that cluster.yaml no longer asks for: no step removes it, and it would keep its back-ends.
fn earlier(input: &PreflightInput<'_>, host: &ObservedHost<'_>, report: &mut Report) {
    let wanted = balancer::on(input.cx.cluster, host.roles).map(|proxy| proxy.program);
    let runs = |program: &&str| {
        let mut listeners = host.facts.listeners.iter();
        listeners.any(|one| one.port == balancer::STATUS_PORT && one.process.as_deref() == Some(*program))
    };
    let other = |program: &&str| host.ours && Some(*program) != wanted;
    if let Some(program) = balancer::PROGRAMS.iter().copied().filter(other).find(runs) {
        report.fail(
            host.name(),
            format!("a {program} of kubexm before the API servers"),
            "`loadBalancer.internal.type` as it was when this worker was made",
            "set it back; to remove the proxy, delete the worker with `delete-node`, then change it and add the worker again",
        );
    }
}

/// A proxy of the host's own beside the one that kubexm runs as a pod: it is left alone. If it has a port of ours, the check of the
/// ports fails.
fn beside(host: &ObservedHost<'_>, proxy: &Proxy, report: &mut Report) {
    let running = |service: &&Balancer| service.program == proxy.program && !service.ours && service.pid.is_some();
    let Some(pid) = host.facts.balancers.iter().find(running).and_then(|service| service.pid) else { return };
    let Proxy { program, config, .. } = proxy;
    report.warn(
        host.name(),
        format!("{program} running (pid {pid}), which is not kubexm's"),
        format!("a host without a {program} of its own: kubexm's runs in a pod here, with {config}"),
        "nothing, if yours serves something else than this cluster: it stays as it is; otherwise stop it",
    );
}

/// keepalived announces the virtual IP in the network of one interface.
fn address(input: &PreflightInput<'_>, host: &ObservedHost<'_>, report: &mut Report) {
    let LoadBalancerMode::External { vip, interface, .. } = &input.cx.cluster.load_balancer.mode else { return };
    let interfaces = &host.facts.interfaces;
    let found: Vec<String> = interfaces.iter().map(|i| format!("{} {}", i.name, i.addresses.join(" "))).collect();
    let wanted = |name: &str| interface.as_deref().is_none_or(|wanted| wanted == name);
    let mut candidates = interfaces.iter().filter(|one| wanted(&one.name)).peekable();
    if candidates.peek().is_none() {
        let name = interface.as_deref().unwrap_or_default();
        report.fail(
            host.name(),
            format!("no interface {name} ({})", found.join(", ")),
            "the interface that `spec.loadBalancer.interface` names",
            "correct it, or remove it to use the interface that has the node's address",
        );
        return;
    }
    let holds = |text: &String| text.parse::<IpNet>().is_ok_and(|network| network.contains(vip));
    if !candidates.any(|one| one.addresses.iter().any(holds)) {
        report.warn(
            host.name(),
            format!("no interface in a network with {vip} ({})", found.join(", ")),
            "the load balancer's address in a network of its hosts, where keepalived announces it",
            "choose an address of that network, or make sure that routers follow it when it moves",
        );
    }
}
