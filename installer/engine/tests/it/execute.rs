//! Carrying a plan out on a simulated fleet.

#![allow(clippy::expect_used, reason = "a test that cannot set itself up has failed")]

use std::sync::{Arc, Mutex, PoisonError};

use crate::common::{OneBlob, Site, StopAt, checked, plan};
use kubexm_engine::events::{Recorder, Silent};
use kubexm_engine::execute::Hook;
use kubexm_engine::journal::Record;
use kubexm_engine::replay::{RunState, StepState};
use kubexm_engine::sim::Failure;
use kubexm_engine::{EngineError, EventSink, Outcome, execute, run};
use kubexm_plan::op::Depots;
use kubexm_plan::{Op, Probe, Step, StepId, Undo};
use kubexm_spec::cluster::RuntimeKind;
use kubexm_spec::event::{Event, EventKind, StepOutcome};
use kubexm_spec::{Digest, ExitCode};

fn outcomes(recorder: &Recorder) -> Vec<(String, StepOutcome)> {
    let ended = |kind| match kind {
        EventKind::StepEnded { step, outcome, .. } => Some((step, outcome)),
        _ => None,
    };
    recorder.events().into_iter().filter_map(|event| ended(event.kind)).collect()
}

#[tokio::test]
async fn a_plan_is_executed_completely_in_the_order_of_its_edges() {
    let (site, plan, events) = (Site::new(), plan(), Recorder::default());
    let mut run = site.create(&plan);
    assert_eq!(site.execute(&plan, &mut run, &events).await.expect("a run"), Outcome::Succeeded);

    let order: Vec<String> = outcomes(&events).into_iter().map(|(step, _)| step).collect();
    assert_eq!(order.len(), plan.plan().steps.len());
    let at = |id: &str| order.iter().position(|s| s == id).expect(id);
    for step in &plan.plan().steps {
        for before in &step.after {
            assert!(at(&before.0) < at(&step.id.0), "{before} must end before {}", step.id);
        }
    }
    assert_eq!(run.replay().state, RunState::Succeeded);
    assert_eq!(site.fleet.broken_invariants(), Vec::<String>::new());
    assert!(run.dir().join("logs/a/containerd.run.log").is_file());
}

#[tokio::test]
async fn a_second_run_finds_every_step_satisfied_and_changes_nothing() {
    let (site, plan) = (Site::new(), plan());
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("first run");
    let before = (site.fleet.snapshot(), site.fleet.converges());
    let mut second = run::Run::create(&site.runs(), run::RunId::named("two"), &plan).expect("a run folder");
    let events = Recorder::default();
    site.execute(&plan, &mut second, &events).await.expect("second run");
    assert!(outcomes(&events).iter().all(|(_, outcome)| *outcome == StepOutcome::Satisfied), "{:?}", outcomes(&events));
    assert_eq!((site.fleet.snapshot(), site.fleet.converges()), before);
}

#[tokio::test]
async fn a_second_run_surveys_each_host_once() {
    let (site, plan) = (Site::new(), plan());
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("first run");
    let before = site.fleet.observations();
    let mut second = run::Run::create(&site.runs(), run::RunId::named("two"), &plan).expect("a run folder");
    site.execute(&plan, &mut second, &Silent).await.expect("second run");
    assert_eq!(site.fleet.observations(), before);
}

/// What a change on a host takes along: when the step is done, a file of another step is another one.
struct TakesAlong(kubexm_engine::sim::SimFleet);

impl Hook for TakesAlong {
    fn before_record(&self, _: usize, _: &Record) -> bool {
        true
    }

    fn after_record(&self, _: usize, record: &Record) -> bool {
        if matches!(record, Record::StepDone { step, .. } if step.0 == "a/os.swap") {
            self.0.set_state("a", "path:/etc/containerd/config.toml", "file 0644 of somebody else");
        }
        true
    }
}

#[tokio::test]
async fn the_survey_is_not_trusted_after_the_first_change() {
    let (mut site, plan) = (Site::new(), plan());
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("first run");
    let whole = site.fleet.snapshot();
    site.fleet.set_state("a", "swap", "on");
    site.options.hook = Some(Arc::new(TakesAlong(site.fleet.clone())));
    let mut second = run::Run::create(&site.runs(), run::RunId::named("two"), &plan).expect("a run folder");
    let events = Recorder::default();
    assert_eq!(site.execute(&plan, &mut second, &events).await.expect("second run"), Outcome::Succeeded);
    let done = |step: &str| outcomes(&events).contains(&(step.to_owned(), StepOutcome::Done));
    assert!(done("a/os.swap") && done("a/containerd.run"), "{:?}", outcomes(&events));
    assert_eq!(
        site.fleet.snapshot()["a"]["path:/etc/containerd/config.toml"],
        whole["a"]["path:/etc/containerd/config.toml"]
    );
}

