//! Taking a run back on a simulated fleet: whole, after crashes, stuck and fixed, and up to what is irreversible.

#![allow(clippy::expect_used, reason = "a test that cannot set itself up has failed")]

use crate::common::{Site, StopAt, checked, fleet, plan};
use fleet::id;
use kubexm_engine::events::{Recorder, Silent};
use kubexm_engine::journal::{Record, Scope};
use kubexm_engine::replay::{RunState, StepState};
use kubexm_engine::sim::Failure;
use kubexm_engine::{Drill, EngineError, OnFailure, Outcome};
use kubexm_plan::{Undo, Wave};
use kubexm_spec::ExitCode;
use kubexm_spec::event::{EventKind, StepOutcome};

fn site() -> Site {
    let mut site = Site::with(["cp", "w1", "w2", "w3"]);
    site.options.on_failure = OnFailure::Rollback;
    site
}

#[tokio::test]
async fn a_failure_at_any_converge_restores_every_host() {
    let plan = checked(fleet::plan(&["w1", "w2"]));
    let counted = site();
    counted.execute(&plan, &mut counted.create(&plan), &Silent).await.expect("a run");
    for nth in 1..=counted.fleet.converges() {
        for failure in [Failure::Before(nth), Failure::After(nth)] {
            let site = site();
            let before = site.fleet.snapshot();
            site.fleet.fail_at(failure);
            let outcome = site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
            assert_eq!(outcome, Outcome::RolledBack, "{failure:?}\n{}", site.report());
            assert_eq!(site.fleet.snapshot(), before, "{failure:?}");
        }
    }
}

