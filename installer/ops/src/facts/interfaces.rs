//! Network interfaces of this machine, from `ip -json`.

use kubexm_plan::facts::Interface;
use serde::Deserialize;

use crate::OpError;
use crate::system::{Program, System};

#[derive(Deserialize)]
struct Listed {
    ifname: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    mtu: u32,
    #[serde(default)]
    addr_info: Vec<Address>,
}

#[derive(Deserialize)]
struct Address {
    local: Option<String>,
    prefixlen: Option<u8>,
}

/// Every interface except the loopback. Without `ip`, only names and hardware addresses from /sys: preflight then
/// reports the missing program.
pub(crate) fn of_this_machine(system: &impl System) -> Result<Vec<Interface>, OpError> {
    let program = Program::new("ip").args(["-json", "address", "show"]).within(20);
    let Ok(output) = system.run(&program) else { return Ok(from_sys()) };
    let listed: Vec<Listed> = serde_json::from_slice(&output.stdout).unwrap_or_default();
    Ok(listed
        .into_iter()
        .filter(|interface| interface.ifname != "lo")
        .map(|interface| Interface {
            name: interface.ifname,
            mac: interface.address,
            mtu: interface.mtu,
            addresses: interface
                .addr_info
                .into_iter()
                .filter_map(|address| Some(format!("{}/{}", address.local?, address.prefixlen?)))
                .collect(),
        })
        .collect())
}

fn from_sys() -> Vec<Interface> {
    let Ok(entries) = std::fs::read_dir("/sys/class/net") else { return Vec::new() };
    entries
        .flatten()
        .map(|entry| Interface {
            name: entry.file_name().to_string_lossy().into_owned(),
            addresses: Vec::new(),
            mac: std::fs::read_to_string(entry.path().join("address")).unwrap_or_default().trim().to_owned(),
            mtu: std::fs::read_to_string(entry.path().join("mtu"))
                .ok()
                .and_then(|m| m.trim().parse().ok())
                .unwrap_or(0),
        })
        .filter(|interface| interface.name != "lo")
        .collect()
}
