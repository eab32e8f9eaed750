//! `spec.hosts` and `spec.roleGroups`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;

use super::{each, login, maybe, or, values};
use crate::cluster::{Host, RoleGroups};
use crate::yaml::{At, Keys, Mapping, ProblemKind};

const HOST: Keys = Keys {
    known: &[
        "name",
        "address",
        "internalAddress",
        "port",
        "user",
        "privateKeyPath",
        "passwordFrom",
        "agent",
        "sudoPasswordFrom",
        "via",
        "labels",
        // refused by `login::secrets`, with a reason of their own
        "password",
        "sudoPassword",
        "privateKey",
    ],
    later: &["arch", "roles"],
};
const ROLES: Keys =
    Keys { known: &["etcd", "master", "control-plane", "worker", "registry"], later: &["loadbalancer"] };

/// A range of host names may stand for this many.
const MAX_RANGE: u32 = 1000;

pub(super) fn hosts(at: &At<'_>) -> Option<Vec<Host>> {
    let hosts = each(at, host);
    let mut names = BTreeMap::new();
    let mut addresses = BTreeMap::new();
    // read again for the places: a name twice is found even when another field of the host is wrong
    for item in at.list() {
        let Some(map) = item.open_mapping_quiet() else { continue };
        for (key, seen) in [("name", &mut names), ("address", &mut addresses)] {
            let Some(field) = map.get(key) else { continue };
            let Some(text) = field.text_quiet() else { continue };
            if let Some(line) = seen.insert(text.to_owned(), field.line()) {
                field.bad(format!("{text:?} is given twice, first in line {line}"), "each host has its own");
            }
        }
    }
    hosts
}

fn host(at: &At<'_>) -> Option<Host> {
    let map = at.mapping(&HOST)?;
    login::secrets(&map);
    let name = map.need("name").and_then(|at| at.parsed(values::subdomain));
    let address = map.need("address").and_then(|at| single(&at)?.parsed(values::host));
    let internal_address = maybe(map.get("internalAddress"), |at| ipv4(single(at)?));
    let port = or(map.get("port"), 22, super::kubernetes::port);
    let user = or(map.get("user"), "root".to_owned(), |at| at.parsed(values::user));
    let key = maybe(map.get("privateKeyPath"), |at| at.text().map(PathBuf::from));
    let password = maybe(map.get("passwordFrom"), login::secret_source);
    let agent = or(map.get("agent"), false, |at| at.boolean());
    let sudo_password = maybe(map.get("sudoPasswordFrom"), login::secret_source);
    let via = or(map.get("via"), Vec::new(), login::via);
    let labels = or(map.get("labels"), BTreeMap::new(), labels);
    Some(Host {
        name: name?,
        address: address?,
        internal_address: internal_address?,
        port: port?,
        user: user?,
        private_key_path: key?,
        password: password?,
        agent: agent?,
        sudo_password: sudo_password?,
        via: via?,
        labels: labels?,
        arch: None,
        more_addresses: Vec::new(),
        more_internal_addresses: Vec::new(),
    })
}

/// A value that the format lets be a list, as long as it is none.
pub(super) fn single<'a, 'b>(at: &'b At<'a>) -> Option<&'b At<'a>> {
    if at.is_list() {
        at.not_built("give one address");
        return None;
    }
    if at.text()?.contains(':') {
        at.not_built("IPv4 only today");
        return None;
    }
    Some(at)
}

pub(super) fn ipv4(at: &At<'_>) -> Option<IpAddr> {
    match at.text()?.parse::<IpAddr>() {
        Ok(address @ IpAddr::V4(_)) => Some(address),
        Ok(IpAddr::V6(_)) => {
            at.not_built("IPv4 only today");
            None
        }
        Err(_) => {
            at.bad(format!("{:?} is not an IPv4 address", at.text()?), "");
            None
        }
    }
}

