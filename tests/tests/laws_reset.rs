//! The laws for `reset`, with the real ops on a machine rooted in a directory: a host as it was before `create`, and as
//! it was before `reset` when a reset fails.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot set itself up has failed"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kubexm_engine::events::Silent;
use kubexm_engine::execute::Links;
use kubexm_engine::link::Link;
use kubexm_engine::{ClusterPki, ExecuteOptions, LocalLink, OnFailure, Outcome, Run, RunId, execute};
use kubexm_ops::double::{RootedSystem, furnish};
use kubexm_ops::{FaultPoint, Faults, Machine};
use kubexm_plan::facts::Stamp;
use kubexm_plan::{CheckedPlan, Facts, lint};
use kubexm_recipes::{ResetCx, ResetHost};
use kubexm_tests::laws::{self, Pipeline};
use kubexm_tests::samples::{SAMPLES, Sample};
use kubexm_tests::synthetic::SyntheticBundle;
use kubexm_tests::tree;

const CREATE: Pipeline = Pipeline { name: "create", plan: kubexm_recipes::create };
const AGENT: &str = "/usr/local/bin/kubexm-install";

type Tree = BTreeMap<String, String>;

/// A host on which a cluster was made.
struct Made {
    host: String,
    folder: tempfile::TempDir,
    controller: tempfile::TempDir,
    machine: Machine,
    bundle: SyntheticBundle,
    facts: Facts,
    before_create: Tree,
}

impl Made {
    async fn of(sample: &Sample) -> Self {
        let (bundle, plan) = sample.plan(CREATE);
        let (folder, controller) = (laws::scratch(), laws::scratch());
        let machine = furnish(folder.path()).expect("a host");
        std::fs::create_dir_all(machine.path("/var/log")).expect("a folder");
        RootedSystem::new(folder.path()).serve_images_of(plan.plan()).expect("a registry");
        let host = sample.hosts().remove(0);
        let mut facts = sample.facts().remove(&host).expect("facts");
        facts.stamp = Some(Stamp { cluster: "demo".to_owned(), run: "create".to_owned() });
        let before_create = tree_of(&folder);
        let made = Self { host, folder, controller, machine, bundle, facts, before_create };
        let outcome = made.run("create", &plan, &made.machine, OnFailure::Keep).await;
        assert_eq!(outcome, Outcome::Succeeded, "{}", made.report("create"));
        // What kubelet, containerd and the pods leave beside what the double of kubeadm writes.
        for path in ["/var/lib/containerd/blob", "/etc/cni/net.d/10-flannel.conflist", "/var/log/pods/etcd/0.log"] {
            let real = made.machine.path(path);
            std::fs::create_dir_all(real.parent().expect("a parent")).expect("a folder");
            std::fs::write(real, path).expect("a file");
        }
        made
    }

    async fn plan(&self) -> CheckedPlan {
        let ledger = LocalLink::new(self.host.clone(), self.machine.clone()).ledger().await.expect("a ledger");
        let host = ResetHost {
            name: &self.host,
            control_plane: true,
            worker: true,
            registry: true,
            facts: &self.facts,
            ledger: &ledger,
        };
        let cx = ResetCx { cluster: "demo", cluster_digest: kubexm_spec::Digest::of("yaml"), hosts: vec![host] };
        let plan = kubexm_recipes::reset(&cx).expect("a plan");
        lint::check(plan).expect("a plan that passes its lint").0
    }

    async fn run(&self, id: &str, plan: &CheckedPlan, machine: &Machine, on_failure: OnFailure) -> Outcome {
        let link = LocalLink::new(self.host.clone(), machine.clone());
        let links = Links::from([(self.host.clone(), Arc::new(link) as _)]);
        let pki = ClusterPki::open(&self.controller.path().join("pki")).expect("a pki folder");
        let mut run = Run::create(&self.controller.path().join("runs"), RunId::named(id), plan).expect("a run");
        let mut options = ExecuteOptions::new("laws", "resume");
        options.on_failure = on_failure;
        options.poll = Duration::from_millis(1);
        options.backoff = Duration::from_millis(1);
        execute(plan, &links, &mut run, &pki, &self.bundle, &Silent, options).await.expect("the engine goes on")
    }

