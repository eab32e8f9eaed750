//! Invariants of the fleet: those that must hold at any time, and those that must hold when no step runs.

use std::collections::BTreeMap;

use kubexm_plan::balancer::{KEEPALIVED_UNIT, PROXIES};
use kubexm_plan::{Invariant, etcd};

use super::names::{ADMIN_CONF, PODS, left};
use super::world::World;

const LOOPBACK: &str = "127.0.0.1";
const API_PORT: &str = ":6443";

impl World {
    /// Records the invariants that are violated now.
    pub(super) fn look(&mut self) {
        let now = self.broken_now();
        self.broken.extend(now);
    }

    pub(super) fn broken_at_rest(&self) -> Vec<(Invariant, String)> {
        let mut broken = self.broken_now();
        for (name, host) in &self.hosts {
            for (unit, _) in host.units().filter(|(_, running)| *running) {
                for (path, loaded) in host.loaded(unit) {
                    if host.state.get(&host.key_of(path)).map(String::as_str) != Some(loaded) {
                        let text = format!("{unit} on {name} runs with an older {path} than the one on disk");
                        broken.push((Invariant::LoadedConfig, text));
                    }
                }
            }
            for (pod, path, read) in host.read_by_pods().filter(|_| self.runs_pods(name)) {
                if host.state.get(&format!("path:{path}")).map(String::as_str) != Some(read) {
                    let text = format!("{pod} on {name} has read an older {path} than the one on disk");
                    broken.push((Invariant::LoadedConfig, text));
                }
            }
        }
        broken
    }

    fn broken_now(&self) -> Vec<(Invariant, String)> {
        let members: Vec<&str> = self.members().collect();
        let up: Vec<&str> = members.iter().copied().filter(|member| self.runs_pods(member)).collect();
        let mut broken = Vec::new();
        // With an etcd of the user's they have no member, and one API server at most may be away.
        let theirs = format!("path:{}", etcd::KEYSPACE);
        let is_theirs = members.iter().any(|member| self.has(member, &theirs));
        let too_few =
            if is_theirs { up.len() + 1 < members.len() } else { !members.is_empty() && up.len() * 2 <= members.len() };
        if too_few {
            broken.push((Invariant::Quorum, format!("of etcd's members {members:?} only {up:?} run")));
        }
        let (all, running) = self.own_members();
        if self.cluster.contains_key("initialised") && all > 0 && running * 2 <= all {
            broken.push((Invariant::Quorum, format!("of {all} members of kubexm's etcd only {running} run")));
        }
        for name in self.hosts.keys().filter(|name| self.runs_pods(name)) {
            broken.extend(self.lost_control_plane(name, &up).map(|text| (Invariant::ControlPlaneName, text)));
        }
        for (name, host) in &self.hosts {
            for (unit, _) in host.units().filter(|(_, running)| *running) {
                let missing = self.unit_reads(name, unit).into_iter().find(|path| !host.has_path(path));
                if let Some(path) = missing {
                    broken.push((Invariant::UnitFiles, format!("{unit} on {name} runs without {path}")));
                }
            }
        }
        broken
    }

    /// Hosts with a member of etcd.
    pub(super) fn members(&self) -> impl Iterator<Item = &str> {
        self.cluster.keys().filter_map(|key| key.strip_prefix("member:"))
    }

    /// How many members an etcd of kubexm's has, and how many of them run.
    pub(super) fn own_members(&self) -> (usize, usize) {
        self.own_voters().fold((0, 0), |(all, up), (_, runs)| (all + 1, up + usize::from(runs)))
    }

    /// The hosts of its members, and whether each runs.
    pub(super) fn own_voters(&self) -> impl Iterator<Item = (&str, bool)> {
        self.hosts.iter().filter_map(|(name, host)| {
            let (_, runs) = host.units().find(|(unit, _)| *unit == etcd::UNIT)?;
            (!self.cluster.contains_key(&left(name))).then_some((name.as_str(), runs))
        })
    }

