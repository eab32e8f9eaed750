//! Routes that a network has added to the main table.
//!
//! They have a protocol of their own, or lead to a part of the networks that its pods have written down. Those over links that go themselves
//! are left to the kernel. A route without a link (`blackhole`) or over the host's own link outlives its
//! network: packets to its addresses would be dropped, or sent to hosts that no longer expect them.

use std::path::PathBuf;

use ipnet::IpNet;
use kubexm_plan::network;
use kubexm_plan::op::reset::ASIDE;

use super::mounts;
use crate::system::Program;
use crate::{Machine, OpError};

/// Both families: the options of `ip`.
const FAMILIES: [&str; 2] = ["-4", "-6"];
/// The protocol of routes that were added without one, of which `ip route` says nothing.
const BOOT: &str = "boot";
/// Kinds that `ip route` writes before the destination.
const KINDS: [&str; 5] = ["blackhole", "unreachable", "prohibit", "throw", "unicast"];

/// A route of a network.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Route {
    family: &'static str,
    /// Kind and destination, as `ip route` takes them.
    words: Vec<String>,
    protocol: String,
}

impl Route {
    /// For people.
    pub(super) fn text(&self) -> String {
        format!("route {}", self.words.join(" "))
    }
}

/// The routes that exist. `going`: links that go themselves.
pub(super) fn all(machine: &Machine, going: &[String]) -> Result<Vec<Route>, OpError> {
    let pods = pod_networks(machine);
    let mut found = Vec::new();
    for family in FAMILIES {
        // A kernel without the family has no routes of it.
        let listed = machine.try_run(&Program::new("ip").args([family, "route", "show", "table", "main"]))?;
        if listed.code == 0 {
            found.extend(routes_in(&listed.stdout(), family, going, &pods));
        }
    }
    Ok(found)
}

/// The networks of pods that a network's own pods have written down; none after a reboot, and then it has no routes either.
fn pod_networks(machine: &Machine) -> Vec<IpNet> {
    let files = network::any().filter_map(|network| network.pod_networks).flat_map(|file| places(machine, file));
    let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
    let of_text = |text: String| -> Vec<IpNet> {
        let values = text.lines().filter_map(|line| line.split_once('='));
        let networks = values.filter(|(name, _)| name.ends_with("NETWORK")).flat_map(|(_, value)| value.split(','));
        networks.filter_map(|network| network.trim().parse().ok()).collect()
    };
    texts.flat_map(of_text).collect()
}

/// Where a file in a folder of a network may be: a reset has set the folder aside before it clears the network.
fn places(machine: &Machine, file: &str) -> Vec<PathBuf> {
    let parts = file.rsplit_once('/').and_then(|(folder, name)| Some((folder.rsplit_once('/')?, name)));
    let Some(((parent, folder), name)) = parts else { return Vec::new() };
    let set_aside = format!("{ASIDE}-{folder}");
    let beside = mounts::entries(&machine.path(parent)).unwrap_or_default().into_iter();
    let is_aside = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&set_aside))
    };
    let asides = beside.filter(is_aside).map(|folder| folder.join(name));
    std::iter::once(machine.path(file)).chain(asides).collect()
}

/// `pods`: networks of pods whose routes have no protocol of their own.
fn routes_in(listed: &str, family: &'static str, going: &[String], pods: &[IpNet]) -> Vec<Route> {
    let is_ours = |protocol: &str| network::any().any(|network| network.route_protocols.contains(&protocol));
    // A part of it, by way of another host: a network of the host itself is none of the pods'.
    let is_of_pods = |destination: &str| {
        destination.parse::<IpNet>().is_ok_and(|destination| {
            pods.iter().any(|pods| pods.contains(&destination) && pods.prefix_len() < destination.prefix_len())
        })
    };
    let read = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |name: &str| words.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
        let protocol = after("proto").unwrap_or(BOOT);
        if after("dev").is_some_and(|link| going.iter().any(|other| other == link)) {
            return None;
        }
        let target = usize::from(KINDS.contains(words.first()?));
        // Without a default route a host may be out of reach, and no network of pods needs one.
        let destination = words.get(target).filter(|destination| **destination != "default")?;
        let direct = protocol == BOOT && after("via").is_some() && is_of_pods(destination);
        if !direct && !is_ours(protocol) {
            return None;
        }
        let words = words[..=target].iter().map(|word| (*word).to_owned()).collect();
        Some(Route { family, words, protocol: protocol.to_owned() })
    };
    listed.lines().filter_map(read).collect()
}

/// Removes the routes. The kernel takes away routes by itself, when a link goes down or an address goes: one that is no longer there is fine.
pub(super) fn remove(machine: &Machine, going: &[String]) -> Result<(), OpError> {
    let mut refused = None;
    for Route { family, words, protocol } in all(machine, going)? {
        let program = Program::new("ip").args([family, "route", "delete"]);
        let program = program.args(words.iter().map(String::as_str)).args(["proto", &protocol]);
        let deleted = machine.try_run(&program)?;
        if deleted.code != 0 {
            refused = Some(deleted.tail());
        }
    }
    let Some(why) = refused else { return Ok(()) };
    match all(machine, going)?.first() {
        Some(left) => Err(OpError::other(format!("the {} cannot be deleted: {why}", left.text()))),
        None => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const LISTED: &str = "default via 10.77.0.1 dev eth0 proto 80\n\
        10.77.0.0/24 dev eth0 proto kernel scope link src 10.77.0.11\n\
        10.233.100.0/26 via 10.233.100.0 dev vxlan.calico proto 80 onlink\n\
        blackhole 10.233.75.0/26 proto 80\n\
        10.233.90.0/26 via 10.77.0.13 dev eth0 proto 80 onlink\n\
        10.233.91.0/26 via 10.77.0.14 dev eth0 proto bird\n\
        blackhole 192.0.2.0/24 proto static\n";

    fn found(listed: &str, pods: &[&str]) -> Vec<String> {
        let pods: Vec<IpNet> = pods.iter().map(|net| net.parse().unwrap()).collect();
        let going = ["vxlan.calico".to_owned(), "cni0".to_owned()];
        routes_in(listed, "-4", &going, &pods).iter().map(Route::text).collect()
    }

    #[test]
    fn routes_that_outlive_a_network_are_found_and_those_of_others_stay() {
        assert_eq!(found(LISTED, &[]), ["route blackhole 10.233.75.0/26", "route 10.233.90.0/26"]);
    }

    #[test]
    fn routes_to_pods_by_way_of_other_hosts_are_found_where_their_network_is_written_down() {
        let listed = "default via 10.77.0.1 dev eth0\n\
            10.77.0.0/24 dev eth0 proto kernel scope link src 10.77.0.11\n\
            10.99.0.0/16 via 10.77.0.9 dev eth0\n\
            10.233.64.0/18 via 10.77.0.9 dev eth0\n\
            10.233.64.0/24 dev cni0 proto kernel scope link src 10.233.64.1\n\
            10.233.65.0/24 via 10.77.0.12 dev eth0\n\
            10.233.66.0/24 via 10.77.0.13 dev eth0 proto static\n\
            10.233.67.7 via 10.77.0.13 dev eth0\n";
        assert_eq!(found(listed, &["10.233.64.0/18"]), ["route 10.233.65.0/24"]);
        assert_eq!(found(listed, &[]), [""; 0]);
    }
}