    fn report(&self, id: &str) -> String {
        let path = self.controller.path().join("runs").join(id).join("report.md");
        std::fs::read_to_string(path).unwrap_or_default()
    }
}

/// Files, and which units run. What the double remembers of images and objects is no file that could be set aside; what
/// archives hold (`placed`) is read anew when it was forgotten.
fn tree_of(folder: &tempfile::TempDir) -> Tree {
    let mut tree = tree::state_of(folder.path()).expect("a tree");
    let units = tree.get("(system) units").cloned().unwrap_or_default();
    tree.retain(|path, _| !path.starts_with("(system)") && !path.starts_with("/var/lib/kubexm/placed"));
    let units: BTreeMap<String, serde_json::Value> = serde_json::from_str(&units).unwrap_or_default();
    let running = units.iter().filter(|(_, unit)| unit["active"] == true).map(|(name, _)| name.as_str());
    tree.insert("(units that run)".to_owned(), running.collect::<Vec<_>>().join(" "));
    tree
}

fn same(found: &Tree, wanted: &Tree, after: &str) {
    let keys: std::collections::BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
    let other: Vec<String> = keys
        .into_iter()
        .filter(|key| found.get(*key) != wanted.get(*key))
        .map(|key| format!("{key}: {:?}, was {:?}", found.get(key), wanted.get(key)))
        .collect();
    assert!(other.is_empty(), "after {after}:\n{}", other.join("\n"));
}

#[tokio::test]
async fn after_a_reset_every_host_is_as_it_was_before_create() {
    for sample in SAMPLES {
        let made = Made::of(&sample).await;
        let plan = made.plan().await;
        let outcome = made.run("reset", &plan, &made.machine, OnFailure::Keep).await;
        assert_eq!(outcome, Outcome::Succeeded, "{}: {}", sample.name, made.report("reset"));
        let mut wanted = made.before_create.clone();
        // It comes with the link, and goes with the reset.
        assert!(wanted.remove(AGENT).is_some(), "a furnished host has the agent");
        same(&tree_of(&made.folder), &wanted, sample.name);
        assert!(!made.machine.path("/var/lib/kubexm").exists(), "the ledger was begun anew");
    }
}

#[tokio::test]
async fn law_1_a_reset_that_fails_anywhere_before_the_deletion_leaves_the_cluster_running() {
    let sample = SAMPLES[0];
    let made = Made::of(&sample).await;
    let plan = made.plan().await;
    let wanted = tree_of(&made.folder);
    // The last step deletes: a failure of it cannot be taken back, and the run says so.
    let forget = &plan.plan().steps.last().expect("steps").id.0;
    let mut rolled_back = 0;
    for nth in 1.. {
        for point in [FaultPoint::Before(nth), FaultPoint::After(nth)] {
            let failing = made.machine.with_faults(Arc::new(Faults::at(point)));
            let id = format!("{point:?}").replace(['(', ')'], "-");
            let outcome = made.run(&id, &plan, &failing, OnFailure::Rollback).await;
            if outcome != Outcome::RolledBack {
                let report = made.report(&id);
                assert_eq!(outcome, Outcome::Stuck, "{point:?}: {report}");
                assert!(report.contains(&format!("{forget} failed")), "{point:?}: {report}");
                assert!(rolled_back >= 8, "only {rolled_back} failures were tried before it");
                return;
            }
            rolled_back += 1;
            same(&tree_of(&made.folder), &wanted, &format!("{point:?}: {}", made.report(&id)));
        }
    }
}

#[tokio::test]
async fn a_second_reset_after_a_first_that_stopped_half_way_ends_the_same() {
    let made = Made::of(&SAMPLES[0]).await;
    let plan = made.plan().await;
    let failing = made.machine.with_faults(Arc::new(Faults::at(FaultPoint::After(3))));
    assert_eq!(made.run("first", &plan, &failing, OnFailure::Keep).await, Outcome::Failed);
    // By a controller that knows nothing of the first one.
    let plan = made.plan().await;
    let outcome = made.run("second", &plan, &made.machine, OnFailure::Keep).await;
    assert_eq!(outcome, Outcome::Succeeded, "{}", made.report("second"));
    let mut wanted = made.before_create.clone();
    wanted.remove(AGENT);
    same(&tree_of(&made.folder), &wanted, "a second reset");
}
