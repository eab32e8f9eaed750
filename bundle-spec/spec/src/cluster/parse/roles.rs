//! `spec.roleGroups` and `spec.hosts[].roles`: who does what.

use serde_json::Value;

use super::take::each;
use crate::cluster::field::FieldType;
use crate::cluster::host::{ROLE_WORDS, Role, RoleGroups};
use crate::keywords::Keyword;
use crate::yaml::{At, Field, Mapping, Object, ProblemKind, Shape};

const NAMES: Shape = Shape::List(&Shape::Text);

/// `spec.roleGroups`.
pub(super) const ROLES: Object = Object::new(
    "Names of hosts by role; node[1:3] is short for node1, node2, node3",
    &[
        Field::new("etcd", NAMES, "Members of etcd; the control planes when left out"),
        Field::new("master", NAMES, "Control planes"),
        Field::new("control-plane", NAMES, "The same as master"),
        Field::new("worker", NAMES, "Hosts of pods; a control plane that is a worker too takes pods"),
        Field::new(
            "loadbalancer",
            NAMES,
            "Hosts of keepalived with haproxy or nginx (loadBalancer.external.type kubexm-…)",
        ),
        Field::new(
            "registry",
            NAMES,
            "The hosts that serve images, each all of them; the first control plane when left out",
        ),
    ],
);

/// A range of host names may stand for this many.
const MAX_RANGE: u32 = 1000;

/// A host of the file, whatever else is wrong with it.
struct Known<'a> {
    name: String,
    roles: Vec<At<'a>>,
}

/// Reads the groups, and fills those that are left out.
pub(super) fn role_groups(spec: &Mapping<'_>) -> Option<RoleGroups> {
    let known = known(spec);
    let names: Vec<String> = known.iter().map(|host| host.name.clone()).collect();
    let own = known.iter().any(|host| !host.roles.is_empty());
    let Some(at) = spec.get("roleGroups") else {
        if !own && !names.is_empty() {
            spec.at().fail(
                ProblemKind::Missing,
                "there are hosts, and \"spec.roleGroups\" is missing: no host has a role",
                "at least: roleGroups: {master: [NAME], worker: [NAME]}",
            );
            return None;
        }
        let mut roles = RoleGroups::default();
        return (add(&mut roles, &known) & filled(spec.at(), &mut roles, &names)).then_some(roles);
    };
    let map = at.mapping(&ROLES)?;
    let group = |key: &str| {
        let Some(at) = map.get(key) else { return Some(Vec::new()) };
        let known = refuse_unknown(&at, &names);
        members(&at).filter(|_| known)
    };
    let (master, alias) = (group("master"), group("control-plane"));
    if let Some(at) = map.get("control-plane").filter(|_| map.has("master")) {
        at.bad("master and control-plane are two names of one role", "give one of them");
        return None;
    }
    let (etcd, worker) = (group("etcd"), group("worker"));
    let (load_balancer, registry) = (group("loadbalancer"), group("registry"));
    let control_plane = if map.has("master") { master? } else { alias? };
    let mut roles =
        RoleGroups { etcd: etcd?, control_plane, worker: worker?, load_balancer: load_balancer?, registry: registry? };
    let added = add(&mut roles, &known);
    if names.is_empty() {
        return Some(roles);
    }
    (added & filled(&at, &mut roles, &names)).then_some(roles)
}

/// Host names and roles are taken from the file itself, so that a host with another fault is still known here.
fn known<'a>(spec: &Mapping<'a>) -> Vec<Known<'a>> {
    let hosts = spec.get("hosts").filter(At::is_list).map(|at| at.list()).unwrap_or_default();
    let known = hosts.iter().filter_map(|item| {
        let map = item.open_mapping_quiet()?;
        let name = map.get("name")?.text_quiet()?.to_owned();
        Some(Known { name, roles: map.get("roles").map(|at| at.list()).unwrap_or_default() })
    });
    known.collect()
}

/// A role by its word.
pub(in crate::cluster) struct RoleWord;

impl FieldType for RoleWord {
    type Value = Role;

    const SHAPE: Shape = Shape::Words(ROLE_WORDS);

    fn read(at: &At<'_>) -> Option<Role> {
        let word = at.text()?;
        let found = if word == "control-plane" { Some(Role::ControlPlane) } else { Role::of_word(word) };
        if found.is_none() {
            let near = crate::yaml::nearest(word, ROLE_WORDS.iter().copied());
            at.bad(format!("{word:?} is not known here"), format!("nearest known: {}", near[..2].join(", ")));
        }
        found
    }

