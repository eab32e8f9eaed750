//! Whether this host has an address, on whatever interface.

use std::net::IpAddr;

use kubexm_plan::ProbeAnswer;

use super::answer::{no, yes};
use crate::{Machine, OpError};

pub(super) fn look(machine: &Machine, address: IpAddr) -> Result<ProbeAnswer, OpError> {
    Ok(match interface_with(machine, address)? {
        Some(interface) => yes(format!("{address} is on {interface}")),
        None => no(format!("it does not have {address}")),
    })
}

/// The interface that has an address, in whatever network.
pub(crate) fn interface_with(machine: &Machine, address: IpAddr) -> Result<Option<String>, OpError> {
    let is_it = |text: &String| text.split('/').next().and_then(|ip| ip.parse().ok()) == Some(address);
    let mut interfaces = machine.system().interfaces()?.into_iter();
    Ok(interfaces.find(|interface| interface.addresses.iter().any(is_it)).map(|interface| interface.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::host::Host;

    #[test]
    fn an_address_is_found_in_any_network_and_no_other_that_begins_like_it() {
        let host = Host::fresh();
        let interfaces = r#"[{"name": "eth0", "addresses": ["10.0.0.11/24", "10.0.0.100/32", "fd00::64/128"], "mac": "", "mtu": 1500}]"#;
        host.put("/run/kubexm-double/interfaces.json", interfaces);
        let has = |address: &str| look(&host.machine, address.parse().expect("an address")).expect("an answer");
        assert_eq!(has("10.0.0.100").seen, "10.0.0.100 is on eth0");
        assert!(has("fd00:0::64").holds && !has("10.0.0.10").holds && !has("10.0.0.1").holds);
    }
}
