//! Routes, nameservers, and the addresses of the node's own name in /etc/hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ops::resolver;
use crate::{Machine, OpError, fsio};

/// RTF_REJECT of linux/route.h: a route that rejects packets.
const REJECT: u32 = 0x0200;
/// Addresses on which systemd-resolved listens for local programs (systemd-resolved.service(8)).
const RESOLVED_STUBS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53)), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 54))];

/// Whether there is a default route of IPv4, and the destinations of all other routes as CIDRs.
pub(super) fn routes(machine: &Machine) -> Result<(bool, Vec<String>), OpError> {
    let v4 = fsio::read_text(&machine.path("/proc/net/route"))?.unwrap_or_default();
    let v6 = fsio::read_text(&machine.path("/proc/net/ipv6_route"))?.unwrap_or_default();
    let all = v4.lines().skip(1).filter_map(route_v4).chain(v6.lines().filter_map(route_v6));
    let mut default = false;
    let mut routes = Vec::new();
    for (address, prefix) in all {
        if prefix == 0 {
            default |= address.is_ipv4();
        } else {
            routes.push(format!("{address}/{prefix}"));
        }
    }
    routes.sort();
    routes.dedup();
    Ok((default, routes))
}

/// The link of the default route of IPv4 with the lowest metric.
pub(super) fn default_link(machine: &Machine) -> Result<Option<String>, OpError> {
    let table = fsio::read_text(&machine.path("/proc/net/route"))?.unwrap_or_default();
    let read = |line: &str| {
        let (address, prefix) = route_v4(line)?;
        let mut fields = line.split_whitespace();
        let link = fields.next()?.to_owned();
        let metric = fields.nth(5)?.parse::<u32>().ok()?;
        (prefix == 0 && address.is_ipv4()).then_some((metric, link))
    };
    Ok(table.lines().skip(1).filter_map(read).min().map(|(_, link)| link))
}

/// Interfaces whose routes of IPv6 come from a router, by the kernel's own hand: once the host forwards packets, a default route of these
/// goes at once, and an address is not renewed any more.
pub(super) fn routers_asked_on(machine: &Machine) -> Result<Vec<String>, OpError> {
    /// RTF_ADDRCONF of linux/ipv6_route.h: learnt from a router's advertisement.
    const ADVERTISED: u32 = 0x0004_0000;
    let table = fsio::read_text(&machine.path("/proc/net/ipv6_route"))?.unwrap_or_default();
    let mut found = Vec::new();
    for line in table.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (Some(address), Some(flags), Some(device)) = (fields.first(), fields.get(8), fields.get(9)) else {
            continue;
        };
        let flags = u32::from_str_radix(flags, 16).unwrap_or_default();
        // The name becomes a part of a path.
        let is_name = !device.contains('/') && !matches!(*device, "." | "..");
        if address.starts_with("fe80") || flags & ADVERTISED == 0 || !is_name {
            continue;
        }
        let setting = machine.path(format!("/proc/sys/net/ipv6/conf/{device}/accept_ra"));
        // 2: also of a host that forwards.
        if fsio::read_text(&setting)?.is_some_and(|value| value.trim() == "1") {
            found.push((*device).to_owned());
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask …`, addresses as the machine's own words in hex.
fn route_v4(line: &str) -> Option<(IpAddr, u32)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let word = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
    if word(3)? & REJECT != 0 {
        return None;
    }
    Some((Ipv4Addr::from(word(1)?.to_ne_bytes()).into(), word(7)?.count_ones()))
}

/// `destination prefix source prefix next-hop metric references use flags device`, addresses in network order.
fn route_v6(line: &str) -> Option<(IpAddr, u32)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let flags = u32::from_str_radix(fields.get(8)?, 16).ok()?;
    let address = Ipv6Addr::from(u128::from_str_radix(fields.first()?, 16).ok()?);
    let ours_alone = address.is_loopback() || address.is_multicast() || address.segments()[0] == 0xfe80;
    if flags & REJECT != 0 || *fields.get(9)? == "lo" || ours_alone {
        return None;
    }
    Some((address.into(), u32::from_str_radix(fields.get(1)?, 16).ok()?))
}

/// Nameservers of /etc/resolv.conf; none if the file does not exist.
pub(super) fn nameservers(machine: &Machine) -> Result<Option<Vec<IpAddr>>, OpError> {
    servers_in(machine, "/etc/resolv.conf")
}

/// Upstream servers of systemd-resolved if its stub is among `nameservers`, else none.
pub(super) fn resolved_nameservers(machine: &Machine, nameservers: &[IpAddr]) -> Result<Option<Vec<IpAddr>>, OpError> {
    if nameservers.iter().any(|server| RESOLVED_STUBS.contains(server)) {
        servers_in(machine, "/run/systemd/resolve/resolv.conf")
    } else {
        Ok(None)
    }
}

fn servers_in(machine: &Machine, path: &str) -> Result<Option<Vec<IpAddr>>, OpError> {
    let text = fsio::read_text(&machine.path(path))?;
    // The zone of an address (`fe80::1%eth0`) is ignored.
    let parse = |server: &str| server.split('%').next().and_then(|address| address.parse().ok());
    Ok(text.map(|text| resolver::nameservers(&text).filter_map(parse).collect()))
}

/// Addresses of the lines of /etc/hosts with this name, without kubexm's block.
pub(super) fn addresses_in_hosts(machine: &Machine, name: &str) -> Result<Vec<IpAddr>, OpError> {
    let text = fsio::read_text(&machine.path("/etc/hosts"))?.unwrap_or_default();
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        match line.trim() {
            crate::ops::hosts_block::BEGIN => inside = true,
            crate::ops::hosts_block::END => inside = false,
            _ if inside => {}
            line => {
                let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
                let address = words.next().and_then(|address| address.parse().ok());
                if let (Some(address), true) = (address, words.any(|word| word.eq_ignore_ascii_case(name))) {
                    found.push(address);
                }
            }
        }
    }
    Ok(found)
}
