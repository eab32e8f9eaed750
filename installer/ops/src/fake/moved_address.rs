//! An address that moves between hosts. keepalived gives it to the host with the highest address, as VRRP decides between equal priorities
//! (RFC 5798), where all of its configuration runs; kube-vip to the first control plane.

use std::net::IpAddr;

use kubexm_plan::balancer::{KEEPALIVED_CONFIG, KEEPALIVED_UNIT};
use kubexm_plan::kubeadm_certificates::KUBE_VIP;

use super::rooted::RootedSystem;
use super::state::State;
use crate::system::System as _;
use crate::teardown::moving_address;

/// It, with its prefix, if this host has it.
pub(super) fn of(system: &RootedSystem, state: &State) -> Option<String> {
    by_keepalived(system, state).or_else(|| by_kube_vip(system, state))
}

fn by_keepalived(system: &RootedSystem, state: &State) -> Option<String> {
    state.units.get(KEEPALIVED_UNIT).filter(|unit| unit.active)?;
    let config = system.read(KEEPALIVED_CONFIG)?;
    let lines = || config.lines().map(str::trim);
    let own: IpAddr = lines().find_map(|line| line.strip_prefix("unicast_src_ip "))?.parse().ok()?;
    let in_block =
        |name| lines().skip_while(move |line| !line.starts_with(name)).skip(1).take_while(|line| *line != "}");
    let mut peers = in_block("unicast_peer").filter_map(|peer| peer.parse::<IpAddr>().ok());
    // One alone has itself as its peer.
    let hears_higher = peers.any(|peer| peer > own && !peer.is_loopback());
    let address = in_block("virtual_ipaddress").next()?.split(' ').next()?.to_owned();
    (!hears_higher).then_some(address)
}

fn by_kube_vip(system: &RootedSystem, state: &State) -> Option<String> {
    state.static_pods.get(KUBE_VIP.0).filter(|pod| !pod.ended)?;
    let address = moving_address::address_in(&system.read(moving_address::MANIFEST)?)?;
    let first = state.cluster.api_servers().into_iter().min()?;
    (system.hostname().ok()? == first).then(|| format!("{address}/32"))
}
