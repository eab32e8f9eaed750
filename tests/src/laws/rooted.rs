//! Machines rooted in directories, with the real ops and the fake system behind them, in one cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kubexm_engine::sim::{Invariant, Snapshot};
use kubexm_engine::{Links, LocalLink};
use kubexm_ops::fake::{RootedSystem, isulad, seed};
use kubexm_ops::{FaultPoint, Faults, Machine};
use kubexm_plan::cluster_facts::Certificate;
use kubexm_plan::kubeadm_certificates::MANAGED;
use kubexm_plan::op::HARBOR_UNIT;
use kubexm_plan::{CONTROLLER, CheckedPlan, state_folders};
use kubexm_spec::Family;
use kubexm_spec::cluster::RuntimeKind;
use serde_json::Value;
use tempfile::TempDir;

use super::case::CLUSTER;
use super::{Fleet, foreign, scratch};
use crate::samples::Sample;
use crate::tree;

/// How long the last op of an earlier link may need. A test that holds links while it opens others waits for itself: it
/// fails soon, and not after everybody's time is up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Our own folders, which come with the ledger and go with it; and what the fake has read of unit files.
const LEFT_OUT: [&str; 7] = [
    "/var/lib/kubexm",
    "/var/lib/kubexm/store",
    "/var/lib/kubexm/store/blobs",
    "/var/lib/kubexm/store/blobs/sha256",
    "/var/lib/kubexm/store/partial",
    "/var/lib/kubexm/acts",
    "(system) known",
];
/// When the authority of an etcd of kubexm's ends, in seconds of Unix time: 2036.
const OF_ETCD_END: i64 = 2_100_000_000;
/// What was unpacked from which archive; read anew from the archive when it is gone.
const PLACED: &str = "/var/lib/kubexm/placed";

/// The hosts of a sample, each a folder below one.
#[derive(Clone)]
pub struct Rooted {
    hosts: Vec<String>,
    folder: Arc<TempDir>,
    faults: Arc<Faults>,
    broken: Arc<std::sync::Mutex<BTreeSet<(Invariant, String)>>>,
}

#[expect(clippy::expect_used, reason = "a test that cannot set itself up has failed")]
impl Rooted {
    fn of(hosts: Vec<String>) -> Self {
        let (folder, faults) = (Arc::new(scratch()), Arc::new(Faults::counting()));
        Self { hosts, folder, faults, broken: Arc::default() }
    }

    /// Hosts that lie in a folder already; these work on a copy.
    pub fn from_tree(mut hosts: Vec<String>, folder: &Path) -> Self {
        // Earlier programs had no steps on the controller.
        hosts.extend(Some(CONTROLLER.to_owned()).filter(|controller| folder.join(controller).is_dir()));
        let fleet = Self::of(hosts);
        copy_tree(folder, fleet.folder.path()).expect("a copy");
        fleet.share();
        fleet
    }

