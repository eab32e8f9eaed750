//! The laws of every pipeline, over any kind of fleet.
//!
//! Law 2: a crash at any journal record resumes to the same end. Law 4: a second run changes nothing.

#![allow(clippy::expect_used, clippy::panic, reason = "a law that does not hold fails the test")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kubexm_engine::events::{Recorder, Silent};
use kubexm_engine::execute::{Hook, Links};
use kubexm_engine::journal::Record;
use kubexm_engine::sim::Snapshot;
use kubexm_engine::{
    Belongs, ClusterPki, EngineError, EventSink, ExecuteOptions, OnFailure, Outcome, Run, RunId, execute, resume,
};
use kubexm_plan::{CheckedPlan, Plan};
use kubexm_recipes::{PlanCx, RecipeError};
use kubexm_spec::event::{EventKind, StepOutcome};

use crate::synthetic::SyntheticBundle;

/// Every run has this name, in a folder of its case's own: hosts remember it, and their ends are compared.
const RUN: &str = "run";

/// A pipeline by its function.
#[derive(Clone, Copy)]
pub struct Pipeline {
    /// Its name.
    pub name: &'static str,
    /// What plans it.
    pub plan: fn(&PlanCx<'_>) -> Result<Plan, RecipeError>,
}

/// Hosts on which a plan can be carried out, as often as wanted.
pub trait Fleet {
    /// Links to its hosts.
    fn links(&self) -> Links;
    /// Everything that is so on the hosts, without logs, ledger times, /run and what is random by nature.
    fn snapshot(&self) -> Snapshot;
    /// Changes so far; a second run must make none.
    fn converges(&self) -> u64;
    /// Fails the n-th converge from now on, once: before it has changed anything, or after.
    fn fail_at(&mut self, before: bool, nth: u64);
    /// What must hold at rest and does not.
    fn broken_invariants(&self) -> Vec<String>;
}

/// One plan, its bundle, and a controller to carry it out from.
pub struct Case<'a> {
    /// Of the bundle.
    pub bundle: &'a SyntheticBundle,
    /// What is carried out.
    pub plan: &'a CheckedPlan,
    /// The controller's folder; the certificates in it are the same for every fleet.
    pub controller: &'a tempfile::TempDir,
}

struct StopAt {
    before: bool,
    nth: usize,
    seen: AtomicUsize,
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

impl Case<'_> {
    /// Law 2 by crashes: at every record, before and after it reaches the disk.
    pub async fn a_crash_at_any_record_resumes_to_the_same_end<F: Fleet>(&self, fresh: impl Fn() -> F) {
        let (end, records) = self.uninterrupted(&fresh).await;
        for nth in 1..=records {
            for before in [true, false] {
                let fleet = fresh();
                let id = format!("crash-{before}-{nth}");
                let hook = StopAt { before, nth, seen: AtomicUsize::new(0) };
                let stopped = self.run(&fleet, &id, &Silent, Some(Arc::new(hook))).await;
                assert!(matches!(stopped, Err(EngineError::Stopped { .. })), "record {nth}: {stopped:?}");
                let outcome = self.resume(&fleet, &id).await;
                assert_eq!(outcome, Outcome::Succeeded, "resumed after a crash at record {nth} (before: {before})");
                self.same_end(&fleet, &end, &format!("a crash at record {nth} (before: {before})"));
            }
        }
    }

    /// Law 2 by failures: of every converge, before and after it has changed something.
    pub async fn a_failure_of_any_converge_resumes_to_the_same_end<F: Fleet>(&self, fresh: impl Fn() -> F) {
        let fleet = fresh();
        let id = "count";
        self.run(&fleet, id, &Silent, None).await.expect("an uninterrupted run");
        let (end, converges) = (fleet.snapshot(), fleet.converges());
        for nth in 1..=converges {
            for before in [true, false] {
                let mut fleet = fresh();
                fleet.fail_at(before, nth);
                let id = format!("fail-{before}-{nth}");
                // A step with retries mends itself; any other is resumed.
                match self.run(&fleet, &id, &Silent, None).await.expect("the engine goes on") {
                    Outcome::Failed => assert_eq!(self.resume(&fleet, &id).await, Outcome::Succeeded, "converge {nth}"),
                    outcome => assert_eq!(outcome, Outcome::Succeeded, "converge {nth}"),
                }
                self.same_end(&fleet, &end, &format!("a failure of converge {nth} (before: {before})"));
            }
        }
    }

