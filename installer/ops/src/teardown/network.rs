//! What a cluster leaves in the network of a host: links, namespaces of pods, rules of routing, packet filter rules, sets.
//!
//! Links, chains, tables and sets are identified by the names that their creators use ([`kubexm_plan::network`]), as in
//! upstream's own cleanup. A `veth` belongs to a pod if it is attached to a network's bridge; Docker's are kept.

use std::fs;

use kubexm_plan::network::{self, IPVS, NetworkTraits};
use kubexm_plan::runtime::{self, RuntimeTraits};

use super::{aside, datapath, has_program, mounts, pins, routes, routing, rules, unmount};
use crate::system::Program;
use crate::{Machine, OpError, fsio};

/// Packet filters: each may exist in two variants, and kube-proxy uses the one that is in use.
const FILTERS: [&str; 6] =
    ["iptables", "ip6tables", "iptables-legacy", "ip6tables-legacy", "iptables-nft", "ip6tables-nft"];
/// Tables that iptables-nft creates, with their built-in chains, for the first rule that is added.
const MADE_FOR_RULES: [(&str, [&str; 5]); 2] =
    [("ip", ["raw", "mangle", "nat", "filter", "security"]), ("ip6", ["raw", "mangle", "nat", "filter", "security"])];
const NAMESPACES: &str = "/run/netns";

/// Traces of a cluster in the network, as text for people; empty if there are none.
pub fn leftovers(machine: &Machine) -> Result<Vec<String>, OpError> {
    let links = links(machine)?;
    let filters_of_links = routing::filters(machine, &links)?;
    let routes = routes::all(machine, &links)?;
    let borrowed = routes::borrowed(machine)?;
    let mut found: Vec<String> = datapath::all(machine).iter().map(|name| format!("datapath {name}")).collect();
    found.extend(links.into_iter().map(|link| format!("link {link}")));
    found.extend(namespaces(machine)?.into_iter().map(|path| format!("namespace {path}")));
    found.extend(own_mounts(machine)?.into_iter().map(|point| format!("mount {point}")));
    found.extend(pins::all(machine)?.into_iter().map(|pin| format!("pinned {pin}")));
    found.extend(filters_of_links.into_iter().map(|filter| format!("program {} at a link", filter.program)));
    found.extend(routing::rules(machine)?.iter().map(routing::Rule::text));
    found.extend(routes.iter().map(routes::Route::text));
    found.extend(borrowed.iter().map(routes::Borrowed::text));
    for filter in filters(machine) {
        if clearing(machine, filter)?.is_some() {
            found.push(format!("rules of {filter}"));
        }
    }
    found.extend(tables(machine)?.into_iter().map(|(family, table)| format!("table {family} {table}")));
    found.extend(empty_tables(machine)?.into_iter().map(|(family, table)| format!("empty table {family} {table}")));
    found.extend(sets(machine)?.into_iter().map(|set| format!("set {set}")));
    Ok(found)
}

/// Removes the traces. Pods must have been stopped: a namespace exists as long as a process is in it.
pub fn clear(machine: &Machine) -> Result<(), OpError> {
    // With its ports their routes go. Links of pods are ports of it no more then.
    datapath::remove(machine)?;
    for point in own_mounts(machine)? {
        unmount::unmount_point(machine, &point)?;
    }
    // Before the pins: a program that is still attached drops packets without its maps.
    let links = links(machine)?;
    routing::remove_filters(machine, &links)?;
    pins::remove(machine)?;
    routing::remove_rules(machine)?;
    routes::remove(machine, &links)?;
    routes::give_back(machine)?;
    for path in namespaces(machine)? {
        unmount::unmount_point(machine, &path)?;
        fsio::remove(&machine.path(&path))?;
    }
    for filter in filters(machine) {
        if let Some(input) = clearing(machine, filter)? {
            machine.run(&Program::new(&format!("{filter}-restore")).args(["--noflush", "--wait"]).stdin(input))?;
        }
    }
    for (family, table) in tables(machine)?.into_iter().chain(empty_tables(machine)?) {
        machine.run(&Program::new("nft").args(["delete", "table", family, table]))?;
    }
    if links.iter().any(|link| link == IPVS) && has_program(machine, "ipvsadm") {
        machine.run(&Program::new("ipvsadm").arg("--clear"))?;
    }
    for link in links {
        let deleted = machine.try_run(&Program::new("ip").args(["link", "delete", &link]))?;
        // Its other end may just have disappeared with a namespace.
        if deleted.code != 0 && machine.path(format!("/sys/class/net/{link}")).exists() {
            return Err(OpError::other(format!("the link {link} cannot be deleted: {}", deleted.tail())));
        }
    }
    // After the rules that use them.
    sets(machine)?.into_iter().try_for_each(|set| machine.run(&Program::new("ipset").args(["destroy", &set])).map(drop))
}