    /// The folder with all of them.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn root(&self, host: &str) -> std::path::PathBuf {
        self.folder.path().join(host)
    }

    /// The fake behind a host.
    pub fn system(&self, host: &str) -> RootedSystem {
        RootedSystem::new(&self.root(host))
    }

    /// A host's machine.
    pub fn machine(&self, host: &str) -> Machine {
        Machine::rooted(self.root(host))
    }

    /// The host is installed anew: its member of etcd is dead, and it is as in `fresh`.
    pub(super) fn lose(&self, host: &str, fresh: &Self) {
        self.system(host).kill_member(host).expect("a member");
        self.system(host).lose_node(host).expect("a node");
        std::fs::remove_dir_all(self.root(host)).expect("a host");
        copy_tree(&fresh.root(host), &self.root(host)).expect("a copy");
        self.share();
        self.system(host).mark_as_copy().expect("written");
    }

    fn share(&self) {
        for host in &self.hosts {
            self.system(host).share(&self.root(CLUSTER)).expect("a cluster");
        }
    }

    fn cluster(&self) -> Value {
        let text = std::fs::read(self.root(CLUSTER).join("cluster.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }
}

#[expect(clippy::expect_used, reason = "a test that cannot set itself up has failed")]
impl Fleet for Rooted {
    const HAS_DATA: bool = true;

    fn fresh(sample: &Sample, plan: &CheckedPlan) -> Self {
        let fleet = Self::of(sample.hosts().into_iter().chain([CONTROLLER.to_owned()]).collect());
        let (facts, external) = (sample.facts(), sample.cluster().etcd.external);
        for (host, address) in fleet.hosts.iter().zip(11_u8..) {
            let root = fleet.root(host);
            std::fs::create_dir_all(&root).expect("a folder");
            let machine = seed(&root).expect("a host");
            // A link puts the agent there before any step.
            std::fs::write(machine.path("/usr/local/bin/kubexm-install"), "agent").expect("written");
            // Folders that every system has (FHS 3.0).
            for folder in ["/opt", "/var/log"] {
                std::fs::create_dir_all(machine.path(folder)).expect("a folder");
            }
            for path in foreign::files(plan.plan()) {
                let real = machine.path(&path);
                std::fs::create_dir_all(real.parent().expect("a parent")).expect("folders");
                std::fs::write(&real, &path).expect("a file");
                std::fs::set_permissions(&real, Permissions::from_mode(0o640)).expect("a mode");
            }
            let interfaces = serde_json::json!([{
                "name": "eth0", "addresses": [format!("10.0.0.{address}/24")], "mac": format!("02:00:00:00:00:{address}"), "mtu": 1500,
            }]);
            let system = fleet.system(host);
            system.put("interfaces.json", interfaces.to_string().as_bytes()).expect("written");
            system.serve_images_of(plan.plan()).expect("a registry");
            if let Some(etcd) = &external {
                let endpoints = serde_json::json!({"endpoints": etcd.endpoints, "keys": {}});
                system.put("external-etcd.json", endpoints.to_string().as_bytes()).expect("written");
            }
            let Some(facts) = facts.get(host) else { continue };
            if let Some(installed) = facts.packages.as_ref().filter(|all| all.family == Family::Deb) {
                system.set_packages(&installed.list).expect("written");
            }
            for (path, text) in isulad::FILES.iter().filter(|_| facts.programs.contains_key("isulad")) {
                let real = machine.path(path);
                std::fs::create_dir_all(real.parent().expect("a parent")).expect("folders");
                std::fs::write(&real, text).expect("a file");
            }
        }
        fleet.share();
        fleet
    }

    fn serve(&self, plan: &CheckedPlan) {
        for host in &self.hosts {
            self.system(host).serve_images_of(plan.plan()).expect("a registry");
        }
    }

    fn fork(&self) -> Self {
        let fork = Self::of(self.hosts.clone());
        copy_tree(self.folder.path(), fork.folder.path()).expect("a copy");
        fork.share();
        for host in &fork.hosts {
            fork.system(host).mark_as_copy().expect("written");
        }
        fork
    }

    /// Ops that run finish, and nobody knows when.
    fn crashed_copy(&self) -> Option<Self> {
        None
    }

    fn links(&self) -> Links {
        let link = |host: &String| {
            let machine = self.machine(host).with_faults(self.faults.clone());
            (host.clone(), Arc::new(LocalLink::new(host.clone(), machine).with_patience(PATIENCE)) as _)
        };
        self.hosts.iter().map(link).collect()
    }

    fn snapshot(&self) -> Snapshot {
        let state = |host: &String| {
            let mut state = tree::state_of(&self.root(host)).expect("a tree");
            let units = state.remove("(system) units").unwrap_or_default();
            state.retain(|key, value| !LEFT_OUT.contains(&key.as_str()) && !key.starts_with(PLACED) && value != "{}");
            let units: BTreeMap<String, Value> = serde_json::from_str(&units).unwrap_or_default();
            // What is in Harbor's data volume outlives it (decision 0065); it is compared while Harbor runs.
            if units.get(HARBOR_UNIT).is_none_or(|unit| unit["active"] != true) {
                state.remove("(system) harbor");
            }
            let running = units.iter().filter(|(_, unit)| unit["active"] == true).map(|(name, _)| name.as_str());
            // Below /run nothing else is compared: a reboot forgets it.
            for folder in state_folders::all().into_iter().filter(|folder| folder.starts_with("/run/")) {
                let theirs =
                    std::fs::read_to_string(self.root(host).join(folder.trim_start_matches('/')).join("theirs"));
                state.insert(format!("{folder}/theirs"), theirs.unwrap_or_default());
            }
            state.insert("(units that run)".to_owned(), running.collect::<Vec<_>>().join(" "));
            (host.clone(), state)
        };
        let mut snapshot: Snapshot = self.hosts.iter().map(state).collect();
        let cluster = self.cluster();
        // What is in an etcd of kubexm's is gone with the data of its members.
        let has_data = |host: &String, folder: &str| self.root(host).join(folder).join("member").exists();
        let data = self.hosts.iter().any(|host| ["var/lib/etcd", "srv/etcd"].iter().any(|at| has_data(host, at)));
        let words = if cluster["apart"] == true && !data { BTreeMap::new() } else { in_words(&cluster) };
        snapshot.insert(CLUSTER.to_owned(), words);
        snapshot
    }

    fn converges(&self) -> u64 {
        self.faults.count()
    }

    fn fail_at(&mut self, before: bool, nth: u64) {
        let point = if before { FaultPoint::Before(nth) } else { FaultPoint::After(nth) };
        self.faults = Arc::new(Faults::at(point));
    }

    fn fail_undo_at(&mut self, _: bool, _: u64) -> bool {
        false
    }

    fn certificates(&self, host: &str) -> Vec<Certificate> {
        let machine = self.machine(host);
        let there = MANAGED.iter().filter_map(|(name, path)| {
            let file = Some(kubexm_spec::Digest::of(std::fs::read(machine.path(path)).ok()?));
            let (host, path, subject) = (host.to_owned(), (*path).to_owned(), (*name).to_owned());
            Some(Certificate { host, path, subject, ends: 1, file, leaf: None })
        });
        // Those of the cluster's own authorities are real ones.
        let own = [
            "/etc/kubexm/etcd/ca.crt",
            "/etc/kubexm/etcd/server.crt",
            "/etc/kubexm/etcd/peer.crt",
            "/etc/kubexm/etcd/client.crt",
        ];
        let own = own.into_iter().chain(["/etc/kubexm/etcd-client/ca.crt", "/etc/kubexm/etcd-client/client.crt"]);
        let own = own.chain(["/etc/kubexm/depot/ca.crt", "/etc/kubexm/depot/tls.crt"]);
        let own = own.chain(["/etc/kubexm/registry/ca.crt", "/etc/kubexm/registry/tls.crt"]).filter_map(|path| {
            let file = Some(kubexm_spec::Digest::of(std::fs::read(machine.path(path)).ok()?));
            let ends = match path.ends_with("/ca.crt") {
                true if path.contains("/etcd") => OF_ETCD_END,
                true => i64::MAX,
                false => 1,
            };
            Some(Certificate {
                host: host.to_owned(),
                path: path.to_owned(),
                subject: String::new(),
                ends,
                file,
                leaf: None,
            })
        });
        there.chain(own).collect()
    }

    fn forget_kubexm(&self) {
        for host in &self.hosts {
            let own = self.root(host).join("var/lib/kubexm");
            if own.exists() {
                std::fs::remove_dir_all(own).expect("a folder that can be removed");
            }
        }
    }

    fn deliver_nothing(&self) {
        for host in &self.hosts {
            for folder in ["facts", "leases"] {
                let folder = self.root(host).join("var/lib/kubexm/store").join(folder);
                std::fs::create_dir_all(folder).expect("a folder");
            }
        }
    }

    /// What kubelet, containerd and the pods leave beside what the fake kubeadm writes.
    fn live(&self) {
        let flannel =
            self.cluster()["objects"].as_object().is_some_and(|all| all.keys().any(|key| key.contains("flannel")));
        let network: &[&str] = if flannel { &["/etc/cni/net.d/10-flannel.conflist"] } else { &[] };
        for host in self.hosts.iter().filter(|host| self.root(host).join("etc/kubernetes/kubelet.conf").is_file()) {
            let config =
                std::fs::read_to_string(self.root(host).join("etc/containerd/config.toml")).unwrap_or_default();
            let named = config.lines().find_map(|line| line.strip_prefix("root = "));
            let has = |path: &str| self.machine(host).path(path).exists();
            let configs = [
                ("/etc/crio/crio.conf.d/90-kubexm.conf", RuntimeKind::CriO),
                ("/etc/docker/daemon.json", RuntimeKind::Docker),
                ("/etc/isulad/daemon.json", RuntimeKind::Isulad),
            ];
            let kind = configs.iter().find(|(path, _)| has(path)).map_or(RuntimeKind::Containerd, |(_, kind)| *kind);
            let usual = kind.data_dir();
            let root = named.map_or(usual, |root| root.trim_matches('"'));
            let blob = format!("{root}/blob");
            for path in [blob.as_str(), "/var/log/pods/etcd/0.log"].iter().chain(network) {
                let real = self.machine(host).path(path);
                std::fs::create_dir_all(real.parent().expect("a parent")).expect("a folder");
                std::fs::write(real, path).expect("a file");
            }
        }
    }

    fn look(&self) {
        let cluster = self.cluster();
        // An etcd of kubexm's is only needed once there is an API server.
        if cluster["apart"] == true && cluster["planes"].as_array().is_none_or(Vec::is_empty) {
            return;
        }
        let members = cluster["members"].as_object().cloned().unwrap_or_default();
        let up = members.values().filter(|member| member["dead"] != true).count();
        if !members.is_empty() && up * 2 <= members.len() {
            let text = format!("of {} members of etcd only {up} run", members.len());
            self.broken.lock().expect("no panic").insert((Invariant::Quorum, text));
        }
    }

    fn broken(&self) -> BTreeSet<(Invariant, String)> {
        self.look();
        self.broken.lock().expect("no panic").clone()
    }
}

/// The cluster without tokens, keys and ids, which are new every time.
fn in_words(cluster: &Value) -> BTreeMap<String, String> {
    let mut words = BTreeMap::new();
    for (name, object) in cluster["objects"].as_object().into_iter().flatten() {
        words.insert(format!("object:{name}"), object.to_string());
    }
    for (name, node) in cluster["nodes"].as_object().into_iter().flatten() {
        words.insert(format!("node:{name}"), node.to_string());
    }
    for member in cluster["members"].as_object().into_iter().flatten().map(|(_, member)| member) {
        let name = member["name"].as_str().unwrap_or_default();
        let (address, dead) = (&member["address"], &member["dead"]);
        // kubeadm's members have none.
        let version = member["version"].as_str().map(|version| format!(" version: {version}")).unwrap_or_default();
        words.insert(format!("member:{name}"), format!("{address} dead: {dead}{version}"));
    }
    words
}

/// With modes and links.
pub fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, target, kind) = (entry.path(), to.join(entry.file_name()), entry.file_type()?);
        if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&path)?, &target)?;
        } else if kind.is_dir() {
            copy_tree(&path, &target)?;
            std::fs::set_permissions(&target, std::fs::metadata(&path)?.permissions())?;
        } else {
            std::fs::copy(&path, &target)?;
        }
    }
    Ok(())
}
