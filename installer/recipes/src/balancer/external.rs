//! keepalived and a proxy on the hosts of the role loadbalancer: haproxy (`spec.loadBalancer.external.type: kubexm-kh`) or nginx
//! (`kubexm-kn`). An address moves between them, and all API servers are behind it (decisions 0068, 0069).
//!
//! They are the distribution's packages with units and configuration of our own. The proxy knows which API servers are ready, keepalived
//! asks the proxy of its own host. The address leads somewhere before the first API server is there, so that kubeadm can use it.

mod nginx;

use std::net::{IpAddr, SocketAddr};

use kubexm_plan::balancer::{HAPROXY, HostProxy, KEEPALIVED_CONFIG, KEEPALIVED_UNIT, NGINX};
use kubexm_plan::facts::SelinuxState;
use kubexm_plan::op::{Dir, File, SelinuxBooleans, StateDir, Sysctl, Unit};
use kubexm_plan::{Probe, Step, Undo};
use kubexm_spec::cluster::{BALANCER_STATUS_PORT, Cluster, ExternalKind, LoadBalancerMode, Selinux};
use minijinja::context;

use super::BackEnd;
use crate::context::PlannedHost;
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::templates::template;
use crate::{paths, templates};

const FOLDER: &str = "/etc/kubexm/balancer";
/// What keepalived asks its host's proxy by.
const CHECK: &str = "kubexm-balancer-check";
/// Sets [`NONLOCAL_BIND`] at boot.
pub const SYSCTL: &str = "/etc/sysctl.d/99-kubexm-balancer.conf";
/// The proxy listens at the address on hosts that do not have it now.
pub const NONLOCAL_BIND: &str = "net.ipv4.ip_nonlocal_bind";
const KEEPALIVED: &str = "keepalived";
/// Where the packages of all supported distributions have their programs.
const SBIN: &str = "/usr/sbin";
/// How long the address may take to be somewhere, in seconds: three lost adverts, and slower hosts.
const MOVES_S: u64 = 60;
/// How long SELinux's policy may take to be rebuilt, in seconds.
const REBUILDS_S: u64 = 300;

/// The address that kubexm moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct External<'a> {
    /// It, with the port that clients use.
    pub address: SocketAddr,
    /// What runs beside keepalived.
    pub proxy: &'static HostProxy,
    /// The interface that has it; the one with the host's own address when none.
    interface: Option<&'a str>,
    router: u8,
}

/// The address of a cluster, if kubexm moves it.
pub fn of(cluster: &Cluster) -> Option<External<'_>> {
    let LoadBalancerMode::External { kind, vip, port, interface, virtual_router_id } = &cluster.load_balancer.mode
    else {
        return None;
    };
    let proxy = match kind {
        ExternalKind::KubexmKh => &HAPROXY,
        ExternalKind::KubexmKn => &NGINX,
        ExternalKind::External => return None,
    };
    Some(External {
        address: SocketAddr::from((*vip, *port)),
        proxy,
        interface: interface.as_deref(),
        router: virtual_router_id.unwrap_or_else(|| router_of(*vip)),
    })
}

/// The router id of its keepalived.
pub fn router_id(cluster: &Cluster) -> Option<u8> {
    of(cluster).map(|external| external.router)
}

/// Different for the addresses of one /24, and never 0.
fn router_of(vip: IpAddr) -> u8 {
    let last = match vip {
        IpAddr::V4(vip) => vip.octets()[3],
        IpAddr::V6(vip) => vip.octets()[15],
    };
    last.max(1)
}

/// The proxy's configuration with these back-ends.
pub fn config(external: &External<'_>, back_ends: &[BackEnd]) -> Result<String, RecipeError> {
    let back_ends = super::values(back_ends);
    let address = external.address.to_string();
    let template =
        if external.proxy == &NGINX { template!("balancer-nginx.conf") } else { template!("balancer-haproxy.cfg") };
    let state = nginx::STATE;
    templates::render(template, context! { address, back_ends, state, status_port => BALANCER_STATUS_PORT })
}

/// The proxy runs with the configuration as it is on disk: another one is read by a reload, which ends no connection.
pub fn serves(proxy: &HostProxy) -> Unit {
    Unit {
        name: proxy.unit.to_owned(),
        enabled: true,
        running: Some(true),
        loaded: vec![paths::unit(proxy.unit)],
        reloaded: vec![proxy.config.to_owned()],
    }
}

/// What asks the proxy on its own host, at the port that its configuration has: the path of each script, and its text.
pub fn scripts(proxy: &HostProxy) -> Result<Vec<(String, String)>, RecipeError> {
    let check = templates::render(template!("balancer-check.sh"), context! { status_port => BALANCER_STATUS_PORT })?;
    let mut all = vec![(paths::bin(CHECK), check)];
    if proxy.checker.is_some() {
        all.push((paths::bin(nginx::CHECK), nginx::script(proxy)?));
    }
    Ok(all)
}

/// What runs such a script all the time, with the script as it is on disk.
pub fn checker(proxy: &HostProxy) -> Option<Unit> {
    proxy.checker.map(nginx::checker)
}

