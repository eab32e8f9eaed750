//! State of the simulated hosts: sorted keys and values, and what is needed to refuse unordered steps.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::ops::Bound;
use std::sync::Arc;

use kubexm_plan::lint::Order;
use kubexm_plan::runtime;
use kubexm_plan::{ClusterFacts, Facts, Invariant, Plan, Step, StepId, ledger};
use kubexm_spec::Digest;

use super::failure::Failure;
use super::names::READ;
use crate::link::Change;

/// Name of the cluster's own state where a host is expected.
const CLUSTER: &str = "(cluster)";

/// State of every host and of the cluster, as sorted text: two equal snapshots are two equal fleets.
pub type Snapshot = BTreeMap<String, BTreeMap<String, String>>;

/// One host.
#[derive(Clone, Debug, Default)]
pub(super) struct Host {
    /// `path:/etc/x` → `file 0644 sha256:…`, `unit:x.service` → `enabled running` …
    pub(super) state: BTreeMap<String, String>,
    /// Its ledger: the steps that were executed here.
    pub(super) ledger: Vec<Arc<ledger::Record>>,
    /// The step that wrote a key last.
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
    /// Shared with photographs until one of them changes.
    pub(super) hosts: BTreeMap<String, Arc<Host>>,
    /// `initialised`, `object:flannel` …
    pub(super) cluster: BTreeMap<String, String>,
    pub(super) converges: u64,
    /// Observations of single steps and probes so far, without surveys.
    pub(super) observations: u64,
    pub(super) undos: u64,
    pub(super) failure: Option<Failure>,
    /// Blobs that the depots of the cluster have.
    pub(super) depots: BTreeSet<Digest>,
    /// Problems of depots that nodes report.
    pub(super) depot_troubles: Vec<String>,
    /// What hosts serve to others, by address.
    pub(super) shared: BTreeMap<SocketAddr, (String, BTreeSet<Digest>)>,
    /// Hosts that serve nothing right.
    pub(super) bad_hosts: BTreeSet<String>,
    /// Hosts that say that others lack what they want.
    pub(super) liars: BTreeSet<String>,
    /// Hosts that send nothing and end nothing.
    pub(super) silent: BTreeSet<String>,
    /// Each blob that a host took from another: the one, the other.
    pub(super) taken: Vec<(String, String)>,
    /// Images that something in the cluster uses.
    pub(super) used_images: BTreeSet<String>,
    /// Unreachable hosts.
    pub(super) cut: BTreeSet<String>,
    /// Kinds of the values made for slots.
    pub(super) provided: Vec<String>,
    /// Values that a join may use.
    pub(super) valid_values: BTreeSet<Vec<u8>>,
    /// Content of text files by digest, to find the programs in unit files.
    pub(super) texts: Arc<BTreeMap<String, String>>,
    /// Versions of the kubelets that upgrades have installed, by what is at their path; another one is that of the create.
    pub(super) kubelets: BTreeMap<String, String>,
    /// Documents of sealed authorities by digest, so that facts can have them.
    pub(super) sealed: Arc<BTreeMap<String, String>>,
    /// Digests of certificates of the cluster's own authorities that were renewed.
    pub(super) renewed: BTreeSet<Digest>,
    /// What a test has changed of what hosts say of themselves.
    pub(super) bend: Option<fn(&mut Facts)>,
    /// What control planes see, and what is of each host in it, in place of what the simulation knows of its own cluster.
    pub(super) seen: Option<Arc<ClusterFacts>>,
    /// Invariants that were violated at any point so far.
    pub(super) broken: BTreeSet<(Invariant, String)>,
    order: Option<Arc<Ordered>>,
}

impl World {
    pub(super) fn add_host(&mut self, name: &str) {
        let fresh = [
            ("swap", "on"),
            ("selinux", "enforcing"),
            ("hostname", "localhost"),
            // The link installs the agent before any step.
            ("path:/usr/local/bin/kubexm-install", "file 0755 agent"),
        ];
        let state = fresh.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        self.hosts.insert(name.to_owned(), Arc::new(Host { state, ..Host::default() }));
    }

    pub(super) fn host_names(&self) -> impl Iterator<Item = &str> {
        self.hosts.keys().map(String::as_str)
    }

    pub(super) fn host_mut(&mut self, name: &str) -> Option<&mut Host> {
        self.hosts.get_mut(name).map(Arc::make_mut)
    }

    pub(super) fn host(&self, name: &str) -> Result<&Host, String> {
        self.hosts.get(name).map(|host| &**host).ok_or_else(|| format!("there is no host {name}"))
    }

