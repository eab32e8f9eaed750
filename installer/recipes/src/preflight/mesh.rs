//! Findings from the connections of [`crate::mesh()`]: each blocked pair as a firewall request needs it.
//!
//! Not one of [`super::CHECKS`]: it needs the results of connections between agents, not only facts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use kubexm_plan::mesh::ConnectionResult;
use kubexm_spec::cluster::{Firewall, Host};
use kubexm_spec::counted;
use kubexm_spec::names::FAN_OUT_PORT;

use super::load_balancers;
use super::report::{Finding, Severity};
use crate::context::PlanContext;
use crate::mesh::{LOAD_BALANCER, NFS_SERVER, has_balancer};
use crate::modules::os::FIREWALLS;

/// Its name in findings.
pub const NAME: &str = "mesh";

/// One finding for each blocked pair, and one for each host that others cannot take content from; `dialed` is keyed by the connecting host.
pub fn findings(cx: &PlanContext<'_>, dialed: &BTreeMap<String, Vec<ConnectionResult>>) -> Vec<Finding> {
    let all = dialed.iter().flat_map(|(from, dialed)| dialed.iter().map(move |dialed| (from, dialed)));
    let unexpected = all.clone().filter(|(_, dialed)| !is_expected(cx, dialed));
    let blocked = unexpected.filter_map(|(from, dialed)| Some((from, dialed, dialed.blocked.as_deref()?)));
    let (sharing, blocked): (Vec<_>, Vec<_>) =
        blocked.partition(|(_, dialed, _)| dialed.dial.port.number == FAN_OUT_PORT && dialed.dial.to != LOAD_BALANCER);
    let blocked = blocked.into_iter().map(|(from, dialed, reason)| finding(cx, from, dialed, reason));
    blocked.chain(unshared(cx, &sharing)).chain(taken(cx, all.clone())).chain(same_router(cx, all)).collect()
}

/// Hosts that others cannot take content from. All of a large cluster may be behind one firewall, so each has one warning.
fn unshared(cx: &PlanContext<'_>, blocked: &[(&String, &ConnectionResult, &str)]) -> Vec<Finding> {
    let mut by_host: BTreeMap<&str, Vec<&(&String, &ConnectionResult, &str)>> = BTreeMap::new();
    for one in blocked {
        by_host.entry(&one.1.dial.to).or_default().push(one);
    }
    let finding = |(to, all): (&str, Vec<&(&String, &ConnectionResult, &str)>)| {
        let (from, dialed, reason) = *all.first()?;
        let source = match all.len() - 1 {
            0 => address(cx, from),
            others => format!("{} and {}", address(cx, from), counted(others as u64, "other host")),
        };
        let fix = match stopped_later(cx, to) {
            Some(firewall) => format!("{firewall} on {to} will be stopped (`system.firewall: off`)"),
            None => format!(
                "open it in the firewall of {to} and in every firewall between the hosts; until then what it would serve \
                 comes from others, the depot or this machine, which takes longer (`registry.fanOut: false` asks no host)"
            ),
        };
        Some(Finding {
            severity: Severity::Warn,
            check: NAME.to_owned(),
            host: Some(to.to_owned()),
            found: format!("from {source} to {} port {}: {reason}", dialed.dial.address, dialed.dial.port),
            needed: "this port open while a run lasts, for hosts that take content from each other".to_owned(),
            fix,
            detail: None,
        })
    };
    by_host.into_iter().filter_map(finding).collect()
}

fn address(cx: &PlanContext<'_>, host: &str) -> String {
    match cx.cluster.host(host).and_then(|host| host.node_ip()) {
        Some(ip) => ip.to_string(),
        None => host.to_owned(),
    }
}

/// Whether a dial has to fail: no host has the virtual IP until kubexm's keepalived, or kube-vip, runs.
pub fn is_expected(cx: &PlanContext<'_>, dialed: &ConnectionResult) -> bool {
    cx.cluster.load_balancer.mode.moves() && dialed.dial.to == LOAD_BALANCER && dialed.blocked.is_some()
}

