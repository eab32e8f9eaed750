//! Routes that a network has added to the main table, and addresses that it has given to links of the kernel.
//!
//! They have a protocol of their own, or are of a part of the networks of pods that are written down. Those over links that go themselves
//! are left to the kernel. A route without a link (`blackhole`) or over the host's own link outlives its
//! network: packets to its addresses would be dropped, or sent to hosts that no longer expect them.

use ipnet::IpNet;
use kubexm_plan::network::{self, PodRoutes};
use std::net::IpAddr;

use super::aside::places;
use crate::system::Program;
use crate::{Machine, OpError};

/// Both families: the options of `ip`.
const FAMILIES: [&str; 2] = ["-4", "-6"];
/// The protocol of routes that were added without one, of which `ip route` says nothing.
const BOOT: &str = "boot";
/// Kinds that `ip route` writes before the destination.
const KINDS: [&str; 5] = ["blackhole", "unreachable", "prohibit", "throw", "unicast"];

/// The largest share that a node can have of a network of pods, as a prefix length.
const LARGEST_SHARE: u8 = 20;

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
    let pods = Pods::written_down(machine);
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

/// The networks of pods that are written down on a host, with how a network's routes to a part of them are known.
struct Pods(Vec<(&'static PodRoutes, Vec<IpNet>)>);

impl Pods {
    /// What a network's own pods have written down is gone after a reboot, and then it has no routes either.
    fn written_down(machine: &Machine) -> Self {
        let of_text = |text: String| -> Vec<IpNet> {
            let values = text.lines().filter_map(|line| line.split_once('='));
            let networks = values.filter(|(name, _)| name.ends_with("NETWORK")).flat_map(|(_, value)| value.split(','));
            networks.filter_map(|network| network.trim().parse().ok()).collect()
        };
        let of_network = |known: &'static PodRoutes| {
            let texts = places(machine, known.networks).into_iter();
            (known, texts.filter_map(|file| std::fs::read_to_string(file).ok()).flat_map(of_text).collect())
        };
        Self(network::any().filter_map(|network| network.pod_routes).map(of_network).collect())
    }

    /// Whether it is to a part of them, and of a protocol that such routes have: a network of the host itself is none of the pods'.
    fn have_route(&self, protocol: &str, destination: &str, is_block: bool) -> bool {
        // One to a single address that was added without a protocol stays: it is an operator's, since nodes have more of them.
        let parsed = if protocol == BOOT { destination.parse().ok() } else { parsed(destination) };
        let Some(destination) = parsed else { return false };
        self.0.iter().any(|(known, networks)| {
            // A small one may be one node's share; a route to nowhere for all of a larger one is an operator's, who announces it to a site.
            let whole = |pods: &IpNet| is_block && pods.prefix_len() >= LARGEST_SHARE && *pods == destination;
            let within = |pods: &IpNet| is_part(pods, &destination) || whole(pods);
            known.protocols.contains(&protocol) && networks.iter().any(within)
        })
    }

    /// The links that may have an address of theirs, each with the networks.
    fn links(&self) -> impl Iterator<Item = (&'static str, &[IpNet])> {
        self.0.iter().flat_map(|(known, networks)| known.links.iter().map(move |link| (*link, networks.as_slice())))
    }
}

/// `10.233.64.0/26`, or one address.
fn parsed(destination: &str) -> Option<IpNet> {
    destination.parse().ok().or_else(|| destination.parse::<IpAddr>().ok().map(IpNet::from))
}

fn is_part(network: &IpNet, part: &IpNet) -> bool {
    network.contains(part) && network.prefix_len() < part.prefix_len()
}

fn routes_in(listed: &str, family: &'static str, going: &[String], pods: &Pods) -> Vec<Route> {
    let is_ours = |protocol: &str| network::any().any(|network| network.route_protocols.contains(&protocol));
    // The hops of a route with several are on lines of their own, after it.
    let is_hop = |line: &str| line.starts_with(char::is_whitespace);
    let read = |(line, more): (&str, bool)| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |name: &str| words.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
        let protocol = after("proto").unwrap_or(BOOT);
        if after("dev").is_some_and(|link| going.iter().any(|other| other == link)) {
            return None;
        }
        let target = usize::from(KINDS.contains(words.first()?));
        // Without a default route a host may be out of reach, and no network of pods needs one.
        let destination = words.get(target).filter(|destination| **destination != "default")?;
        // By way of another host, or nowhere: what leads to a link is of what is behind it.
        let is_block = target == 1;
        let of_pods = (after("via").is_some() || more || is_block) && pods.have_route(protocol, destination, is_block);
        if !of_pods && !is_ours(protocol) {
            return None;
        }
        let words = words[..=target].iter().map(|word| (*word).to_owned()).collect();
        Some(Route { family, words, protocol: protocol.to_owned() })
    };
    let followed = listed.lines().skip(1).map(is_hop).chain([false]);
    listed.lines().zip(followed).filter(|(line, _)| !is_hop(line)).filter_map(read).collect()
}