    /// Law 2 inside an Act: `broken` is a fleet whose first run ends half-way through one.
    pub async fn a_half_done_act_resumes_to_the_same_end<F: Fleet>(&self, fresh: impl Fn() -> F, broken: F) {
        let (end, _) = self.uninterrupted(&fresh).await;
        let outcome = self.run(&broken, "half-done", &Silent, None).await.expect("the engine goes on");
        assert_eq!(outcome, Outcome::Failed, "the act was to end half-way");
        assert_eq!(self.resume(&broken, "half-done").await, Outcome::Succeeded);
        self.same_end(&broken, &end, "an act that ended half-way");
    }

    /// Law 4: every step of a second run is satisfied, and hosts and journal show no change.
    pub async fn a_second_run_changes_nothing<F: Fleet>(&self, fresh: impl Fn() -> F) {
        let fleet = fresh();
        let first = self.run(&fleet, "first", &Silent, None).await.expect("the first run");
        assert_eq!(first, Outcome::Succeeded, "{}", self.report("first"));
        let before = (fleet.snapshot(), fleet.converges());
        let events = Recorder::default();
        assert_eq!(self.run(&fleet, "second", &events, None).await.expect("the second run"), Outcome::Succeeded);
        for event in events.events() {
            if let EventKind::StepEnded { step, outcome, .. } = event.kind {
                assert_eq!(outcome, StepOutcome::Satisfied, "{step}");
            }
        }
        let journal = std::fs::read_to_string(self.runs("second").join(RUN).join("journal.jsonl")).expect("a journal");
        assert!(!journal.contains("stepPrepared"), "the second run prepared a change");
        assert_eq!((fleet.snapshot(), fleet.converges()), before);
    }

    async fn uninterrupted<F: Fleet>(&self, fresh: &impl Fn() -> F) -> (Snapshot, usize) {
        let fleet = fresh();
        let outcome = self.run(&fleet, "uninterrupted", &Silent, None).await.expect("an uninterrupted run");
        assert_eq!(outcome, Outcome::Succeeded, "{}", self.report("uninterrupted"));
        assert_eq!(fleet.broken_invariants(), Vec::<String>::new());
        let journal =
            std::fs::read_to_string(self.runs("uninterrupted").join(RUN).join("journal.jsonl")).expect("a journal");
        (fleet.snapshot(), journal.lines().count())
    }

    fn same_end(&self, fleet: &impl Fleet, end: &Snapshot, after: &str) {
        assert_eq!(fleet.broken_invariants(), Vec::<String>::new(), "after {after}");
        let found = fleet.snapshot();
        for (host, wanted) in end {
            let here = found.get(host).expect("the same hosts");
            for key in wanted.keys().chain(here.keys()) {
                assert_eq!(here.get(key), wanted.get(key), "{host}: {key} after {after}");
            }
        }
    }

    async fn run(
        &self,
        fleet: &impl Fleet,
        case: &str,
        events: &dyn EventSink,
        hook: Option<Arc<dyn Hook>>,
    ) -> Result<Outcome, EngineError> {
        let mut run = Run::create(&self.runs(case), RunId::named(RUN), self.plan)?;
        execute(self.plan, &fleet.links(), &mut run, &self.pki(), self.bundle, events, options(hook)).await
    }

    async fn resume(&self, fleet: &impl Fleet, case: &str) -> Outcome {
        let plan = self.plan.plan();
        let belongs = Belongs { cluster: plan.cluster, bundle: plan.bundle };
        let (runs, links, pki) = (self.runs(case), fleet.links(), self.pki());
        let resumed =
            resume(&runs, &RunId::named(RUN), belongs, &links, &pki, self.bundle, &Silent, options(None)).await;
        match resumed {
            Ok((outcome, _)) => outcome,
            Err(error) => panic!("run {case} cannot be resumed: {error}"),
        }
    }

    fn pki(&self) -> ClusterPki {
        ClusterPki::open(&self.controller.path().join("pki")).expect("a pki folder")
    }

    fn report(&self, case: &str) -> String {
        std::fs::read_to_string(self.runs(case).join(RUN).join("report.md")).unwrap_or_default()
    }

    fn runs(&self, case: &str) -> PathBuf {
        self.controller.path().join("runs").join(case)
    }
}

/// A folder in memory where there is one: the laws sync some ten thousand times, which a disk makes minutes of.
pub fn scratch() -> tempfile::TempDir {
    let memory = tempfile::Builder::new().prefix("kubexm-laws-").tempdir_in("/dev/shm");
    memory.or_else(|_| tempfile::tempdir()).expect("a folder")
}

fn options(hook: Option<Arc<dyn Hook>>) -> ExecuteOptions {
    let mut options = ExecuteOptions::new("laws", "resume");
    options.on_failure = OnFailure::Keep;
    options.poll = Duration::from_millis(1);
    options.backoff = Duration::from_millis(1);
    options.hook = hook;
    options
}
