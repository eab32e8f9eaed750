//! Hosts of a load balancer that kubexm installs: they have no other keepalived or proxy, and an interface in the
//! network of the virtual IP, as control planes with kube-vip have. Workers with a proxy of ours, beside which another one runs.

use kubexm_plan::balancer::{HostProxy, NGINX, PROXIES};
use kubexm_plan::facts::{Balancer, Interface, SelinuxState};
use kubexm_spec::cluster::{BALANCER_STATUS_PORT, EARLIER_STATUS_PORT, Firewall, LoadBalancerMode, Selinux};

use super::input::{ObservedHost, PreflightInput};
use super::report::{Report, Severity, Words};
use crate::balancer::{self, Proxy};
use ipnet::IpNet;

const KEEPALIVED: &str = "keepalived";

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for host in &input.hosts {
        earlier(input, host, report);
        left(input, host, report);
        if let Some(proxy) = balancer::on(input.cx.cluster, host.roles) {
            beside(host, proxy, report);
        }
    }
    let mode = &input.cx.cluster.load_balancer.mode;
    if mode.moves() {
        holders(input, report);
    }
    let Some(proxy) = mode.proxy() else {
        return input
            .hosts
            .iter()
            .filter(|host| mode.moves_to(host.roles))
            .for_each(|host| address(input, host, report));
    };
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
            missing_package(host, program, report);
        }
        if proxy == NGINX.program {
            without_stream(host, report);
        }
        address(input, host, report);
        guarded(input, host, proxy, report);
    }
}

/// A keepalived or proxy that kubexm did not install. One that does not run stays so; one that runs is refused.
fn foreign(host: &ObservedHost<'_>, program: &str, report: &mut Report) {
    for service in host.facts.balancers.iter().filter(|service| service.program == program && !service.ours) {
        if let Some(pid) = service.pid {
            report.fail(
                host.name(),
                format!("{program} running (pid {pid})"),
                format!("a host without a {program} of its own"),
                "use another host, or stop it and disable its unit if nobody needs it: kubexm's runs with a unit and a configuration of its own",
            );
        } else if let Some(config) = service.config.as_ref().filter(|_| !host.ours) {
            // On a host of the cluster its unit is disabled already.
            report.warn(
                host.name(),
                format!("{config}, of a {program} that does not run"),
                format!("a host without a {program} of its own"),
                format!(
                    "it stays as it is and is not used; its unit {program}.service is disabled until the cluster is reset, so that it does \
                     not start beside kubexm's"
                ),
            );
        }
    }
}

/// keepalived and its proxy are the distribution's packages.
fn missing_package(host: &ObservedHost<'_>, program: &str, report: &mut Report) {
    let there = host.facts.programs.get(program).is_some_and(Option::is_some);
    let planned = host.planned_packages().is_some_and(|planned| planned.brings(program));
    // A host whose packages cannot be installed is reported for that.
    if !there && !planned && host.packages.is_ok() {
        report.fail(
            host.name(),
            format!("no {program}"),
            format!("{program}, which the load balancer runs, as a package of the host's distribution"),
            "name the system in `spec.bundle.os` and build the bundle again: it then contains the package; or install it yourself",
        );
    }
}

/// An nginx of packages without the package of its `stream` module; a build of nginx.org's has it built in.
fn without_stream(host: &ObservedHost<'_>, report: &mut Report) {
    const MODULE: &str = "nginx-mod-stream";
    let comes = host.planned_packages().is_some_and(|all| all.packages().any(|(name, _)| name.ends_with(MODULE)));
    let there = host.facts.packages.as_ref().is_some_and(|list| list.list.contains("nginx"));
    let has_module = host.facts.packages.as_ref().is_some_and(|list| list.list.contains(MODULE));
    if there && !has_module && !comes && host.packages.is_ok() {
        report.warn(
            host.name(),
            format!("nginx, and no package {MODULE}"),
            "nginx with its module `stream`, in a package of its own or built in",
            "name the system in `spec.bundle.os` and build the bundle again: it then contains the package; or install it yourself",
        );
    }
}

/// What may keep the hosts of the load balancer from each other, and keepalived from its work; nothing of it can be tried beforehand.
fn guarded(input: &PreflightInput<'_>, host: &ObservedHost<'_>, proxy: &str, report: &mut Report) {
    if host.ours {
        return;
    }
    if input.cx.cluster.system.firewall == Firewall::Keep
        && let Some(unit) = host.facts.firewalls.first()
    {
        report.warn(
            host.name(),
            format!("{unit} on a host of the load balancer"),
            "VRRP (protocol 112) let through between these hosts: two that do not hear each other both have the address",
            "allow protocol vrrp from the other hosts of the role loadbalancer, or set `system.firewall: off`",
        );
    }
    let enforces =
        host.facts.selinux == SelinuxState::Enforcing && input.cx.cluster.system.selinux != Selinux::Permissive;
    if enforces && proxy == NGINX.program {
        // Booleans are set by the step; no boolean is about the ports at which nginx listens.
        let port = input.cx.cluster.load_balancer.mode.port();
        report.warn(
            host.name(),
            "SELinux enforcing on a host of the load balancer",
            format!("a policy that lets {proxy} listen at {port} and {BALANCER_STATUS_PORT}"),
            format!(
                "run `semanage port -a -t http_port_t -p tcp {port}` and `semanage port -m -t http_port_t -p tcp {BALANCER_STATUS_PORT}` \
                 there, or set `system.selinux: permissive`"
            ),
        );
    }
}