/// An address of a node's share on a link of the kernel's, which stays.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Borrowed {
    link: &'static str,
    address: IpNet,
}

impl Borrowed {
    /// For people.
    pub(super) fn text(&self) -> String {
        format!("address {} on {}", self.address, self.link)
    }
}

/// The addresses that pods of a network have given to such links.
pub(super) fn borrowed(machine: &Machine) -> Result<Vec<Borrowed>, OpError> {
    let pods = Pods::written_down(machine);
    let mut found = Vec::new();
    for (link, networks) in pods.links().filter(|(_, networks)| !networks.is_empty()) {
        let of_pods = |address: &IpNet| networks.iter().any(|network| is_part(network, address));
        let addresses = addresses_of(machine, link)?.into_iter().filter(of_pods);
        found.extend(addresses.map(|address| Borrowed { link, address }));
    }
    Ok(found)
}

fn addresses_of(machine: &Machine, link: &str) -> Result<Vec<IpNet>, OpError> {
    if !machine.path(format!("/sys/class/net/{link}")).exists() {
        return Ok(Vec::new());
    }
    let listed = machine.run(&Program::new("ip").args(["-4", "-oneline", "address", "show", "dev", link]))?.stdout();
    Ok(listed.lines().filter_map(address_in).collect())
}

/// `7: tunl0    inet 10.233.75.1/32 scope global tunl0\       valid_lft forever`
fn address_in(line: &str) -> Option<IpNet> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "inet");
    words.nth(1)?.parse().ok()
}

/// Takes them away. A link without any address is left as the kernel has made it: down.
pub(super) fn give_back(machine: &Machine) -> Result<(), OpError> {
    for Borrowed { link, address } in borrowed(machine)? {
        let address = address.to_string();
        machine.run(&Program::new("ip").args(["-4", "address", "delete", &address, "dev", link]))?;
        if addresses_of(machine, link)?.is_empty() {
            machine.run(&Program::new("ip").args(["link", "set", "dev", link, "down"]))?;
        }
    }
    Ok(())
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

    const FLANNELS: PodRoutes = PodRoutes { networks: "", protocols: &["boot"], links: &[] };
    const CALICOS: PodRoutes = PodRoutes { networks: "", protocols: &["bird", "12"], links: &["tunl0"] };

    fn found(listed: &str, known: &'static PodRoutes, pods: &[&str]) -> Vec<String> {
        let pods = Pods(vec![(known, pods.iter().map(|net| net.parse().unwrap()).collect())]);
        let going = ["vxlan.calico".to_owned(), "cni0".to_owned()];
        routes_in(listed, "-4", &going, &pods).iter().map(Route::text).collect()
    }

    #[test]
    fn routes_that_outlive_a_network_are_found_and_those_of_others_stay() {
        assert_eq!(found(LISTED, &FLANNELS, &[]), ["route blackhole 10.233.75.0/26", "route 10.233.90.0/26"]);
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
        assert_eq!(found(listed, &FLANNELS, &["10.233.64.0/18"]), ["route 10.233.65.0/24"]);
        assert_eq!(found(listed, &FLANNELS, &[]), [""; 0]);
    }

    #[test]
    fn of_birds_routes_those_to_pods_are_found_and_another_birds_stay() {
        let listed = "default via 10.77.0.1 dev eth0 proto bird metric 32\n\
            10.99.0.0/16 via 10.77.0.9 dev eth0 proto bird\n\
            10.233.64.0/18 via 10.77.0.9 dev eth0 proto bird\n\
            blackhole 10.233.64.0/18 proto bird\n\
            blackhole 10.233.75.0/26 proto bird\n\
            blackhole 10.233.80.0/26 proto static\n\
            10.233.90.0/26 via 10.77.0.13 dev eth0 proto bird metric 1024\n\
            10.233.91.0/26 via 10.77.0.14 dev tunl0 proto bird onlink\n\
            10.233.92.0/26 via 10.77.0.15 dev eth0 proto 12\n\
            10.233.93.7 via 10.77.0.16 dev eth0 proto bird\n\
            10.233.95.0/26 proto bird metric 1024\n\
            \tnexthop via 10.77.0.18 dev eth0 weight 1\n\
            \tnexthop via 10.77.0.19 dev eth0 weight 1\n\
            10.233.96.0/26 dev eth1 proto bird scope link\n\
            10.233.94.0/26 via 10.77.0.17 dev eth0\n";
        let wanted = [
            "route blackhole 10.233.75.0/26",
            "route 10.233.90.0/26",
            "route 10.233.91.0/26",
            "route 10.233.92.0/26",
            "route 10.233.93.7",
            "route 10.233.95.0/26",
        ];
        assert_eq!(found(listed, &CALICOS, &["10.233.64.0/18"]), wanted);
        assert_eq!(found(listed, &CALICOS, &[]), [""; 0], "nothing is written down with VXLAN");
        let whole = ["route blackhole 10.233.75.0/26"];
        assert_eq!(found(listed, &CALICOS, &["10.233.75.0/26", "10.233.90.0/26"]), whole, "one node has all of it");
    }
}