    /// Appends a step's outcome to the host's ledger.
    pub(super) fn record(&mut self, host: &str, step: &Step, change: Change<'_>, outcome: ledger::Outcome) {
        if let Some(host) = self.host_mut(host) {
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

    pub(super) fn set_state(&mut self, host: &str, key: &str, value: &str) {
        if host == CLUSTER {
            self.cluster.insert(key.to_owned(), value.to_owned());
        }
        if let Some(host) = self.host_mut(host) {
            host.state.insert(key.to_owned(), value.to_owned());
        }
    }

    /// Of every host.
    pub(super) fn remove_state(&mut self, key: &str) {
        let names: Vec<String> = self.host_names().map(str::to_owned).collect();
        for name in names {
            if let Some(host) = self.host_mut(&name) {
                host.state.remove(key);
            }
        }
    }

    pub(super) fn keep_sealed(&mut self, text: &str) {
        Arc::make_mut(&mut self.sealed).insert(Digest::of(text).to_string(), text.to_owned());
    }

    pub(super) fn has_blob(&self, host: &str, digest: &Digest) -> bool {
        self.hosts.get(host).is_some_and(|h| h.state.get(&blob_key(digest)).is_some_and(|state| state == "present"))
    }

    pub(super) fn add_blob(&mut self, host: &str, digest: &Digest) {
        self.set_state(host, &blob_key(digest), "present");
    }

    /// Forgets which steps wrote what: following steps may change everything.
    pub(super) fn forget_writers(&mut self) {
        self.hosts.values_mut().for_each(|host| Arc::make_mut(host).writers.clear());
    }

    /// Sets the plan whose steps are executed from now on.
    pub(super) fn set_plan(&mut self, plan: &Plan) {
        let mut hasher = DefaultHasher::new();
        plan.steps.iter().for_each(|step| (&step.id, &step.after, &step.after_end).hash(&mut hasher));
        let fingerprint = hasher.finish();
        if self.order.as_ref().is_none_or(|known| known.fingerprint != fingerprint) {
            let positions = plan.steps.iter().enumerate().map(|(at, step)| (step.id.clone(), at)).collect();
            self.order = Some(Arc::new(Ordered { fingerprint, positions, order: Order::of(plan) }));
        }
    }

    /// Whether a step is ordered after the one that wrote something. Steps of other plans were executed earlier.
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
            return Err(format!("{key} was written by {writer}, and {} is not ordered after it", step.id));
        }
        if let Some(host) = self.host_mut(host) {
            host.writers.insert(key.to_owned(), step.id.clone());
            host.state.insert(key.to_owned(), value.to_owned());
        }
        Ok(())
    }

    /// What a step needs must have been written by a step that it waits for; otherwise it would exist only sometimes.
    pub(super) fn read(&self, host: &str, step: &Step, key: &str) -> Result<(), String> {
        match self.host(host)?.writers.get(key) {
            Some(writer) if !self.comes_after(&step.id, writer) => {
                Err(format!("{} needs {key}, which {writer} writes, and does not wait for that step", step.id))
            }
            _ => Ok(()),
        }
    }

    /// Removes a key. A path that a running unit was started with cannot be removed.
    pub(super) fn remove(&mut self, host: &str, key: &str) -> Result<(), String> {
        let host = self.host_mut(host).ok_or_else(|| format!("there is no host {host}"))?;
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

    /// Restores the value of a key before any step of the plan wrote it.
    pub(super) fn restore_key(&mut self, host: &str, key: &str, was: &str) {
        if let Some(host) = self.host_mut(host) {
            host.writers.remove(key);
            host.state.insert(key.to_owned(), was.to_owned());
        }
    }
}

impl Host {
    /// Entries whose key starts so, without that part of the key.
    pub(super) fn with_prefix<'a, P: AsRef<str>>(
        &'a self,
        prefix: P,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a, P> {
        let from: (Bound<&str>, Bound<&str>) = (Bound::Included(prefix.as_ref()), Bound::Unbounded);
        let entries = self.state.range::<str, _>(from);
        entries.map_while(move |(key, value)| Some((key.strip_prefix(prefix.as_ref())?, value.as_str())))
    }

    /// Whether a path exists.
    pub(super) fn has_path(&self, path: &str) -> bool {
        self.state.contains_key(&self.key_of(path))
    }

    /// The key of a path; of a file in a folder that an archive has filled as a whole, that of all files there.
    pub(super) fn key_of(&self, path: &str) -> String {
        let (own, folder) = (format!("path:{path}"), path.rsplit_once('/').map_or("", |(folder, _)| folder));
        let all = format!("path:{folder}/*");
        if !self.state.contains_key(&own) && self.state.contains_key(&all) { all } else { own }
    }

    /// Whether a path is a link to one of these that exists.
    pub(super) fn leads_to(&self, path: &str, targets: &[String]) -> bool {
        let found = self.state.get(&format!("path:{path}")).and_then(|value| value.strip_prefix("link "));
        found.is_some_and(|found| targets.iter().any(|target| target == found) && self.has_path(found))
    }

    /// Whether a unit runs.
    pub(super) fn runs(&self, unit: &str) -> bool {
        self.units().any(|(name, running)| running && name == unit)
    }

    /// Whether a container runtime runs.
    pub(super) fn runs_containers(&self) -> bool {
        runtime::ALL.iter().any(|runtime| self.runs(runtime.unit))
    }

    /// The key of the installed package that contains a unit: chrony has chrony.service or chronyd.service.
    pub(super) fn brings(&self, unit: &str) -> Option<&str> {
        let stem = unit.strip_suffix(".service")?;
        let names = [stem, stem.strip_suffix('d').unwrap_or(stem)].map(|name| format!("package:{name}"));
        let there = |(key, value): &(&String, &String)| names.contains(key) && *value != "replaced";
        self.state.iter().find(there).map(|(key, _)| key.as_str())
    }

    /// Units with an entry, and whether they run.
    pub(super) fn units(&self) -> impl Iterator<Item = (&str, bool)> {
        self.with_prefix("unit:").map(|(name, value)| (name, value.ends_with("running")))
    }

    /// Files that static pods have read: pod, path and value.
    pub(super) fn read_by_pods(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.with_prefix(READ).filter_map(|(key, value)| {
            let (pod, path) = key.split_once(':')?;
            Some((pod, path, value))
        })
    }

    /// Files that a unit was started with: path and value.
    pub(super) fn loaded<'a>(&'a self, unit: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.with_prefix(format!("loaded:{unit}:"))
    }
}

pub(super) fn blob_key(digest: &Digest) -> String {
    format!("blob:{digest}")
}
