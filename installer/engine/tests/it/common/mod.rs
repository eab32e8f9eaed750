//! A small plan with every shape the executor must know, and the ways tests end a run early.

#![allow(dead_code, reason = "each test file uses a part")]

pub mod fleet;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use kubexm_engine::execute::{ExecuteOptions, Hook, OnFailure, Outcome, execute, roll_back};
use kubexm_engine::journal::{Journal, Record};
use kubexm_engine::link::BlobSource;
use kubexm_engine::sim::SimFleet;
use kubexm_engine::{Belongs, ClusterPki, EngineError, EventSink, Run, RunId, Status, run};
use kubexm_plan::op::{Binary, Blobs, Content, Dir, File, SwapOff, Unit};
use kubexm_plan::{CheckedPlan, Plan, PlanHost, Probe, SCHEMA, SlotName, SlotProvider, Step, Undo, lint};
use kubexm_spec::Digest;
use kubexm_spec::cluster::RuntimeKind;

pub const BLOB: &[u8] = b"not really containerd";

pub const CLUSTER: &[u8] = b"cluster.yaml";
pub const BUNDLE: &[u8] = b"manifest.json";

/// `os` → `runtime` (blobs, binary, unit) → `trust` (a slot) on each host; `b/trust` also waits for `a/trust`.
pub fn plan() -> CheckedPlan {
    let mut plan = Plan {
        schema: SCHEMA,
        pipeline: kubexm_plan::Pipeline::Create,
        cluster_name: "demo".to_owned(),
        cluster_id: None,
        cluster: Digest::of(CLUSTER),
        bundle: Some(Digest::of(BUNDLE)),
        hosts: ["a", "b"]
            .map(|name| PlanHost { name: name.to_owned(), roles: vec!["worker".to_owned()], optional: false })
            .to_vec(),
        fleet_concurrency: 2,
        host_concurrency: 2,
        slots: BTreeMap::from([(SlotName("ca".to_owned()), SlotProvider::REGISTRY_CA)]),
        texts: BTreeMap::new(),
        steps: Vec::new(),
    };
    let unit = plan.text("[Service]\nExecStart=/usr/local/bin/containerd\n");
    let config = plan.text("version = 3\n");
    let mut last = None;
    for host in ["a", "b"] {
        let os = Step::on(host, "os.swap", "Switch swap off").ensure(SwapOff {}).undo(Undo::RestoreBefore).build();
        let file = |path: &str, digest| File { path: path.to_owned(), content: Content::Text { digest }, mode: 0o644 };
        let runtime = Step::on(host, "containerd.run", "Run containerd")
            .ensure(Blobs {
                blobs: BTreeMap::from([(Digest::of(BLOB), BLOB.len() as u64)]),
                depots: None,
                shared_at: None,
            })
            .ensure(Binary { path: "/usr/local/bin/containerd".to_owned(), blob: Digest::of(BLOB), mode: 0o755 })
            .ensure(file("/etc/containerd/config.toml", config))
            .ensure(file("/etc/systemd/system/containerd.service", unit))
            .ensure(Unit {
                name: "containerd.service".to_owned(),
                enabled: true,
                running: Some(true),
                loaded: vec!["/etc/containerd/config.toml".to_owned()],
                reloaded: Vec::new(),
            })
            .probe(Probe::CriReady { runtime: RuntimeKind::Containerd, config_dump: Vec::new() }, 5)
            .after(&os.id)
            .undo(Undo::RestoreBefore)
            .build();
        let mut trust = Step::on(host, "registry.trust", "Trust the registry")
            .ensure(Dir { path: "/etc/containerd/certs.d".to_owned(), mode: 0o755 })
            .ensure(File {
                path: "/etc/containerd/certs.d/ca.crt".to_owned(),
                content: Content::Slot { slot: SlotName("ca".to_owned()) },
                mode: 0o644,
            })
            .after(&runtime.id)
            .undo(Undo::RestoreBefore);
        if let Some(last) = &last {
            trust = trust.after(last);
        }
        let trust = trust.build();
        last = Some(trust.id.clone());
        plan.steps.extend([os, runtime, trust]);
    }
    checked(plan)
}

