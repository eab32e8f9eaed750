//! `spec.roleGroups` and `spec.hosts[].roles`: who does what.

use std::cell::Cell;
use std::collections::HashSet;

use serde_json::Value;

use super::range::Range;
use super::take::each;
use crate::cluster::field::FieldType;
use crate::cluster::host::{ROLE_WORDS, Role, RoleGroups};
use crate::keywords::Keyword;
use crate::yaml::{At, Field, Mapping, Object, ProblemKind, Shape};

/// Names that are looked at again to find the first that is no host: all that one file may have.
const LOOKS: usize = 400_000;

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

/// The longest name of a host, in bytes (RFC 1035, 2.3.4).
const LONGEST_NAME: usize = 253;

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
    let hosts = Hosts::new(&names);
    let group = |key: &str| {
        let Some(at) = map.get(key) else { return Some(Vec::new()) };
        let known = hosts.refuse_unknown(&at);
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

/// Host names and roles are taken from the file itself, so that a host with another fault is still known here. A name that is too long
/// is refused at its own field, and not looked at once for each role here.
fn known<'a>(spec: &Mapping<'a>) -> Vec<Known<'a>> {
    let hosts = spec.get("hosts").filter(At::is_list).map(|at| at.list()).unwrap_or_default();
    let known = hosts.iter().filter_map(|item| {
        let map = item.open_mapping_quiet()?;
        let name = map.get("name")?.text_quiet().filter(|name| name.len() <= LONGEST_NAME)?.to_owned();
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
            let near =
                || crate::yaml::nearest(word, ROLE_WORDS.iter().copied()).into_iter().take(2).collect::<Vec<_>>();
            let hint = if at.is_full() { String::new() } else { format!("nearest known: {}", near().join(", ")) };
            at.bad(format!("{word:?} is not known here"), hint);
        }
        found
    }

    fn show(value: &Role) -> Option<Value> {
        Some(value.word().into())
    }
}

/// Names of hosts, ranges written out. That there are such hosts is a rule across sections ([`Hosts::refuse_unknown`]).
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
    let names: Vec<String> = known(spec).into_iter().map(|host| host.name).collect();
    let hosts = Hosts::new(&names);
    let system = spec.get("system").and_then(|at| at.open_mapping_quiet());
    let lists = system.iter().flat_map(|map| ["preInstall", "postInstall"].map(|key| map.get(key))).flatten();
    for script in lists.filter(At::is_list).flat_map(|at| at.list()) {
        let named = script.open_mapping_quiet().and_then(|map| map.get("hosts"));
        if let Some(named) = named {
            hosts.refuse_unknown(&named);
        }
    }
}

/// Adds what hosts say of themselves.
fn add(roles: &mut RoleGroups, known: &[Known<'_>]) -> bool {
    let mut good = true;
    let mut in_it: [HashSet<String>; 5] =
        [&roles.etcd, &roles.control_plane, &roles.worker, &roles.load_balancer, &roles.registry]
            .map(|group| group.iter().cloned().collect());
    for (host, at) in known.iter().flat_map(|host| host.roles.iter().map(move |at| (&host.name, at))) {
        let [etcd, control_plane, worker, load_balancer, registry] = &mut in_it;
        let (group, there) = match RoleWord::read(at) {
            Some(Role::Etcd) => (&mut roles.etcd, etcd),
            Some(Role::ControlPlane) => (&mut roles.control_plane, control_plane),
            Some(Role::Worker) => (&mut roles.worker, worker),
            Some(Role::LoadBalancer) => (&mut roles.load_balancer, load_balancer),
            Some(Role::Registry) => (&mut roles.registry, registry),
            None => {
                good = false;
                continue;
            }
        };
        if there.insert(host.clone()) {
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
    let all = [&roles.etcd, &roles.control_plane, &roles.worker, &roles.load_balancer, &roles.registry];
    let all: HashSet<&String> = all.into_iter().flatten().collect();
    for host in hosts {
        if !all.contains(host) {
            at.bad(format!("host {host:?} has no role"), "name it in a group, or take it out of spec.hosts");
        }
    }
    true
}

/// The hints of one file: comparing with every host takes time, and who reads the first ones knows what is wrong.
const HINTS: usize = 20;

/// Hosts of the file, as names in its other parts are compared with them.
struct Hosts<'n> {
    names: &'n [String],
    set: HashSet<&'n str>,
    hints: Cell<usize>,
    /// Names that may still be looked at: a list that has more is refused where it is read ([`members`]).
    left: Cell<usize>,
}

impl<'n> Hosts<'n> {
    fn new(names: &'n [String]) -> Self {
        let set = names.iter().map(String::as_str).collect();
        Self { names, set, hints: Cell::new(HINTS), left: Cell::new(LOOKS) }
    }

    /// Whether every name of a list is one of these hosts. Of a range the first that is none is named.
    fn refuse_unknown(&self, at: &At<'_>) -> bool {
        let mut good = true;
        for item in if at.is_list() { at.list() } else { Vec::new() } {
            let Some(range) = item.text_quiet().and_then(|text| Range::read(text).ok()) else { continue };
            let Some(left) = self.left.get().checked_sub(range.count()) else { continue };
            self.left.set(left);
            if let Some(name) = range.names().find(|name| !self.set.contains(name.as_str())) {
                item.bad(format!("there is no host {name:?}"), self.hint(&name));
                good = false;
            }
        }
        good
    }

    fn hint(&self, name: &str) -> String {
        let Some(left) = self.hints.get().checked_sub(1) else { return String::new() };
        self.hints.set(left);
        let near = crate::yaml::nearest(name, self.names.iter().map(String::as_str));
        near.first().map(|near| format!("nearest: {near}")).unwrap_or_default()
    }
}

/// Names of a group, ranges written out, each host once.
fn members(at: &At<'_>) -> Option<Vec<String>> {
    let groups = each(at, |item| {
        item.parsed(|text| {
            let range = Range::read(text)?;
            at.stand_for(range.count())?;
            Ok(range.names().collect::<Vec<String>>())
        })
    })?;
    let (mut all, mut seen) = (Vec::new(), HashSet::new());
    for name in groups.into_iter().flatten() {
        if seen.contains(&name) {
            at.bad(format!("host {name:?} is named twice"), "");
        } else {
            seen.insert(name.clone());
            all.push(name);
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::{self, Sink};

    #[test]
    fn a_name_that_no_host_has_is_not_looked_at_once_for_each_of_its_roles() {
        let host = |name: &str| format!("- {{name: {name}, roles: [worker, worker]}}\n");
        let text = format!("hosts:\n{}{}", host(&"a".repeat(254)), host(&"b".repeat(253)));
        let (tree, sink) = (yaml::parse(&text).unwrap(), Sink::default());
        let spec = At::root(&tree, &sink).open_mapping_quiet().unwrap();
        let known: Vec<usize> = known(&spec).iter().map(|host| host.name.len()).collect();
        assert_eq!(known, [253]);
    }
}