/// The virtual IP is for hosts of the cluster, but another machine already has it.
fn taken<'a>(
    cx: &PlanContext<'_>,
    mut all: impl Iterator<Item = (&'a String, &'a ConnectionResult)>,
) -> Option<Finding> {
    let mode = &cx.cluster.load_balancer.mode;
    if !mode.moves() || has_balancer(cx) {
        return None;
    }
    // A machine may have the address and nobody listening there. The neighbours of a host remember for a while that one of the
    // cluster's own hosts had it, before a reset.
    let own = |mac: &String| cx.facts.values().flat_map(|facts| &facts.interfaces).any(|one| one.mac == *mac);
    let somebody =
        |dialed: &ConnectionResult| dialed.blocked.is_none() || dialed.neighbour.as_ref().is_some_and(|mac| !own(mac));
    let (from, dialed) = all.find(|(_, dialed)| dialed.dial.to == LOAD_BALANCER && somebody(dialed))?;
    let found = match &dialed.neighbour {
        Some(mac) if dialed.blocked.is_some() => {
            format!(
                "a machine that has {}, the load balancer's own address (hardware address {mac})",
                dialed.dial.address
            )
        }
        _ => format!("an answer at {} port {}, the load balancer's own address", dialed.dial.address, dialed.dial.port),
    };
    Some(Finding {
        severity: Severity::Fail,
        check: NAME.to_owned(),
        host: Some(from.clone()),
        found,
        needed: load_balancers::free(mode),
        fix: "choose another `loadBalancer.vip`, or remove the address from the machine that has it".to_owned(),
        detail: None,
    })
}

/// Somebody else announces the router id that a new load balancer is to have. kubexm's keepalived tells its own peers only, so that both would
/// work; but whoever looks at the network takes them for one, and an edit of either configuration makes them one. Another id costs nothing
/// now. Where the load balancer runs, nobody listens.
fn same_router<'a>(
    cx: &PlanContext<'_>,
    mut all: impl Iterator<Item = (&'a String, &'a ConnectionResult)>,
) -> Option<Finding> {
    let ours = |from: IpAddr| cx.cluster.hosts.iter().any(|host| host.node_ip() == Some(from));
    let other = |dialed: &'a ConnectionResult| dialed.routers.iter().find(|router| !ours(router.from.into()));
    let (host, router) = all.find_map(|(host, dialed)| Some((host, other(dialed)?)))?;
    let addresses: Vec<String> = router.addresses.iter().map(ToString::to_string).collect();
    let of = match addresses.as_slice() {
        [] => String::new(),
        all => format!(", for {}", all.join(", ")),
    };
    let (id, from) = (router.router, router.from);
    Some(Finding {
        severity: Severity::Fail,
        check: NAME.to_owned(),
        host: Some(host.clone()),
        found: format!("{from} announces router id {id} by VRRP in this network{of}"),
        needed: "a router id that nobody else in the network of the load balancer's address uses".to_owned(),
        fix: "choose another one, from 1 to 255: `loadBalancer.external.virtualRouterId`".to_owned(),
        detail: None,
    })
}

fn finding(cx: &PlanContext<'_>, from: &str, dialed: &ConnectionResult, reason: &str) -> Finding {
    let dial = &dialed.dial;
    let source = match dial.pod {
        Some(pod) => format!("the pod address {}", pod.pod),
        None => match cx.cluster.host(from).and_then(Host::second_node_ip).filter(|_| dial.address.is_ipv6()) {
            Some(second) => second.to_string(),
            None => address(cx, from),
        },
    };
    let (severity, needed, fix) = if dial.to == LOAD_BALANCER {
        let fix = "nothing forwards it now, which is normal for one with health checks: make sure that it forwards \
                    to port 6443 of every control plane";
        (Severity::Warn, "a load balancer that forwards to the control planes", fix.to_owned())
    } else if dial.to == NFS_SERVER {
        let fix = format!(
            "start the server, open the port in its firewall and in every firewall between it and {from}, or correct \
             `spec.storage.nfs.server`"
        );
        (Severity::Fail, "the server of `spec.storage.nfs`, from which every node mounts volumes", fix)
    } else if let Some(firewall) = stopped_later(cx, &dial.to) {
        (
            Severity::Warn,
            "this port open",
            format!("{firewall} on {} will be stopped (`system.firewall: off`)", dial.to),
        )
    } else if dial.pod.is_some() {
        let fix = format!(
            "its own firewall drops what its pods send to it: accept connections from {} in the chain INPUT of {}, not only \
             those from other hosts",
            cx.cluster.network.pod_cidr, dial.to
        );
        (Severity::Fail, "an API server that pods on its own host reach, such as cluster DNS", fix)
    } else {
        let fix = format!("open it in the firewall of {} and in every firewall between it and {from}", dial.to);
        (Severity::Fail, "this port open", fix)
    };
    Finding {
        severity,
        check: NAME.to_owned(),
        host: Some(from.to_owned()),
        found: format!("from {source} to {} port {}: {reason}", dial.address, dial.port),
        needed: needed.to_owned(),
        fix,
        detail: None,
    }
}

/// A firewall of the host that the plan stops: it may be the only cause.
fn stopped_later<'a>(cx: &PlanContext<'a>, host: &str) -> Option<&'a str> {
    if cx.cluster.system.firewall != Firewall::Off {
        return None;
    }
    let units = &cx.facts.get(host)?.firewalls;
    let ours = |unit: &&String| FIREWALLS.contains(&unit.strip_suffix(".service").unwrap_or(unit));
    units.iter().find(ours).map(String::as_str)
}