#[tokio::test]
async fn a_failed_step_blocks_its_descendants_only_and_evidence_is_kept() {
    let (site, plan) = (Site::new(), plan());
    // The second converge is b's first: hosts take turns.
    site.fleet.fail_at(Failure::Before(2));
    let mut run = site.create(&plan);
    let outcome = site.execute(&plan, &mut run, &Silent).await.expect("a run");
    assert_eq!((outcome, outcome.exit_code()), (Outcome::Failed, ExitCode::RunFailed));
    let state = |id: &str| run.replay().step(&StepId(id.to_owned())).state;
    assert_eq!(state("b/os.swap"), StepState::Failed);
    assert_eq!(state("b/containerd.run"), StepState::Blocked);
    assert_eq!(state("b/registry.trust"), StepState::Blocked);
    assert_eq!(state("a/registry.trust"), StepState::Done);
    assert!(run.dir().join("evidence/b/state.txt").is_file());
    assert!(!run.dir().join("evidence/a").exists());
    let report = std::fs::read_to_string(run.dir().join("report.md")).expect("a report");
    for text in ["kubexm-install resume here", "injected failure", "evidence/b/state.txt", "| b | os.swap |"] {
        assert!(report.contains(text), "{text:?} is missing in:\n{report}");
    }
    assert_eq!(site.resume(&Silent).await.expect("the resumed run"), Outcome::Succeeded);
}

#[tokio::test]
async fn a_step_with_retries_survives_one_failure_and_keeps_its_first_before_state() {
    let (site, mut plan) = (Site::new(), plan().plan().clone());
    plan.steps.iter_mut().for_each(|step| step.retries = 1);
    let plan = checked(plan);
    site.fleet.fail_at(Failure::After(1));
    let mut run = site.create(&plan);
    assert_eq!(site.execute(&plan, &mut run, &Silent).await.expect("a run"), Outcome::Succeeded);
    let story = run.replay().step(&StepId("a/os.swap".to_owned()));
    let (_, before) = story.before.expect("a before-state");
    assert_eq!(before[0].raw()["host"]["swap"], "on");
    assert_eq!(story.state, StepState::Done);
}

#[tokio::test]
async fn the_before_state_of_a_half_changed_step_survives_a_crash_and_a_resume() {
    let (mut site, plan) = (Site::new(), plan());
    // Records: 1 RunStarted, 2 and 3 StepPrepared, 4 the first StepDone, which is not written.
    site.options.hook = Some(StopAt::new(true, 4));
    let stopped = site.execute(&plan, &mut site.create(&plan), &Silent).await;
    assert!(matches!(stopped, Err(EngineError::Stopped { .. })));
    assert_eq!(site.fleet.snapshot()["a"]["swap"], "off", "the change was made");
    site.options.hook = None;
    assert_eq!(site.resume(&Silent).await.expect("the resumed run"), Outcome::Succeeded);
    let (run, _) = site.load().expect("the run");
    let story = run.replay().step(&StepId("a/os.swap".to_owned()));
    assert_eq!(story.before.expect("a before-state").1[0].raw()["host"]["swap"], "on");
    let status = run::read_status(&site.runs(), run.id()).expect("a status");
    assert_eq!(status.steps[0].state, StepState::Done, "this run changed it, whichever attempt saw it hold");
}

#[tokio::test]
async fn a_done_step_that_no_longer_holds_is_converged_again_on_resume() {
    let (site, plan) = (Site::new(), plan());
    site.fleet.fail_at(Failure::Before(3));
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a failed run");
    site.fleet.set_state("a", "swap", "on");
    assert_eq!(site.resume(&Silent).await.expect("the resumed run"), Outcome::Succeeded);
    assert_eq!(site.fleet.snapshot()["a"]["swap"], "off");
}

#[tokio::test]
async fn a_report_names_a_log_only_if_there_is_one() {
    let (site, plan) = (Site::new(), plan());
    site.fleet.fail_at(Failure::Before(1));
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a failed run");
    let failed = site.status().steps.into_iter().find(|step| step.failed()).expect("a failed step");
    let log = format!("logs/{}.log", failed.step);
    let report = site.report();
    assert!(report.contains(&format!("Log: `{log}`")), "{report}");
    std::fs::remove_file(site.runs().join("one").join(log)).expect("the log");
    let report = site.report();
    assert!(report.contains("## What failed") && !report.contains("Log:"), "{report}");
}

#[tokio::test]
async fn after_an_interrupt_no_step_starts_and_the_run_can_be_resumed() {
    let (mut site, plan) = (Site::new(), plan());
    site.options.cancel.cancel();
    let mut run = site.create(&plan);
    assert_eq!(site.execute(&plan, &mut run, &Silent).await.expect("a run"), Outcome::Interrupted);
    assert_eq!(site.fleet.converges(), 0);
    drop(run);
    site.options.cancel = Default::default();
    assert_eq!(site.resume(&Silent).await.expect("the resumed run"), Outcome::Succeeded);
}

#[tokio::test]
async fn a_step_that_cannot_be_ordered_is_refused_before_anything_is_journalled() {
    let (site, mut plan) = (Site::new(), plan().plan().clone());
    plan.steps.push(
        Step::on("a", "odd.one", "Wait for nobody").after(&StepId("c/none".to_owned())).undo(Undo::Nothing).build(),
    );
    // The lint may see it first; the executor must see it in any case.
    if let Ok((plan, _)) = kubexm_plan::lint::check(plan) {
        let mut run = site.create(&plan);
        let refused = site.execute(&plan, &mut run, &Silent).await.expect_err("no order");
        assert_eq!(refused.exit_code(), ExitCode::PlanLint);
        assert_eq!(run.replay().records, 0);
    }
}