/// Its unit, and what asks the API servers where it does not ask them itself.
fn own_files(draft: &mut Draft<'_>, proxy: &HostProxy) -> Result<Vec<File>, RecipeError> {
    let values = context! {
        program => program(proxy.program), config => proxy.config, check => paths::bin(nginx::CHECK),
    };
    let unit = if proxy == &NGINX { template!("kubexm-nginx.service") } else { template!("kubexm-haproxy.service") };
    let mut files = vec![draft.template(paths::unit(proxy.unit), unit, values)?];
    if let Some(unit) = proxy.checker {
        files.push(nginx::file(draft, proxy, unit)?);
    }
    Ok(files)
}

fn program(name: &str) -> String {
    format!("{SBIN}/{name}")
}

/// Runs both on a host of the role; none on others. With all control planes of cluster.yaml as back-ends: one that does not answer
/// gets no connection.
pub fn step(
    draft: &mut Draft<'_>,
    nodes: &[PlannedHost<'_>],
    node: &PlannedHost<'_>,
) -> Result<Option<Step>, RecipeError> {
    let cx = draft.cx;
    let Some(external) = of(cx.cluster).filter(|_| node.roles.load_balancer) else { return Ok(None) };
    let interface = match external.interface {
        Some(name) => name,
        None => node.interface()?,
    };
    let vip = external.address.ip();
    let prefix = if vip.is_ipv6() { 128 } else { 32 };
    let others = nodes.iter().filter(|other| other.roles.load_balancer && other.name() != node.name());
    let mut peers: Vec<String> = others.map(|other| other.ip.to_string()).collect();
    if peers.is_empty() {
        // Without a peer keepalived goes back to multicast, and gives the address to whoever sends a higher priority.
        peers.push(if node.ip.is_ipv6() { "::1" } else { "127.0.0.1" }.to_owned());
    }
    let config = config(&external, &super::back_ends(cx.cluster, nodes))?;
    let keepalived = context! {
        name => node.name(), check => paths::bin(CHECK), interface, router => external.router, ip => node.ip.to_string(),
        peers, vip => vip.to_string(), prefix,
    };
    let proxy = external.proxy;
    let mut files = vec![
        draft.file(proxy.config, 0o644, config),
        draft.template(KEEPALIVED_CONFIG, template!("keepalived.conf"), keepalived)?,
    ];
    files.extend(scripts(proxy)?.into_iter().map(|(path, text)| draft.file(path, 0o755, text)));
    files.extend(own_files(draft, proxy)?);
    files.push(draft.template(
        paths::unit(KEEPALIVED_UNIT),
        template!("kubexm-keepalived.service"),
        context! {
            program => program(KEEPALIVED), config => KEEPALIVED_CONFIG, proxy_unit => proxy.unit,
            vip => vip.to_string(), prefix, interface,
        },
    )?);
    let booleans = booleans(cx.cluster, node, proxy);
    let limit = MOVES_S + if booleans.is_some() { 120 + REBUILDS_S } else { 120 };
    let title = format!("Run keepalived and {} here, for {}", proxy.program, external.address);
    let step = Step::on(node.name(), "balancer.serve", &title)
        .ensure_all(theirs(node, proxy))
        .ensure(Sysctl {
            path: SYSCTL.to_owned(),
            values: [(NONLOCAL_BIND.to_owned(), "1".to_owned())].into(),
            remembered: Default::default(),
        })
        .ensure_all(booleans)
        .ensure(Dir { path: FOLDER.to_owned(), mode: 0o755 })
        .ensure_all(files)
        .ensure_all(proxy.checker.map(|_| StateDir::at(nginx::STATE)))
        .ensure(serves(proxy))
        .ensure_all(checker(proxy))
        .ensure(Unit {
            name: KEEPALIVED_UNIT.to_owned(),
            enabled: true,
            running: Some(true),
            loaded: vec![paths::unit(KEEPALIVED_UNIT)],
            reloaded: vec![KEEPALIVED_CONFIG.to_owned()],
        })
        .probe(Probe::VirtualAddress { address: external.address }, MOVES_S)
        .timeout_s(limit)
        .undo(Undo::RestoreBefore)
        .build();
    Ok(Some(draft.depends_on_all(step)))
}

/// What the policy of a host that enforces SELinux has to allow: haproxy to listen and connect at any port, nginx to connect, keepalived's
/// script to ask the proxy.
fn booleans(cluster: &Cluster, node: &PlannedHost<'_>, proxy: &HostProxy) -> Option<SelinuxBooleans> {
    let enforces = node.facts.selinux == SelinuxState::Enforcing && cluster.system.selinux != Selinux::Permissive;
    let of_proxy = if proxy == &NGINX { "httpd_can_network_connect" } else { "haproxy_connect_any" };
    enforces.then(|| SelinuxBooleans { names: [of_proxy, "keepalived_connect_any"].map(str::to_owned).into() })
}

/// The distribution's own units of programs that were there before: at the next boot they would start beside ours. Those of
/// packages that kubexm installs are disabled with them.
fn theirs(node: &PlannedHost<'_>, proxy: &HostProxy) -> Vec<Unit> {
    let there = |program: &&str| node.facts.programs.get(*program).is_some_and(Option::is_some);
    let stopped = |program| Unit {
        name: format!("{program}.service"),
        enabled: false,
        running: Some(false),
        loaded: Vec::new(),
        reloaded: Vec::new(),
    };
    [proxy.program, KEEPALIVED].into_iter().filter(there).map(stopped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_router_id_follows_from_the_address_and_is_one_that_vrrp_has() {
        assert_eq!(router_of([10, 0, 0, 100].into()), 100);
        assert_eq!(router_of([10, 0, 1, 0].into()), 1);
    }
}
