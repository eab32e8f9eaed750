//! The check that exactly one host has the address that moves between several: keepalived's, or kube-vip's. With two of them clients reach
//! now this host and now that, and nothing else says so.

use std::net::IpAddr;

use kubexm_plan::balancer::MovedBy;
use kubexm_plan::{Probe, Step, Undo};

use super::{external, kube_vip};
use crate::context::{PlanContext, PlannedHost};

/// How long none or two may have it while it moves, in seconds: a lost host's lease or adverts, and slow disks of etcd.
const MOVES_S: u64 = 60;
/// A host that hears no other one takes the address once three adverts and a part of a second have passed.
const SETTLES: u32 = 6;

/// Right after keepalived was started on its hosts, before anything uses the address; none where kubexm runs none.
pub fn at_start(cx: &PlanContext<'_>, nodes: &[PlannedHost<'_>]) -> Option<Step> {
    let external = external::of(cx.cluster)?;
    let hosts = of_role(nodes, |node| node.roles.load_balancer);
    let first = hosts.first()?.clone();
    Some(step(&first, "balancer.holder", external.address.ip(), (hosts, MovedBy::Keepalived), SETTLES))
}

/// At the end, asked for from a control plane; none where nothing moves an address.
pub fn at_end(cx: &PlanContext<'_>, nodes: &[PlannedHost<'_>], first: &PlannedHost<'_>) -> Option<Step> {
    let (address, hosts) = match (external::of(cx.cluster), kube_vip::address(cx.cluster)) {
        (Some(external), _) => {
            (external.address.ip(), (of_role(nodes, |node| node.roles.load_balancer), MovedBy::Keepalived))
        }
        (None, Some(address)) => (address, (of_role(nodes, |node| node.roles.control_plane), MovedBy::KubeVip)),
        (None, None) => return None,
    };
    Some(step(first.name(), "check.holder", address, hosts, 1))
}

fn of_role(nodes: &[PlannedHost<'_>], has: impl Fn(&&PlannedHost<'_>) -> bool) -> Vec<String> {
    nodes.iter().filter(has).map(|node| node.name().to_owned()).collect()
}

fn step(on: &str, name: &str, address: IpAddr, (hosts, moved_by): (Vec<String>, MovedBy), looks: u32) -> Step {
    let title = format!("Check that exactly one of {} has {address}", hosts.join(", "));
    Step::on(on, name, &title)
        .probe(Probe::OneHasAddress { address, hosts, moved_by, looks }, MOVES_S)
        .timeout_s(MOVES_S + 20)
        .undo(Undo::Nothing)
        .build()
}
