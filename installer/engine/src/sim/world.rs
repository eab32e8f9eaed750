//! State of the simulated hosts: sorted keys and values, and what has to be remembered to be strict.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use kubexm_plan::lint::Order;
use kubexm_plan::runtime;
use kubexm_plan::{Invariant, Plan, Step, StepId, ledger};
use kubexm_spec::Digest;

use super::failure::Failure;
use crate::link::Change;

/// What stands for the cluster where a host is named.
const CLUSTER: &str = "(cluster)";

/// State of every host and of the cluster, as sorted text: two equal snapshots are two equal fleets.
pub type Snapshot = BTreeMap<String, BTreeMap<String, String>>;

/// One host.
#[derive(Clone, Debug, Default)]
pub(super) struct Host {
    /// `path:/etc/x` → `file 0644 sha256:…`, `unit:x.service` → `enabled running` …
    pub(super) state: BTreeMap<String, String>,
    /// What it wrote down of the steps that were executed here.
    pub(super) ledger: Vec<Arc<ledger::Record>>,
    /// Which step wrote a key last.
    writers: BTreeMap<String, StepId>,
}

/// The order between the steps of the plan that is being executed.
#[derive(Debug)]
struct Ordered {
    fingerprint: u64,
    positions: BTreeMap<StepId, usize>,
    order: Order,
}

/// All hosts, and the one cluster on them.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) hosts: BTreeMap<String, Host>,
    /// `initialised`, `object:flannel` …
    pub(super) cluster: BTreeMap<String, String>,
    pub(super) converges: u64,
    /// Looks at one step so far, and probes; none of a survey.
    pub(super) looks: u64,
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
    /// Content of text files by their digest, to see what a unit would start.
    pub(super) texts: BTreeMap<String, String>,
    /// What was broken at any point so far.
    pub(super) broken: BTreeSet<(Invariant, String)>,
    order: Option<Arc<Ordered>>,
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

    /// A host, or the cluster, as it was left.
    pub(super) fn host_names(&self) -> impl Iterator<Item = &str> {
        self.hosts.keys().map(String::as_str)
    }

    pub(super) fn host(&self, name: &str) -> Result<&Host, String> {
        self.hosts.get(name).ok_or_else(|| format!("there is no host {name}"))
    }

    /// The host writes down how far a step came.
    pub(super) fn note(&mut self, host: &str, step: &Step, change: Change<'_>, outcome: ledger::Outcome) {
        if let Some(host) = self.hosts.get_mut(host) {
            host.ledger.push(Arc::new(ledger::Record {
                schema: ledger::SCHEMA,
                run: change.run.to_owned(),
                sequence: change.sequence,
                step: step.id.clone(),
                ops: step.ops.clone(),
                undo: step.undo.clone(),
                before: change.before.to_vec(),
                outcome,
            }));
        }
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

    /// Everything until now was before whatever comes next.
    pub(super) fn settle(&mut self) {
        self.hosts.values_mut().for_each(|host| host.writers.clear());
    }

    /// The plan whose steps change and read things from now on.
    pub(super) fn enter(&mut self, plan: &Plan) {
        let mut hasher = DefaultHasher::new();
        plan.steps.iter().for_each(|step| (&step.id, &step.after, &step.settled).hash(&mut hasher));
        let fingerprint = hasher.finish();
        if self.order.as_ref().is_none_or(|known| known.fingerprint != fingerprint) {
            let positions = plan.steps.iter().enumerate().map(|(at, step)| (step.id.clone(), at)).collect();
            self.order = Some(Arc::new(Ordered { fingerprint, positions, order: Order::of(plan) }));
        }
    }

    /// Whether a step comes after the one that wrote something. A step of another plan was executed before this one.
    fn comes_after(&self, step: &StepId, writer: &StepId) -> bool {
        let Some(known) = &self.order else { return true };
        match (known.positions.get(writer), known.positions.get(step)) {
            (Some(writer), Some(step)) => writer == step || known.order.is_earlier(*writer, *step),
            _ => true,
        }
    }

    /// Sets a key for a step. Only a step that comes after the last writer may.
    pub(super) fn set(&mut self, host: &str, step: &Step, key: &str, value: &str) -> Result<(), String> {
        if let Some(writer) = self.host(host)?.writers.get(key)
            && !self.comes_after(&step.id, writer)
        {
            return Err(format!("{key} was written by {writer}, after which {} does not come", step.id));
        }
        if let Some(host) = self.hosts.get_mut(host) {
            host.writers.insert(key.to_owned(), step.id.clone());
            host.state.insert(key.to_owned(), value.to_owned());
        }
        Ok(())
    }

    /// What a step builds on must have been written by a step that it waits for: otherwise it is there only sometimes.
    pub(super) fn read(&self, host: &str, step: &Step, key: &str) -> Result<(), String> {
        match self.host(host)?.writers.get(key) {
            Some(writer) if !self.comes_after(&step.id, writer) => {
                Err(format!("{} builds on {key}, which {writer} writes, and does not wait for that", step.id))
            }
            _ => Ok(()),
        }
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
        Ok(())
    }

    /// Restores what a key was before any step of the plan wrote it.
    pub(super) fn restore_key(&mut self, host: &str, key: &str, was: &str) {
        if let Some(host) = self.hosts.get_mut(host) {
            host.writers.remove(key);
            host.state.insert(key.to_owned(), was.to_owned());
        }
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

    /// Whether a container runtime runs.
    pub(super) fn runs_containers(&self) -> bool {
        runtime::ALL.iter().any(|runtime| self.runs(runtime.unit))
    }

    /// The key of the installed package that brings a unit: chrony brings chrony.service, or chronyd.service.
    pub(super) fn brings(&self, unit: &str) -> Option<&str> {
        let stem = unit.strip_suffix(".service")?;
        let names = [stem, stem.strip_suffix('d').unwrap_or(stem)].map(|name| format!("package:{name}"));
        let there = |(key, value): &(&String, &String)| names.contains(key) && *value != "replaced";
        self.state.iter().find(there).map(|(key, _)| key.as_str())
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