pub fn checked(plan: Plan) -> CheckedPlan {
    lint::check(plan).expect("the plan passes the lint").0
}

/// The one blob there is.
pub struct OneBlob;

#[async_trait]
impl BlobSource for OneBlob {
    async fn open(&self, _: Digest, offset: u64) -> std::io::Result<Box<dyn tokio::io::AsyncRead + Send + Unpin>> {
        Ok(Box::new(&BLOB[offset as usize..]))
    }
}

/// A controller: its folders, and the fleet it works on.
pub struct Site {
    pub folder: tempfile::TempDir,
    pub fleet: SimFleet,
    pub pki: ClusterPki,
    pub options: ExecuteOptions,
}

impl Site {
    pub fn new() -> Self {
        Self::with(["a", "b"])
    }

    /// A controller of these hosts. Nothing is rolled back unless a test says so.
    pub fn with<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let pki = ClusterPki::open(&folder.path().join("pki")).expect("a pki folder");
        let mut options = ExecuteOptions::new("kubexm-install 0.0.0", "kubexm-install resume here");
        options.on_failure = OnFailure::Keep;
        options.poll = Duration::from_millis(1);
        options.backoff = Duration::from_millis(1);
        Self { folder, fleet: SimFleet::new(hosts), pki, options }
    }

    pub fn runs(&self) -> std::path::PathBuf {
        self.folder.path().join("runs")
    }

    pub fn create(&self, plan: &CheckedPlan) -> Run {
        Run::create(&self.runs(), RunId::named("one"), plan).expect("a run folder")
    }

    pub fn load(&self) -> Result<(Run, CheckedPlan), EngineError> {
        let belongs = Belongs { cluster: Digest::of(CLUSTER), bundle: Some(Digest::of(BUNDLE)) };
        Run::load(&self.runs(), &RunId::named("one"), belongs)
    }

    pub async fn execute(
        &self,
        plan: &CheckedPlan,
        run: &mut Run,
        events: &dyn EventSink,
    ) -> Result<Outcome, EngineError> {
        execute(plan, &self.fleet.links(), run, &self.pki, &OneBlob, events, self.options.clone()).await
    }

    pub async fn rollback(&self, events: &dyn EventSink) -> Result<Outcome, EngineError> {
        let (mut run, plan) = self.load()?;
        roll_back(&plan, &self.fleet.links(), &mut run, events, self.options.clone()).await
    }

    pub fn status(&self) -> Status {
        run::read_status(&self.runs(), &RunId::named("one")).expect("a status")
    }

    pub fn report(&self) -> String {
        run::read_report(&self.runs(), &RunId::named("one")).expect("a report")
    }

    pub fn records(&self) -> Vec<Record> {
        let entries = Journal::read(&self.runs().join("one/journal.jsonl")).expect("a journal");
        entries.into_iter().map(|entry| entry.record).collect()
    }

    pub async fn resume(&self, events: &dyn EventSink) -> Result<Outcome, EngineError> {
        let (mut run, plan) = self.load()?;
        self.execute(&plan, &mut run, events).await
    }
}

/// Ends a run at a record of this attempt, counted from 1.
pub struct StopAt {
    pub before: bool,
    pub nth: usize,
    seen: AtomicUsize,
}

impl StopAt {
    pub fn new(before: bool, nth: usize) -> Arc<Self> {
        Arc::new(Self { before, nth, seen: AtomicUsize::new(0) })
    }
}

impl Hook for StopAt {
    fn before_record(&self, _: usize, _: &Record) -> bool {
        let now = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        !(self.before && now == self.nth)
    }

    fn after_record(&self, _: usize, _: &Record) -> bool {
        self.before || self.seen.load(Ordering::SeqCst) != self.nth
    }
}
