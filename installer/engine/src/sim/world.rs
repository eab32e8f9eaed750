//! State of the simulated hosts: sorted keys and values, and what has to be remembered to be strict.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::{Plan, Step, StepId};
use kubexm_spec::Digest;

use super::{Failure, Snapshot};

/// What stands for the cluster where a host is named.
const CLUSTER: &str = "(cluster)";

/// One host.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// `path:/etc/x` → `file 0644 sha256:…`, `unit:x.service` → `enabled running` …
    pub(super) state: BTreeMap<String, String>,
    /// Content of text files, to see what a unit would start.
    pub(super) texts: BTreeMap<String, String>,
    /// Which step wrote a key last.
    writers: BTreeMap<String, StepId>,
}

/// All hosts, and the one cluster on them.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) hosts: BTreeMap<String, Host>,
    /// `initialised`, `object:flannel` …
    pub(super) cluster: BTreeMap<String, String>,
    pub(super) converges: u64,
    pub(super) undos: u64,
    pub(super) failure: Option<Failure>,
    /// Blobs that the depots of the cluster have.
    pub(super) depots: BTreeSet<Digest>,
    /// What a node says that the depots did.
    pub(super) depot_troubles: Vec<String>,
    /// Hosts that nothing reaches.
    pub(super) cut: BTreeSet<String>,
    /// Kinds of the values made for slots.
    pub(super) provided: Vec<String>,
    /// Values that a join is let in with.
    pub(super) good_values: BTreeSet<Vec<u8>>,
}

impl World {
    pub(super) fn add_host(&mut self, name: &str) {
        let fresh = [
            ("swap", "on"),
            ("selinux", "enforcing"),
            ("hostname", "localhost"),
            // A link puts the agent there before any step.
            ("path:/usr/local/bin/kubexm-install", "file 0755 agent"),
        ];
        let state = fresh.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        self.hosts.insert(name.to_owned(), Host { state, ..Host::default() });
    }

    pub(super) fn host_names(&self) -> impl Iterator<Item = &str> {
        self.hosts.keys().map(String::as_str)
    }

    pub(super) fn host(&self, name: &str) -> Result<&Host, String> {
        self.hosts.get(name).ok_or_else(|| format!("there is no host {name}"))
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let hosts = self.hosts.iter().map(|(name, host)| (name.clone(), host.state.clone()));
        hosts.chain([(CLUSTER.to_owned(), self.cluster.clone())]).collect()
    }

    pub(super) fn meddle(&mut self, host: &str, key: &str, value: &str) {
        if host == CLUSTER {
            self.cluster.insert(key.to_owned(), value.to_owned());
        }
        if let Some(host) = self.hosts.get_mut(host) {
            host.state.insert(key.to_owned(), value.to_owned());
        }
    }

    pub(super) fn has_blob(&self, host: &str, digest: &Digest) -> bool {
        self.hosts.get(host).is_some_and(|h| h.state.contains_key(&blob_key(digest)))
    }

    pub(super) fn add_blob(&mut self, host: &str, digest: &Digest) {
        self.meddle(host, &blob_key(digest), "present");
    }

    /// Sets a key for a step. Only a step that comes after the last writer may.
    pub(super) fn set(&mut self, host: &str, plan: &Plan, step: &Step, key: &str, value: &str) -> Result<(), String> {
        let host = self.hosts.get_mut(host).ok_or_else(|| format!("there is no host {host}"))?;
        if let Some(writer) = host.writers.get(key)
            && *writer != step.id
            && !comes_after(plan, &step.id, writer)
        {
            return Err(format!("{key} was written by {writer}, after which {} does not come", step.id));
        }
        host.writers.insert(key.to_owned(), step.id.clone());
        host.state.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    /// Takes a key away. A path that a running unit was started with may not go.
    pub(super) fn remove(&mut self, host: &str, key: &str) -> Result<(), String> {
        let host = self.hosts.get_mut(host).ok_or_else(|| format!("there is no host {host}"))?;
        if let Some(path) = key.strip_prefix("path:") {
            let user = host.units().find(|(unit, running)| *running && host.loaded(unit).any(|(p, _)| p == path));
            if let Some((unit, _)) = user {
                return Err(format!("{path} is used by {unit}, which runs"));
            }
        }
        host.state.remove(key);
        host.writers.remove(key);
        if let Some(path) = key.strip_prefix("path:") {
            host.texts.remove(path);
        }
        Ok(())
    }

    /// Brings back what a key was before any step of the plan wrote it.
    pub(super) fn restore_key(&mut self, host: &str, key: &str, was: &str) {
        if let Some(host) = self.hosts.get_mut(host) {
            host.writers.remove(key);
            host.state.insert(key.to_owned(), was.to_owned());
        }
    }

    pub(super) fn broken_invariants(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (name, host) in &self.hosts {
            for (unit, _) in host.units().filter(|(_, running)| *running) {
                for (path, loaded) in host.loaded(unit) {
                    if host.state.get(&format!("path:{path}")).map(String::as_str) != Some(loaded) {
                        broken.push(format!("{unit} on {name} runs with another {path} than the one that is there"));
                    }
                }
            }
        }
        broken
    }
}

impl Host {
    /// Whether something lies at a path, or was unpacked beside it with `all_into`.
    pub(super) fn has_path(&self, path: &str) -> bool {
        self.state.contains_key(&format!("path:{path}"))
    }

    /// Whether a unit runs.
    pub(super) fn runs(&self, unit: &str) -> bool {
        self.units().any(|(name, running)| running && name == unit)
    }

    /// Units that were set, with whether they run.
    pub(super) fn units(&self) -> impl Iterator<Item = (&str, bool)> {
        let units = self.state.iter().filter_map(|(key, value)| Some((key.strip_prefix("unit:")?, value)));
        units.map(|(name, value)| (name, value.ends_with("running")))
    }

    /// What a unit was started with: path and value.
    pub(super) fn loaded<'a>(&'a self, unit: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let prefix = format!("loaded:{unit}:");
        let all = self.state.iter();
        all.filter_map(move |(key, value)| Some((key.strip_prefix(prefix.as_str())?, value.as_str())))
    }
}

pub(super) fn blob_key(digest: &Digest) -> String {
    format!("blob:{digest}")
}

/// Whether a step must come after another, by the plan's edges.
fn comes_after(plan: &Plan, step: &StepId, earlier: &StepId) -> bool {
    let mut open = vec![step];
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if id == earlier {
            return true;
        }
        if seen.insert(id)
            && let Some(step) = plan.step(id)
        {
            open.extend(&step.after);
        }
    }
    false
}