    fn show(value: &Role) -> Option<Value> {
        Some(value.word().into())
    }
}

/// Names of hosts, ranges written out. That there are such hosts is a rule across sections ([`refuse_unknown`]).
pub(in crate::cluster) struct HostNames;

impl FieldType for HostNames {
    type Value = Vec<String>;

    const SHAPE: Shape = NAMES;

    fn read(at: &At<'_>) -> Option<Vec<String>> {
        members(at)
    }

    fn show(value: &Vec<String>) -> Option<Value> {
        Vec::<String>::show(value)
    }
}

/// Hosts that scripts of `spec.system` name, and that are none.
pub(super) fn script_hosts(spec: &Mapping<'_>) {
    let hosts: Vec<String> = known(spec).into_iter().map(|host| host.name).collect();
    let system = spec.get("system").and_then(|at| at.open_mapping_quiet());
    let lists = system.iter().flat_map(|map| ["preInstall", "postInstall"].map(|key| map.get(key))).flatten();
    for script in lists.filter(At::is_list).flat_map(|at| at.list()) {
        let named = script.open_mapping_quiet().and_then(|map| map.get("hosts"));
        if let Some(named) = named {
            refuse_unknown(&named, &hosts);
        }
    }
}

/// Adds what hosts say of themselves.
fn add(roles: &mut RoleGroups, known: &[Known<'_>]) -> bool {
    let mut good = true;
    for (host, at) in known.iter().flat_map(|host| host.roles.iter().map(move |at| (&host.name, at))) {
        let group = match RoleWord::read(at) {
            Some(Role::Etcd) => &mut roles.etcd,
            Some(Role::ControlPlane) => &mut roles.control_plane,
            Some(Role::Worker) => &mut roles.worker,
            Some(Role::LoadBalancer) => &mut roles.load_balancer,
            Some(Role::Registry) => &mut roles.registry,
            None => {
                good = false;
                continue;
            }
        };
        if !group.contains(host) {
            group.push(host.clone());
        }
    }
    good
}

/// Fills groups that are left out. (etcd's is reported by [`super::rules`], which knows who runs etcd.)
fn filled(at: &At<'_>, roles: &mut RoleGroups, hosts: &[String]) -> bool {
    if hosts.is_empty() {
        return true;
    }
    if roles.control_plane.is_empty() {
        at.fail(ProblemKind::Missing, "no host has the role master", "name at least one control plane");
        return false;
    }
    if roles.registry.is_empty() {
        roles.registry = roles.control_plane.iter().take(1).cloned().collect();
    }
    for host in hosts {
        let all = [&roles.etcd, &roles.control_plane, &roles.worker, &roles.load_balancer, &roles.registry];
        if !all.iter().any(|group| group.contains(host)) {
            at.bad(format!("host {host:?} has no role"), "name it in a group, or take it out of spec.hosts");
        }
    }
    true
}

/// Whether every name of a list is one of these hosts.
fn refuse_unknown(at: &At<'_>, hosts: &[String]) -> bool {
    let mut good = true;
    for item in if at.is_list() { at.list() } else { Vec::new() } {
        let names = item.text_quiet().and_then(|text| expand(text).ok()).unwrap_or_default();
        for name in names.iter().filter(|name| !hosts.contains(name)) {
            let near = crate::yaml::nearest(name, hosts.iter().map(String::as_str));
            let hint = near.first().map(|near| format!("nearest: {near}")).unwrap_or_default();
            item.bad(format!("there is no host {name:?}"), hint);
            good = false;
        }
    }
    good
}

/// Names of a group, ranges written out, each host once.
fn members(at: &At<'_>) -> Option<Vec<String>> {
    let groups = each(at, |item| item.parsed(expand))?;
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
    if from.len() > 9 || after.contains(['[', ']']) {
        return Err(bad());
    }
    if first > last {
        return Err(format!("{text:?} goes downwards; write {before}[{to}:{from}]{after}"));
    }
    if last - first >= MAX_RANGE {
        let (count, end, next) = (u64::from(last - first) + 1, first + MAX_RANGE - 1, first + MAX_RANGE);
        return Err(format!(
            "{text:?} is {count} hosts, and one range may have {MAX_RANGE}; split it: {before}[{first}:{end}]{after}, \
             {before}[{next}:{last}]{after}"
        ));
    }
    let width = if from.starts_with('0') { from.len() } else { 0 };
    Ok((first..=last).map(|number| format!("{before}{number:0width$}{after}")).collect())
}