#[tokio::test]
async fn resuming_a_succeeded_run_changes_nothing() {
    let (site, plan) = (Site::new(), plan());
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
    let journal = site.runs().join("one/journal.jsonl");
    let before = std::fs::read(&journal).expect("a journal");
    assert_eq!(site.resume(&Silent).await.expect("nothing to do"), Outcome::Succeeded);
    assert_eq!(std::fs::read(&journal).expect("a journal"), before);
}

#[tokio::test]
async fn secrets_of_slots_never_reach_the_run_folder_or_the_events() {
    let (site, plan, events) = (Site::new(), plan(), Recorder::default());
    site.execute(&plan, &mut site.create(&plan), &events).await.expect("a run");
    let mut text = format!("{:?}", events.events());
    for file in ["journal.jsonl", "plan.json", "report.md"] {
        text += &std::fs::read_to_string(site.runs().join("one").join(file)).expect(file);
    }
    assert!(!text.contains("BEGIN"), "a PEM block is in it");
}

/// A bundle that must not be read.
struct NoBundle;

#[async_trait::async_trait]
impl kubexm_engine::link::BlobSource for NoBundle {
    async fn open(&self, digest: Digest, _: u64) -> std::io::Result<Box<dyn tokio::io::AsyncRead + Send + Unpin>> {
        Err(std::io::Error::other(format!("{digest} was asked of the bundle")))
    }
}

#[tokio::test]
async fn the_controller_sends_only_what_the_depots_do_not_have() {
    let mut plan = plan().plan().clone();
    for op in plan.steps.iter_mut().flat_map(|step| &mut step.ops) {
        if let Op::Blobs(blobs) = op {
            blobs.depots =
                Some(Depots { urls: vec!["https://a:5443".to_owned()], ca: "/ca.crt".to_owned(), login: None });
        }
    }
    let plan = checked(plan);
    for (in_depots, end) in [(true, Outcome::Succeeded), (false, Outcome::Failed)] {
        let site = Site::new();
        if in_depots {
            site.fleet.put_into_depots(Digest::of(crate::common::BLOB));
        }
        let (mut run, links) = (site.create(&plan), site.fleet.links());
        let outcome = execute(&plan, &links, &mut run, &site.pki, &NoBundle, &Silent, site.options.clone()).await;
        assert_eq!(outcome.expect("a run"), end, "in the depots: {in_depots}");
    }
}

#[tokio::test]
async fn a_failing_depot_is_reported_though_the_run_succeeds() {
    let mut plan = plan().plan().clone();
    for op in plan.steps.iter_mut().flat_map(|step| &mut step.ops) {
        if let Op::Blobs(blobs) = op {
            blobs.depots =
                Some(Depots { urls: vec!["https://a:5443".to_owned()], ca: "/ca.crt".to_owned(), login: None });
        }
    }
    let plan = checked(plan);
    let site = Site::new();
    site.fleet.depot_fails("depot https://a:5443: no answer for 25 s");
    let (mut run, links, reported) = (site.create(&plan), site.fleet.links(), Warnings::default());
    let outcome = execute(&plan, &links, &mut run, &site.pki, &OneBlob, &reported, site.options.clone()).await;
    assert_eq!(outcome.expect("a run"), Outcome::Succeeded);
    let reported = reported.0.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(reported.iter().any(|text| text.contains("https://a:5443: no answer for 25 s")), "{reported:?}");
}

/// Keeps what the operator is warned of.
#[derive(Default)]
struct Warnings(Mutex<Vec<String>>);

impl EventSink for Warnings {
    fn emit(&self, event: Event) {
        if let EventKind::Warning { text } = event.kind {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_waits_reports_its_host_and_what_it_sees_after_five_seconds() {
    let mut plan = plan().plan().clone();
    let probe = Probe::CriReady { runtime: RuntimeKind::Containerd, config_dump: Vec::new() };
    let waits = Step::on("a", "check.runtime", "Wait for the runtime").probe(probe, 20).timeout_s(30);
    plan.steps = vec![waits.undo(Undo::Nothing).build()];
    (plan.slots, plan.texts) = Default::default();
    let (site, plan, events) = (Site::new(), checked(plan), Recorder::default());
    let outcome = site.execute(&plan, &mut site.create(&plan), &events).await.expect("a run");
    assert_ne!(outcome, Outcome::Succeeded);
    let waits: Vec<(String, Option<String>, u64)> = events
        .events()
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::StepWaiting { host, seen, waited_s, .. } => Some((host, seen, waited_s)),
            _ => None,
        })
        .collect();
    let seen = Some("containerd.service does not run".to_owned());
    let wanted = [5, 10, 20].map(|at| ("a".to_owned(), seen.clone(), at));
    assert_eq!(waits, wanted, "{:?}", outcomes(&events));
}
