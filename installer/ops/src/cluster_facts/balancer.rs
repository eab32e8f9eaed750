//! keepalived and its proxy on a host of the load balancer: whether they run, and whether the host has the address; the same of a control
//! plane with kube-vip.

use kubexm_plan::balancer::{HAPROXY, KEEPALIVED_CONFIG, PROXIES};
use kubexm_plan::cluster_facts::BalancerFacts;
use kubexm_plan::kubeadm_certificates::KUBE_VIP;
use kubexm_plan::runtime::{self, RuntimeTraits};

use crate::probe::has_address::interface_with;
use crate::teardown::moving_address;
use crate::{Machine, OpError, containers, fsio, systemd};

/// None on a host that has neither a configuration of kubexm's nor kube-vip.
pub(super) fn look(machine: &Machine, host: &str) -> Result<Option<BalancerFacts>, OpError> {
    let has = |address: &str| match address.parse() {
        Ok(address) => Ok(interface_with(machine, address)?.is_some()),
        Err(error) => Err(OpError::other(format!("{address:?} is no address: {error}"))),
    };
    let Some(config) = fsio::read_text(&machine.path(KEEPALIVED_CONFIG))? else {
        let Some(address) = moving_address::of_manifest(machine)?.map(|address| address.to_string()) else {
            return Ok(None);
        };
        let holds = has(&address)?;
        let mut runs = false;
        // The socket of another one may be there, too.
        let is_ours = |runtime: &&&RuntimeTraits| runtime.programs.is_none_or(|folder| machine.path(folder).exists());
        for runtime in runtime::INSTALLED.iter().filter(is_ours) {
            let all = containers::of_system_pod(machine, runtime.kind, KUBE_VIP.0)?;
            runs |= all.iter().any(|container| container.running);
        }
        let stopped = if runs { Vec::new() } else { vec![KUBE_VIP.0.to_owned()] };
        return Ok(Some(BalancerFacts { host: host.to_owned(), address, holds, stopped }));
    };
    let Some(address) = address(&config) else {
        return Err(OpError::other(format!("{KEEPALIVED_CONFIG} has no virtual address")));
    };
    let holds = has(address)?;
    let proxy = PROXIES.into_iter().find(|proxy| machine.path(proxy.config).exists()).unwrap_or(&HAPROXY);
    let units: Vec<&str> = proxy.units().collect();
    let shown = systemd::show_all(machine, &units)?;
    let stopped = units.iter().zip(shown).filter(|(_, shown)| !shown.active()).map(|(unit, _)| (*unit).to_owned());
    Ok(Some(BalancerFacts { host: host.to_owned(), address: address.to_owned(), holds, stopped: stopped.collect() }))
}

/// The first of the block `virtual_ipaddress`, without its prefix.
fn address(config: &str) -> Option<&str> {
    let mut lines = config.lines().map(str::trim);
    lines.find(|line| line.starts_with("virtual_ipaddress"))?;
    lines.next()?.split(['/', ' ']).next().filter(|word| !word.is_empty() && *word != "}")
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn the_address_is_read_from_its_block() {
        let config = "vrrp_instance a {\n    virtual_ipaddress {\n        10.0.0.9/32 dev eth0\n    }\n}\n";
        assert_eq!(address(config), Some("10.0.0.9"));
        assert_eq!(address("virtual_ipaddress {\n}\n"), None);
    }
}
