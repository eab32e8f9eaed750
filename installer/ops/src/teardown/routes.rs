//! Routes that a network has added to the main table.
//!
//! Those over links that go themselves are left to the kernel. A route without a link (`blackhole`) or over the host's own link outlives its
//! network: packets to its addresses would be dropped, or sent to hosts that no longer expect them.

use kubexm_plan::network;

use crate::system::Program;
use crate::{Machine, OpError};

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
}

impl Route {
    /// For people.
    pub(super) fn text(&self) -> String {
        format!("route {}", self.words.join(" "))
    }
}

/// The routes that exist. `going`: links that go themselves.
pub(super) fn all(machine: &Machine, going: &[String]) -> Result<Vec<Route>, OpError> {
    let mut found = Vec::new();
    for family in FAMILIES {
        // A kernel without the family has no routes of it.
        let listed = machine.try_run(&Program::new("ip").args([family, "route", "show", "table", "main"]))?;
        if listed.code == 0 {
            found.extend(routes_in(&listed.stdout(), family, going));
        }
    }
    Ok(found)
}

fn routes_in(listed: &str, family: &'static str, going: &[String]) -> Vec<Route> {
    let is_ours = |protocol: &&str| network::any().any(|network| network.route_protocols.contains(protocol));
    let read = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |name: &str| words.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
        let protocol = after("proto").filter(is_ours)?;
        if after("dev").is_some_and(|link| going.iter().any(|other| other == link)) {
            return None;
        }
        let target = usize::from(KINDS.contains(words.first()?));
        // Without a default route a host may be out of reach, and no network of pods needs one.
        words.get(target).filter(|destination| **destination != "default")?;
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
mod tests {
    use super::*;

    const LISTED: &str = "default via 10.77.0.1 dev eth0 proto 80\n\
        10.77.0.0/24 dev eth0 proto kernel scope link src 10.77.0.11\n\
        10.233.100.0/26 via 10.233.100.0 dev vxlan.calico proto 80 onlink\n\
        blackhole 10.233.75.0/26 proto 80\n\
        10.233.90.0/26 via 10.77.0.13 dev eth0 proto 80 onlink\n\
        10.233.91.0/26 via 10.77.0.14 dev eth0 proto bird\n\
        blackhole 192.0.2.0/24 proto static\n";

    #[test]
    fn routes_that_outlive_a_network_are_found_and_those_of_others_stay() {
        let going = ["vxlan.calico".to_owned()];
        let found: Vec<String> = routes_in(LISTED, "-4", &going).iter().map(Route::text).collect();
        assert_eq!(found, ["route blackhole 10.233.75.0/26", "route 10.233.90.0/26"]);
    }
}