    pub(super) fn runs_pods(&self, host: &str) -> bool {
        self.hosts.get(host).is_some_and(|host| host.state.contains_key(PODS))
    }

    /// Checks the addresses of the control plane's name in the node's /etc/hosts: the name that is neither a host's nor the
    /// registry's. A proxy on the node itself, once it runs, must lead to an API server by itself: clients reach it, and try
    /// no other address.
    fn lost_control_plane(&self, node: &str, up: &[&str]) -> Option<String> {
        let lines = self.hosts.get(node)?.state.get("hosts")?;
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        let mut targets: Vec<&str> = Vec::new();
        for (address, name) in lines.split("; ").filter_map(|line| line.split_once(' ')) {
            if self.hosts.contains_key(name) {
                owners.insert(address, name);
            } else if !name.starts_with("registry.") {
                targets.push(address);
            }
        }
        let leads = |address: &&str| match owners.get(*address) {
            Some(owner) => up.contains(owner) && self.hosts[*owner].state.contains_key(ADMIN_CONF),
            None => true,
        };
        if let Some(balanced) = self.balanced() {
            // The address of a load balancer of kubexm's leads to the back-ends of its proxies.
            let moves = |address: &str| !owners.contains_key(address) && address != LOOPBACK;
            if targets.iter().any(|address| moves(address)) {
                targets.retain(|address| !moves(address));
                targets.extend(balanced);
                let lost = !targets.iter().any(|address| owners.contains_key(address) && leads(address));
                return lost.then(|| {
                    format!("on {node} the control plane's name leads to {targets:?}, and no API server runs there")
                });
            }
        }
        let proxied = self.proxied(node);
        if targets.contains(&LOOPBACK) && !proxied.is_empty() {
            targets = proxied;
        } else {
            targets.retain(|address| *address != LOOPBACK);
        }
        let lost = !targets.is_empty() && !targets.iter().any(leads);
        lost.then(|| format!("on {node} the control plane's name leads to {targets:?}, and no API server runs there"))
    }

    /// The back-ends of every proxy that runs on a host of the load balancer; none where there is no such load balancer.
    fn balanced(&self) -> Option<Vec<&str>> {
        let has = |unit: &str| self.hosts.values().any(|host| host.units().any(|(name, _)| name == unit));
        let proxy = PROXIES.into_iter().find(|proxy| has(proxy.unit))?;
        let running = self.hosts.values().filter(|host| host.runs(proxy.unit) && host.runs(KEEPALIVED_UNIT));
        let read = running.flat_map(|host| host.loaded(proxy.unit)).filter(|(path, _)| *path == proxy.config);
        let texts = read.filter_map(|(_, value)| self.texts.get(value.rsplit(' ').next()?));
        Some(back_ends(texts.map(String::as_str)))
    }

    /// The back-ends in the configuration that a node's own proxy has read; none without a proxy.
    fn proxied(&self, node: &str) -> Vec<&str> {
        let Some(host) = self.hosts.get(node) else { return Vec::new() };
        let read = host.read_by_pods().filter(|(pod, ..)| pod.starts_with("kubexm-"));
        let texts = read.filter_map(|(_, _, value)| self.texts.get(value.rsplit(' ').next()?));
        back_ends(texts.map(String::as_str))
    }
}

/// The API servers that configurations of proxies name: as servers, or as what is asked for its readiness.
fn back_ends<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let server = |line: &'a str| line.strip_prefix("server ").or_else(|| line.strip_prefix("/readyz/"));
    let servers = texts.flat_map(str::lines).filter_map(|line| server(line.trim()));
    let words = servers.flat_map(str::split_whitespace);
    let addresses = words.filter_map(|word| word.trim_end_matches(';').strip_suffix(API_PORT));
    addresses.filter(|address| *address != LOOPBACK).collect()
}