fn links(machine: &Machine) -> Result<Vec<String>, OpError> {
    let all = mounts::entries(&machine.path("/sys/class/net"))?;
    let is_bridge = |name: &str| network::any().any(|network| network.bridges.contains(&name));
    let named = |name: &str| network::any().any(|network| network.links.contains(&name));
    let own = aside::own_networks(machine);
    let of_a_pod = |path: &std::path::Path| {
        let master = fs::read_link(path.join("master")).ok();
        master.as_deref().and_then(|master| master.file_name()?.to_str().map(is_bridge)).unwrap_or(false)
    };
    let found = all
        .iter()
        .filter_map(|path| Some((path, path.file_name()?.to_str()?)))
        .filter(|(path, name)| {
            named(name)
                || is_pod_link(&own, name)
                || is_named_after_another(&own, name)
                || (name.starts_with("veth") && of_a_pod(path))
        })
        .map(|(_, name)| name.to_owned());
    let mut found: Vec<String> = found.collect();
    found.extend(datapath::links(machine)?);
    Ok(found)
}

/// A link that is called after the host's below it: `eth0.vxlan4`.
fn is_named_after_another(own: &[&NetworkTraits], name: &str) -> bool {
    let mut ends = own.iter().flat_map(|network| network.link_ends);
    ends.any(|end| name.strip_suffix(end).is_some_and(|below| !below.is_empty()))
}

/// A link of a pod that is attached to no bridge: `lxc4f2a91b03c7d`.
fn is_pod_link(own: &[&NetworkTraits], name: &str) -> bool {
    let is_hex = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    own.iter().any(|network| {
        let mut rests = network.pod_links.iter().filter_map(|prefix| name.strip_prefix(prefix));
        rests.any(|rest| is_hex(rest) && network.pod_digits.is_none_or(|digits| rest.len() == digits))
    })
}

/// What pods of a network have mounted in its folders.
fn own_mounts(machine: &Machine) -> Result<Vec<String>, OpError> {
    let all = mounts::all(machine)?;
    let is_own = |point: &&str| all.iter().any(|mount| mount.point == mounts::real(machine, point));
    let points = network::any().flat_map(|network| network.mounts).copied();
    Ok(points.filter(|point| is_own(point)).map(str::to_owned).collect())
}

fn namespaces(machine: &Machine) -> Result<Vec<String>, OpError> {
    let all = mounts::entries(&machine.path(NAMESPACES))?;
    let names = all.iter().filter_map(|path| path.file_name()?.to_str());
    // Another runtime of the host's own has those of its own pods; of ours its programs are there.
    let is_ours = |runtime: &&&RuntimeTraits| runtime.programs.is_none_or(|folder| machine.path(folder).exists());
    let starts: Vec<&str> =
        runtime::INSTALLED.iter().filter(is_ours).flat_map(|runtime| runtime.namespaces).copied().collect();
    let of_a_pod = |name: &&str| starts.iter().any(|start| name.starts_with(start));
    Ok(names.filter(of_a_pod).map(|name| format!("{NAMESPACES}/{name}")).collect())
}

fn filters(machine: &Machine) -> impl Iterator<Item = &'static str> + '_ {
    let usable = |filter: &&str| ["save", "restore"].iter().all(|end| has_program(machine, &format!("{filter}-{end}")));
    FILTERS.into_iter().filter(usable)
}

fn clearing(machine: &Machine, filter: &str) -> Result<Option<String>, OpError> {
    // A kernel without this variant has none of its rules.
    let saved = machine.try_run(&Program::new(&format!("{filter}-save")))?;
    Ok(if saved.code == 0 { rules::clearing(&saved.stdout(), &datapath::rules(machine)) } else { None })
}

fn tables(machine: &Machine) -> Result<Vec<(&'static str, &'static str)>, OpError> {
    if !has_program(machine, "nft") {
        return Ok(Vec::new());
    }
    let listed = machine.try_run(&Program::new("nft").args(["list", "tables"]))?.stdout();
    let there =
        |(family, table): &(&str, &str)| listed.lines().any(|line| line.trim() == format!("table {family} {table}"));
    Ok(network::any().flat_map(|network| network.tables).copied().filter(there).collect())
}

/// Tables without rules, whose chains accept everything: they do not affect packets.
fn empty_tables(machine: &Machine) -> Result<Vec<(&'static str, &'static str)>, OpError> {
    if !has_program(machine, "nft") {
        return Ok(Vec::new());
    }
    let ruleset = machine.try_run(&Program::new("nft").args(["list", "ruleset"]))?.stdout();
    let all = MADE_FOR_RULES.into_iter().flat_map(|(family, names)| names.map(|name| (family, name)));
    Ok(all.filter(|(family, table)| rules::is_empty_table(&ruleset, family, table)).collect())
}

fn sets(machine: &Machine) -> Result<Vec<String>, OpError> {
    if !has_program(machine, "ipset") {
        return Ok(Vec::new());
    }
    let listed = machine.try_run(&Program::new("ipset").args(["list", "-name"]))?.stdout();
    Ok(listed.lines().map(str::trim).filter(|set| rules::is_ours(set)).map(str::to_owned).collect())
}