#[tokio::test]
async fn waves_are_global_and_go_against_the_order_of_the_plan() {
    let (site, plan) = (site(), checked(fleet::plan(&["w1", "w2"])));
    assert_eq!(site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run"), Outcome::Succeeded);
    assert_eq!(site.rollback(&Silent).await.expect("a rollback"), Outcome::RolledBack);
    let records = site.records();
    let waves: Vec<Wave> =
        records.iter().filter_map(|r| if let Record::WaveDone { wave, .. } = r { Some(*wave) } else { None }).collect();
    assert!(waves.is_sorted(), "a wave began before the one before it was over: {waves:?}");
    let at = |name: &str, wave: Wave| {
        let wanted = Record::WaveDone { step: id(name), wave };
        records.iter().position(|record| *record == wanted).unwrap_or_else(|| panic!("{wanted:?} is missing"))
    };
    for wave in Wave::ALL {
        assert!(at("w1/kubernetes.join", wave) < at("cp/kubernetes.init", wave));
        assert!(at("w1/kubernetes.join", wave) < at("w1/os.runtime", wave));
        assert!(at("cp/kubernetes.init", wave) < at("cp/os.runtime", wave));
    }
    let label = |wave| records.contains(&Record::WaveDone { step: id("cp/labels.w1"), wave });
    assert!(!label(Wave::Stop) && label(Wave::Start), "what dies with its parent is only noted as rolled back");
}

#[tokio::test]
async fn succeeded_kept_and_interrupted_runs_can_be_rolled_back_and_not_resumed_after() {
    let plan = checked(fleet::plan(&["w1"]));
    for end in [Outcome::Succeeded, Outcome::Failed, Outcome::Interrupted] {
        let mut site = site();
        let before = site.fleet.snapshot();
        site.options.on_failure = OnFailure::Keep;
        match end {
            Outcome::Failed => site.options.drill = Some(Drill::FailStep(id("w1/kubernetes.join"))),
            Outcome::Interrupted => site.options.hook = Some(std::sync::Arc::new(Cancel(site.options.cancel.clone()))),
            _ => {}
        }
        assert_eq!(site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run"), end);
        assert_ne!(site.fleet.snapshot(), before);
        site.options.hook = None;
        site.options.cancel = Default::default();
        let status = site.status();
        assert_eq!(status.roll_back.as_deref(), Some("kubexm-install rollback one"));
        assert_eq!(site.rollback(&Silent).await.expect("a rollback"), Outcome::RolledBack);
        assert_eq!(site.fleet.snapshot(), before);
        let status = site.status();
        assert_eq!((status.state, status.go_on, status.roll_back), (RunState::RolledBack, None, None));
        let refused = site.resume(&Silent).await.expect_err("rolled back");
        assert!(refused.to_string().contains("start a new one"), "{refused}");
        assert_eq!(refused.exit_code(), ExitCode::Usage);
        assert_eq!(site.rollback(&Silent).await.expect("nothing to do"), Outcome::RolledBack);
    }
}

/// Ctrl-C at the third record.
struct Cancel(tokio_util::sync::CancellationToken);

impl kubexm_engine::execute::Hook for Cancel {
    fn before_record(&self, nth: usize, _: &Record) -> bool {
        if nth == 4 {
            self.0.cancel();
        }
        true
    }

    fn after_record(&self, _: usize, _: &Record) -> bool {
        true
    }
}

#[tokio::test]
async fn a_rollback_resumed_after_a_crash_at_any_record_has_the_same_end() {
    let plan = checked(fleet::plan(&["w1", "w2"]));
    let whole = site();
    whole.execute(&plan, &mut whole.create(&plan), &Silent).await.expect("a run");
    let done = whole.records().len();
    whole.rollback(&Silent).await.expect("a rollback");
    let records = whole.records().len() - done;
    for nth in 1..=records {
        for before in [true, false] {
            let mut site = site();
            let fresh = site.fleet.snapshot();
            site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
            site.options.hook = Some(StopAt::new(before, nth));
            let stopped = site.rollback(&Silent).await;
            assert!(matches!(stopped, Err(EngineError::Stopped { .. })), "record {nth}: {stopped:?}");
            site.options.hook = None;
            // `resume` continues with the rollback as soon as it was announced; before that it finds a run that succeeded.
            let outcome = match nth {
                1 if before => site.rollback(&Silent).await,
                _ => site.resume(&Silent).await,
            };
            let rolled_back = outcome.or_else(|error| match error {
                EngineError::RolledBack { .. } => Ok(Outcome::RolledBack),
                other => Err(other),
            });
            assert_eq!(rolled_back.expect("the rest"), Outcome::RolledBack, "record {nth}");
            assert_eq!(site.fleet.snapshot(), fresh, "record {nth} (before: {before})");
        }
    }
}

#[tokio::test]
async fn a_controller_that_dies_at_any_record_can_be_rolled_back_by_the_next_one() {
    let plan = checked(fleet::plan(&["w1"]));
    let whole = site();
    whole.execute(&plan, &mut whole.create(&plan), &Silent).await.expect("a run");
    for nth in 1..whole.records().len() {
        let mut site = site();
        let before = site.fleet.snapshot();
        site.options.drill = Some(Drill::DieAtRecord(nth));
        let stopped = site.execute(&plan, &mut site.create(&plan), &Silent).await;
        assert!(matches!(stopped, Err(EngineError::Stopped { record }) if record == nth), "{stopped:?}");
        site.options.drill = None;
        assert_eq!(site.rollback(&Silent).await.expect("a rollback"), Outcome::RolledBack);
        assert_eq!(site.fleet.snapshot(), before, "record {nth}");
    }
}

#[tokio::test]
async fn a_failed_undo_leaves_the_run_stuck_with_a_command_that_resumes_the_rollback() {
    let (mut site, plan) = (site(), checked(fleet::plan(&["w1"])));
    let before = site.fleet.snapshot();
    site.options.rollback_command = "kubexm-install rollback one --bundle x".to_owned();
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
    let undos = {
        let counted = self::site();
        counted.execute(&plan, &mut counted.create(&plan), &Silent).await.expect("a run");
        counted.rollback(&Silent).await.expect("a rollback");
        counted.fleet.undos()
    };
    for nth in 1..=undos {
        let site = {
            let site = self::site();
            site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
            site
        };
        site.fleet.fail_at(Failure::Undo(nth));
        assert_eq!(site.rollback(&Silent).await.expect("a rollback"), Outcome::Stuck, "undo {nth}");
        assert_eq!(site.resume(&Silent).await.expect("the rest"), Outcome::RolledBack, "undo {nth}");
        assert_eq!(site.fleet.snapshot(), before, "undo {nth}");
    }
    site.fleet.disconnect("w1");
    let outcome = site.rollback(&Silent).await.expect("a rollback");
    assert_eq!((outcome, outcome.exit_code()), (Outcome::Stuck, ExitCode::RunStuck));
    let status = site.status();
    assert_eq!(status.state, RunState::Stuck);
    assert_eq!(status.go_on.as_deref(), Some("kubexm-install rollback one --bundle x"));
    let stuck = status.undo.and_then(|undo| undo.stuck).expect("why it is stuck");
    assert!(stuck.contains("w1/kubernetes.join") && stuck.contains("cannot reach w1"), "{stuck}");
    assert_eq!(site.fleet.snapshot()["(cluster)"]["initialised"], "cp", "what w1 builds on is still there");
    let report = site.report();
    for text in ["kubexm-install rollback one --bundle x", "## What could not be rolled back", "cannot reach w1"] {
        assert!(report.contains(text), "{text:?} is missing in:\n{report}");
    }
    site.fleet.reconnect("w1");
    assert_eq!(site.rollback(&Silent).await.expect("the rest"), Outcome::RolledBack);
    assert_eq!(site.fleet.snapshot(), before);
}

#[tokio::test]
async fn lost_hosts_can_be_skipped_and_are_rolled_back_when_they_return() {
    let (mut site, plan) = (site(), checked(fleet::plan(&["w1", "w2"])));
    let before = site.fleet.snapshot();
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
    let whole = site.fleet.snapshot();
    site.fleet.disconnect("w1");
    assert_eq!(site.rollback(&Silent).await.expect("a rollback"), Outcome::Stuck);
    assert_eq!(site.fleet.snapshot()["(cluster)"]["initialised"], "cp", "nobody said to continue without w1");

    site.options.skip_unreachable = true;
    assert_eq!(site.rollback(&Silent).await.expect("a rollback"), Outcome::Stuck);
    let now = site.fleet.snapshot();
    for host in ["cp", "w2", "(cluster)"] {
        assert_eq!(now[host], before[host], "{host} was held up by w1");
    }
    assert_eq!(now["w1"], whole["w1"], "nobody reached it");
    let stuck = site.status().undo.and_then(|undo| undo.stuck).expect("why it is stuck");
    assert!(stuck.starts_with("w1 is left as before the rollback") && stuck.contains("cannot reach w1"), "{stuck}");

    site.fleet.reconnect("w1");
    assert_eq!(site.rollback(&Silent).await.expect("the rest"), Outcome::RolledBack);
    assert_eq!(site.fleet.snapshot(), before);
}

#[tokio::test]
async fn a_host_lost_during_a_rollback_does_not_stop_the_others_if_skipped() {
    let plan = checked(fleet::plan(&["w1", "w2"]));
    let undos = {
        let counted = site();
        counted.execute(&plan, &mut counted.create(&plan), &Silent).await.expect("a run");
        counted.rollback(&Silent).await.expect("a rollback");
        counted.fleet.undos()
    };
    for nth in 1..=undos {
        let mut site = site();
        let before = site.fleet.snapshot();
        site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
        site.options.skip_unreachable = true;
        site.options.hook = Some(std::sync::Arc::new(Lose { fleet: site.fleet.clone(), host: "w1", after: nth }));
        let outcome = site.rollback(&Silent).await.expect("a rollback");
        let now = site.fleet.snapshot();
        for host in ["cp", "w2", "(cluster)"] {
            assert_eq!(now[host], before[host], "{host} was held up after undo {nth}");
        }
        site.fleet.reconnect("w1");
        site.options.hook = None;
        if outcome != Outcome::RolledBack {
            assert_eq!(site.rollback(&Silent).await.expect("the rest"), Outcome::RolledBack, "undo {nth}");
        }
        assert_eq!(site.fleet.snapshot(), before, "undo {nth}");
    }
}

/// A host that nothing reaches any more after so many waves of steps.
struct Lose {
    fleet: kubexm_engine::sim::SimFleet,
    host: &'static str,
    after: u64,
}

impl kubexm_engine::execute::Hook for Lose {
    fn before_record(&self, _: usize, _: &Record) -> bool {
        true
    }

    fn after_record(&self, _: usize, record: &Record) -> bool {
        if matches!(record, Record::WaveDone { .. }) && self.fleet.undos() >= self.after {
            self.fleet.disconnect(self.host);
        }
        true
    }
}

#[tokio::test]
async fn nothing_before_an_irreversible_change_is_touched_and_the_run_says_why() {
    let (site, mut plan) = (site(), fleet::plan(&["w1"]));
    for step in plan.steps.iter_mut().filter(|step| step.id == id("cp/kubernetes.init")) {
        step.undo = Undo::Irreversible { why: "etcd has only one member".to_owned() };
    }
    let plan = checked(plan);
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
    let whole = site.fleet.snapshot();
    assert_eq!(site.rollback(&Silent).await.expect("a rollback"), Outcome::Stuck);
    let now = site.fleet.snapshot();
    assert_eq!(now["cp"], whole["cp"], "it lies before what cannot be rolled back");
    assert_eq!(now["w1"]["swap"], "on", "it does not");
    let status = site.status();
    let stuck = status.undo.and_then(|undo| undo.stuck).expect("why it is stuck");
    assert!(stuck.contains("cp/kubernetes.init") && stuck.contains("etcd has only one member"), "{stuck}");
    assert!(site.report().contains("etcd has only one member"));
}

#[tokio::test]
async fn a_change_below_a_parent_of_an_earlier_run_is_rolled_back_alone() {
    let (site, plan) = (site(), checked(fleet::plan(&["w1"])));
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("the first run");
    site.fleet.set_state("(cluster)", "label:w1:role", "other");
    let fixed = site.fleet.snapshot();
    let id = kubexm_engine::RunId::named("two");
    let mut second = kubexm_engine::Run::create(&site.runs(), id, &plan).expect("a run folder");
    assert_eq!(site.execute(&plan, &mut second, &Silent).await.expect("the second run"), Outcome::Succeeded);
    assert_ne!(site.fleet.snapshot(), fixed);
    let links = site.fleet.links();
    let outcome = kubexm_engine::roll_back(&plan, &links, &mut second, &Silent, site.options.clone()).await;
    assert_eq!(outcome.expect("a rollback"), Outcome::RolledBack);
    assert_eq!(site.fleet.snapshot(), fixed, "the first run's changes are not the second's to roll back");
}

#[tokio::test]
async fn evidence_is_kept_before_anything_is_rolled_back() {
    let (mut site, plan, events) = (site(), plan(), Recorder::default());
    site.fleet = kubexm_engine::sim::SimFleet::new(["a", "b"]);
    site.options.drill = Some(Drill::FailStep(id("a/containerd.run")));
    let mut run = site.create(&plan);
    let outcome = site.execute(&plan, &mut run, &events).await.expect("a run");
    assert_eq!((outcome, outcome.exit_code()), (Outcome::RolledBack, ExitCode::RunFailed));
    let evidence = std::fs::read_to_string(run.dir().join("evidence/a/state.txt")).expect("evidence");
    assert!(evidence.contains("unit:containerd.service = enabled running"), "{evidence}");
    assert_eq!(run.replay().step(&id("a/containerd.run")).state, StepState::Undone);
    let undone = |event: &kubexm_spec::event::Event| {
        matches!(&event.kind, EventKind::StepEnded { outcome: StepOutcome::Undone, .. })
    };
    assert_eq!(events.events().iter().filter(|event| undone(event)).count(), site.status().counts.undone);
    let report = site.report();
    for text in ["a/containerd.run failed", "rolled back", "drill"] {
        assert!(report.contains(text), "{text:?} is missing in:\n{report}");
    }
}

#[tokio::test]
async fn a_run_with_two_failures_at_once_names_the_scope_that_was_rolled_back() {
    let (site, plan) = (site(), checked(fleet::plan(&["w1", "w2"])));
    site.fleet.fail_at(Failure::After(3));
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
    let whole = |record: &Record| matches!(record, Record::UndoBegan { scope: Scope::Run, .. });
    assert_eq!(site.records().iter().filter(|record| whole(record)).count(), 1);
}

#[tokio::test]
async fn an_interrupted_rollback_is_resumed_as_a_rollback() {
    let (mut site, plan) = (site(), checked(fleet::plan(&["w1"])));
    let before = site.fleet.snapshot();
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
    site.options.cancel.cancel();
    assert_eq!(site.rollback(&Silent).await.expect("a rollback"), Outcome::Interrupted);
    let status = site.status();
    assert_eq!(status.state, RunState::RollingBack);
    assert_eq!(status.go_on.as_deref(), Some("kubexm-install rollback one"));
    site.options.cancel = Default::default();
    assert_eq!(site.resume(&Silent).await.expect("the rest"), Outcome::RolledBack);
    assert_eq!(site.fleet.snapshot(), before);
}
