//! Routes that a network has added to the main table, and its addresses on links of the kernel.
//!
//! Those over links that go themselves are left to the kernel. A route without a link (`blackhole`) or over the host's own link outlives its
//! network: packets to its addresses would be dropped, or sent to hosts that no longer expect them.

use std::fs;
use std::net::IpAddr;

use ipnet::IpNet;
use kubexm_plan::network::{self, NetworkTraits, Routes};

use super::mounts;
use crate::system::Program;
use crate::{Machine, OpError, fsio};

/// Both families: the options of `ip`.
const FAMILIES: [&str; 2] = ["-4", "-6"];
/// Kinds that `ip route` writes before the destination.
const KINDS: [&str; 5] = ["blackhole", "unreachable", "prohibit", "throw", "unicast"];

/// A route of a network.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Route {
    family: &'static str,
    /// Kind and destination, as `ip route` takes them.
    words: Vec<String>,
    protocol: String,
    network: Option<IpNet>,
}

impl Route {
    /// For people.
    pub(super) fn text(&self) -> String {
        format!("route {}", self.words.join(" "))
    }
}

/// An address of a network on a link of the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Borrowed {
    link: &'static str,
    address: String,
}

impl Borrowed {
    /// For people.
    pub(super) fn text(&self) -> String {
        format!("address {} on {}", self.address, self.link)
    }
}

/// The routes that exist. `going`: links that go themselves; `has_chains`: whether packet-filter chains of a network are there.
pub(super) fn all(
    machine: &Machine,
    going: &[String],
    has_chains: &dyn Fn(&NetworkTraits) -> bool,
) -> Result<Vec<Route>, OpError> {
    let mut found = Vec::new();
    for family in FAMILIES {
        // A kernel without the family has no routes of it.
        let listed = machine.try_run(&Program::new("ip").args([family, "route", "show", "table", "main"]))?;
        if listed.code == 0 {
            let shared = |network: &NetworkTraits| has_chains(network) && !others_run(machine, &network.routes);
            found.extend(routes_in(&listed.stdout(), family, going, &shared));
        }
    }
    Ok(found)
}

fn routes_in(
    listed: &str,
    family: &'static str,
    going: &[String],
    shared: &dyn Fn(&NetworkTraits) -> bool,
) -> Vec<Route> {
    let is_ours = |protocol: &str| {
        network::any().any(|network| {
            let of_both = network.routes.shared.is_some_and(|(names, _)| names.contains(&protocol));
            network.routes.own.contains(&protocol) || (of_both && shared(network))
        })
    };
    let read = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |name: &str| words.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
        let protocol = after("proto").filter(|protocol| is_ours(protocol))?;
        if after("dev").is_some_and(|link| going.iter().any(|other| other == link)) {
            return None;
        }
        let target = usize::from(KINDS.contains(words.first()?));
        let destination = *words.get(target)?;
        let network = destination.parse().ok().or_else(|| destination.parse::<IpAddr>().ok().map(IpNet::from));
        let (protocol, words) = (protocol.to_owned(), words[..=target].iter().map(|word| (*word).to_owned()).collect());
        Some(Route { family, words, protocol, network })
    };
    listed.lines().filter_map(read).collect()
}

/// Whether a program of others runs that adds such routes.
fn others_run(machine: &Machine, routes: &Routes) -> bool {
    let Some((_, program)) = routes.shared else { return false };
    let all = mounts::entries(&machine.path("/proc")).unwrap_or_default();
    all.iter().any(|process| {
        let name = fsio::read_text(&process.join("comm")).ok().flatten();
        name.is_some_and(|name| name.trim_end() == program)
    })
}

/// Addresses on links of the kernel that are inside these routes: a network gives such a link an address of the node's own share.
pub(super) fn borrowed(machine: &Machine, routes: &[Route]) -> Result<Vec<Borrowed>, OpError> {
    let mut found = Vec::new();
    for link in network::any().flat_map(|network| network.routes.borrowed) {
        if fs::symlink_metadata(machine.path(format!("/sys/class/net/{link}"))).is_err() {
            continue;
        }
        let listed = machine.try_run(&Program::new("ip").args(["-oneline", "address", "show", "dev", link]))?;
        found.extend(addresses_in(&listed.stdout(), link, routes));
    }
    Ok(found)
}

/// `7: tunl0    inet 10.233.75.1/32 scope global tunl0\       valid_lft forever preferred_lft forever`
fn addresses_in(listed: &str, link: &'static str, routes: &[Route]) -> Vec<Borrowed> {
    let inside = |address: &str| {
        let Ok(address) = address.parse::<IpNet>() else { return false };
        routes.iter().filter_map(|route| route.network).any(|network| network.contains(&address.addr()))
    };
    let read = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let pair = words.windows(2).find(|pair| matches!(pair[0], "inet" | "inet6"))?;
        inside(pair[1]).then(|| Borrowed { link, address: pair[1].to_owned() })
    };
    listed.lines().filter_map(read).collect()
}

/// Removes the addresses, then the routes: these tell which addresses are the network's.
pub(super) fn remove(machine: &Machine, routes: &[Route]) -> Result<(), OpError> {
    for Borrowed { link, address } in borrowed(machine, routes)? {
        machine.run(&Program::new("ip").args(["address", "delete", &address, "dev", link]))?;
        let left = machine.try_run(&Program::new("ip").args(["-oneline", "address", "show", "dev", link]))?;
        if left.stdout().trim().is_empty() {
            // As the kernel makes it.
            machine.run(&Program::new("ip").args(["link", "set", link, "down"]))?;
        }
    }
    for Route { family, words, protocol, .. } in routes {
        let program = Program::new("ip").args([family, "route", "delete"]);
        machine.run(&program.args(words.iter().map(String::as_str)).args(["proto", protocol]))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "default via 10.77.0.1 dev eth0 proto dhcp src 10.77.0.11 metric 100\n\
        10.77.0.0/24 dev eth0 proto kernel scope link src 10.77.0.11\n\
        10.233.100.0/26 via 10.233.100.0 dev vxlan.calico proto 80 onlink\n\
        blackhole 10.233.75.0/26 proto 80\n\
        10.233.90.0/26 via 10.77.0.13 dev eth0 proto 80 onlink\n\
        10.233.91.0/26 via 10.77.0.14 dev tunl0 proto bird onlink\n\
        blackhole 192.0.2.0/24 proto static\n";

    fn texts(shared: bool) -> Vec<String> {
        let going = ["vxlan.calico".to_owned()];
        routes_in(LISTED, "-4", &going, &|_| shared).iter().map(Route::text).collect()
    }

    #[test]
    fn routes_that_outlive_a_network_are_found_and_those_of_others_stay() {
        let own = ["route blackhole 10.233.75.0/26", "route 10.233.90.0/26"];
        assert_eq!(texts(false), own, "a BIRD of the operator's may have the other one");
        assert_eq!(texts(true), [own[0], own[1], "route 10.233.91.0/26"]);
    }

    #[test]
    fn of_the_kernels_tunnel_only_the_address_of_the_nodes_own_share_goes() {
        let listed = "7: tunl0    inet 10.233.75.1/32 scope global tunl0\\       valid_lft forever\n\
            7: tunl0    inet 198.51.100.9/32 scope global tunl0\\       valid_lft forever\n";
        let routes = routes_in(LISTED, "-4", &[], &|_| false);
        let found: Vec<String> = addresses_in(listed, "tunl0", &routes).iter().map(Borrowed::text).collect();
        assert_eq!(found, ["address 10.233.75.1/32 on tunl0"]);
    }
}
