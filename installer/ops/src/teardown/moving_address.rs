//! The address of kube-vip: it gives it back when it ends, and not when it is killed.

use std::net::IpAddr;

use serde::Deserialize;

use crate::system::Program;
use crate::{Machine, OpError, fsio};

/// As the recipe writes it; a host has it as long as kubelet is to run the pod.
pub(crate) const MANIFEST: &str = "/etc/kubernetes/manifests/kube-vip.yaml";

#[derive(Deserialize)]
struct Listed {
    ifname: Option<String>,
}

/// Takes it from the interfaces that have it as kube-vip gives it to them: alone, and in no network.
pub(crate) fn remove(machine: &Machine) -> Result<(), OpError> {
    let Some(address) = of_manifest(machine)? else { return Ok(()) };
    let (family, whole) = if address.is_ipv4() { ("-4", 32) } else { ("-6", 128) };
    let address = format!("{address}/{whole}");
    // One in a network is the operator's own, and not found by this.
    for interface in having(machine, family, &address)? {
        machine.try_run(&Program::new("ip").args([family, "address", "delete", &address, "dev", &interface]))?;
    }
    // One that had gone meanwhile is no error.
    match having(machine, family, &address)?.first() {
        None => Ok(()),
        Some(interface) => Err(OpError::other(format!(
            "{address}, the address that kube-vip moves, is still on {interface}: `ip address delete {address} dev {interface}` takes it away; \
             then run again"
        ))),
    }
}

fn having(machine: &Machine, family: &str, address: &str) -> Result<Vec<String>, OpError> {
    let listed = machine.run(&Program::new("ip").args([family, "-json", "address", "show", "to", address]))?;
    // Some versions print nothing, others an empty object for each interface without it.
    let listed: Vec<Listed> = match listed.stdout.trim_ascii() {
        b"" => Vec::new(),
        json => serde_json::from_slice(json).map_err(|error| OpError::other(format!("ip -json: {error}")))?,
    };
    Ok(listed.into_iter().filter_map(|interface| interface.ifname).collect())
}

/// By the pod's manifest; none on a host without one.
pub(crate) fn of_manifest(machine: &Machine) -> Result<Option<IpAddr>, OpError> {
    let text = fsio::read_text(&machine.path(MANIFEST))?.unwrap_or_default();
    Ok(address_in(&text))
}

/// By the text of such a manifest.
pub(crate) fn address_in(manifest: &str) -> Option<IpAddr> {
    let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "- name: address");
    let value = lines.nth(1).and_then(|line| line.strip_prefix("value: "));
    value.and_then(|value| value.trim_matches('"').parse().ok())
}

#[cfg(test)]
mod tests {
    use crate::fake::host::Host;

    use super::*;

    #[test]
    fn what_a_killed_kube_vip_has_left_goes_and_an_address_in_a_network_stays() {
        let h = Host::fresh();
        let environment =
            "    - name: vip_arp\n      value: \"true\"\n    - name: address\n      value: \"10.77.0.100\"\n";
        h.put(MANIFEST, environment);
        h.put("/run/kubexm-double/ip-addresses", "eth0 10.77.0.11/24\neth0 10.77.0.100/32\neth1 10.77.0.100/24\n");
        remove(&h.machine).unwrap();
        assert_eq!(h.read("/run/kubexm-double/ip-addresses"), "eth0 10.77.0.11/24\neth1 10.77.0.100/24\n");
        remove(&h.machine).unwrap();
    }
}