fn labels(at: &At<'_>) -> Option<BTreeMap<String, String>> {
    let good = |text: &str| {
        text.len() <= 63 && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    let map = at.open_mapping()?;
    let mut labels = Some(BTreeMap::new());
    for (key, at) in map.entries() {
        let name = key.split_once('/').map_or(key, |(_, name)| name);
        let prefix = key.split_once('/').is_none_or(|(prefix, _)| values::subdomain(prefix).is_ok());
        match at.text() {
            Some(value) if good(name) && !name.is_empty() && prefix && good(value) => {
                if let Some(labels) = &mut labels {
                    labels.insert(key.to_owned(), value.to_owned());
                }
            }
            Some(value) => {
                at.bad(format!("{key}={value} is not a Kubernetes label"), "");
                labels = None;
            }
            None => labels = None,
        }
    }
    labels
}

/// Reads the groups. Host names are taken from the file itself, so that a host with another fault is still known here.
pub(super) fn role_groups(spec: &Mapping<'_>) -> Option<RoleGroups> {
    let named = |item: &At<'_>| {
        let name = item.open_mapping_quiet()?.get("name")?;
        name.text_quiet().map(str::to_owned)
    };
    let hosts: Vec<String> = match spec.get("hosts").filter(At::is_list) {
        Some(at) => at.list().iter().filter_map(named).collect(),
        None => Vec::new(),
    };
    let hosts = hosts.as_slice();
    let Some(at) = spec.get("roleGroups") else {
        if !hosts.is_empty() {
            spec.at().fail(
                ProblemKind::Missing,
                "there are hosts, and \"spec.roleGroups\" is missing: nobody has a role",
                "at least: roleGroups: {master: [NAME], worker: [NAME]}",
            );
            return None;
        }
        return Some(RoleGroups::default());
    };
    let map = at.mapping(&ROLES)?;
    let group = |key: &str| or(map.get(key), Vec::new(), |at| members(at, hosts));
    let (master, alias) = (group("master"), group("control-plane"));
    if let Some(at) = map.get("control-plane").filter(|_| map.has("master")) {
        at.bad("master and control-plane are two names of one role", "give one of them");
        return None;
    }
    let (etcd, worker, registry) = (group("etcd"), group("worker"), group("registry"));
    let control_plane = if map.has("master") { master? } else { alias? };
    let mut roles =
        RoleGroups { etcd: etcd?, control_plane, worker: worker?, registry: registry?, load_balancer: Vec::new() };
    if hosts.is_empty() {
        return Some(roles);
    }
    if roles.control_plane.is_empty() {
        at.fail(ProblemKind::Missing, "no host has the role master", "name at least one control plane");
        return None;
    }
    if roles.etcd.is_empty() {
        roles.etcd.clone_from(&roles.control_plane);
    }
    if roles.registry.is_empty() {
        roles.registry = roles.control_plane.iter().take(1).cloned().collect();
    }
    idle(&at, &roles, hosts);
    let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
    if set(&roles.etcd) != set(&roles.control_plane)
        && let Some(at) = map.get("etcd")
    {
        at.bad("with etcd type kubeadm the members are the control planes", "leave etcd out, or name the same hosts");
    }
    if let Some(at) = map.get("registry").filter(|_| roles.registry.len() > 1) {
        at.not_built("name one registry host");
    }
    Some(roles)
}

fn idle(at: &At<'_>, roles: &RoleGroups, hosts: &[String]) {
    for host in hosts {
        let all = [&roles.etcd, &roles.control_plane, &roles.worker, &roles.registry];
        if !all.iter().any(|group| group.contains(host)) {
            at.bad(format!("host {host:?} has no role"), "name it in a group, or take it out of spec.hosts");
        }
    }
}

/// Names of a group, ranges written out, each host once.
fn members(at: &At<'_>, hosts: &[String]) -> Option<Vec<String>> {
    let groups = each(at, |item| {
        let names = item.parsed(expand)?;
        let mut known = true;
        for name in names.iter().filter(|name| !hosts.contains(name)) {
            let near = crate::yaml::nearest(name, hosts.iter().map(String::as_str));
            let hint = near.first().map(|near| format!("nearest: {near}")).unwrap_or_default();
            item.bad(format!("there is no host {name:?}"), hint);
            known = false;
        }
        known.then_some(names)
    })?;
    let mut all: Vec<String> = Vec::new();
    for name in groups.into_iter().flatten() {
        if all.contains(&name) {
            at.bad(format!("host {name:?} is named twice"), "");
        } else {
            all.push(name);
        }
    }
    Some(all)
}

/// `node[1:3]` → `node1`, `node2`, `node3`; zeros in front of the first number are kept as width (`[01:10]`).
fn expand(text: &str) -> Result<Vec<String>, String> {
    let bad = || format!("{text:?} is not a name or a range like node[1:3]");
    let Some((before, rest)) = text.split_once('[') else { return Ok(vec![text.to_owned()]) };
    let (range, after) = rest.split_once(']').ok_or_else(bad)?;
    let (from, to) = range.split_once(':').ok_or_else(bad)?;
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    let (first, last) = number(from).zip(number(to)).ok_or_else(bad)?;
    if first > last || last - first >= MAX_RANGE || from.len() > 9 || after.contains(['[', ']']) {
        return Err(format!("{text:?}: a range goes upwards and stands for at most {MAX_RANGE} hosts"));
    }
    let width = if from.starts_with('0') { from.len() } else { 0 };
    Ok((first..=last).map(|number| format!("{before}{number:0width$}{after}")).collect())
}