/// What an address that moves has to be.
pub(super) fn free(mode: &LoadBalancerMode) -> String {
    let mover = match mode.runs_on_role() {
        true => "keepalived moves it between the hosts of the load balancer",
        false => "kube-vip moves it between the control planes",
    };
    format!("an address that no machine has: {mover}")
}

/// A host that has the address as its own: it would have it twice, or beside the host that it is given to.
fn holders(input: &PreflightInput<'_>, report: &mut Report) {
    let mode = &input.cx.cluster.load_balancer.mode;
    let Some(vip) = mode.vip() else { return };
    let is_vip = |text: &String| text.split_once('/').map_or(text.as_str(), |(ip, _)| ip).parse() == Ok(vip);
    for host in input.hosts.iter().filter(|host| !(host.ours && mode.moves_to(host.roles))) {
        let has = host.facts.interfaces.iter().find(|one| one.addresses.iter().any(is_vip));
        if let Some(interface) = has {
            report.fail(
                host.name(),
                format!("{vip} on {}, which is the load balancer's address", interface.name),
                free(mode),
                "choose another `loadBalancer.vip`, or remove the address there",
            );
        }
    }
}

/// A load balancer of kubexm's on a host that cluster.yaml no longer asks it of: no step removes it, and it would keep its address.
fn left(input: &PreflightInput<'_>, host: &ObservedHost<'_>, report: &mut Report) {
    let runs = |program: &str| {
        let mut listeners = host.facts.listeners.iter();
        let ports = [BALANCER_STATUS_PORT, EARLIER_STATUS_PORT];
        listeners.any(|one| ports.contains(&one.port) && one.process.as_deref() == Some(program))
    };
    let wanted = input.cx.cluster.load_balancer.mode.proxy().filter(|_| host.roles.load_balancer);
    let other = |proxy: &&HostProxy| host.ours && Some(proxy.program) != wanted;
    if let Some(proxy) = PROXIES.into_iter().filter(other).find(|proxy| runs(proxy.program)) {
        let program = proxy.program;
        let units: Vec<&str> = proxy.units().map(|unit| unit.trim_end_matches(".service")).collect();
        report.fail(
            host.name(),
            format!("keepalived and {program} of kubexm, which cluster.yaml does not ask for there"),
            "`loadBalancer` and `roleGroups.loadbalancer` as they were when they were installed",
            format!(
                "set them back; nothing removes them while the cluster lives: `systemctl disable --now {}` there stops them",
                units.join(" ")
            ),
        );
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

/// keepalived and kube-vip announce the virtual IP in the network of one interface.
fn address(input: &PreflightInput<'_>, host: &ObservedHost<'_>, report: &mut Report) {
    let mode = &input.cx.cluster.load_balancer.mode;
    let (vip, interface) = match mode {
        LoadBalancerMode::External { vip, interface, .. }
        | LoadBalancerMode::Internal { vip: Some(vip), interface, .. } => (vip, interface),
        LoadBalancerMode::Internal { vip: None, .. } | LoadBalancerMode::None => return,
    };
    let interfaces = &host.facts.interfaces;
    let found: Vec<String> = interfaces.iter().map(|i| format!("{} {}", i.name, i.addresses.join(" "))).collect();
    // keepalived's peers talk by the hosts' addresses: with another interface neither hears the other, and both take the address.
    let has_host = |one: &&Interface| {
        one.addresses.iter().any(|text| text.parse::<IpNet>().is_ok_and(|network| Some(network.addr()) == host.ip))
    };
    let own = interfaces.iter().find(has_host);
    if let (Some(wanted), Some(own)) = (interface, own)
        && *wanted != own.name
        && mode.runs_on_role()
    {
        report.fail(
            host.name(),
            format!("{wanted} is not the interface with the host's address ({})", found.join(", ")),
            format!("`spec.loadBalancer.interface` left out, or {}", own.name),
            "correct it, or remove it: the load balancer's hosts hear each other by the addresses that cluster.yaml has for them",
        );
        return;
    }
    // Not by itself, where the host has it now.
    let is_network = |network: &IpNet| network.prefix_len() < network.max_prefix_len();
    let holds = |text: &String| text.parse::<IpNet>().is_ok_and(|one| is_network(&one) && one.contains(vip));
    // kube-vip's hosts hear of each other by the API: any interface will do.
    let on = match interface {
        Some(name) if !mode.runs_on_role() => interfaces.iter().find(|one| one.name == *name),
        _ => own,
    };
    if !on.is_some_and(|one| one.addresses.iter().any(holds)) {
        let (needed, fix) = match mode.runs_on_role() {
            true => (
                "the load balancer's address in a network of its hosts, where keepalived announces it",
                "choose an address of that network that nobody has, or other hosts for the role loadbalancer",
            ),
            false => (
                "the load balancer's address in a network of every control plane, where kube-vip announces it",
                "choose an address of that network that nobody has, or name the interface (`loadBalancer.internal.interface`)",
            ),
        };
        report.fail(
            host.name(),
            format!("its address is in no network with {vip} ({})", found.join(", ")),
            needed,
            fix,
        );
    }
}
