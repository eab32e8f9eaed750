//! Hosts that the run may continue without: rolled back alone, told, and tried again by `resume`.

#![allow(clippy::expect_used, reason = "a test that cannot set itself up has failed")]

use crate::common::{Site, StopAt, checked, fleet};
use fleet::id;
use kubexm_engine::events::{Recorder, Silent};
use kubexm_engine::journal::{Record, Scope};
use kubexm_engine::replay::{RunState, StepState};
use kubexm_engine::sim::{Failure, Snapshot};
use kubexm_engine::{Drill, EngineError, OnFailure, Outcome};
use kubexm_spec::ExitCode;
use kubexm_spec::event::{Event, EventKind, StepOutcome};

const WORKERS: [&str; 3] = ["w1", "w2", "w3"];

fn site(max_failed_hosts: usize) -> Site {
    let mut site = Site::with(["cp", "w1", "w2", "w3"]);
    site.options.on_failure = OnFailure::Rollback;
    site.options.max_failed_hosts = max_failed_hosts;
    site
}

async fn whole() -> Snapshot {
    let (site, plan) = (site(0), checked(fleet::plan(&WORKERS)));
    assert_eq!(site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run"), Outcome::Succeeded);
    site.fleet.snapshot()
}

#[tokio::test]
async fn one_bad_worker_is_rolled_back_alone_and_added_by_resume() {
    let (mut site, plan) = (site(1), checked(fleet::plan(&WORKERS)));
    let before = site.fleet.snapshot();
    site.options.drill = Some(Drill::FailStep(id("w2/kubernetes.join")));
    let mut run = site.create(&plan);
    let outcome = site.execute(&plan, &mut run, &Silent).await.expect("a run");
    assert_eq!((outcome, outcome.exit_code()), (Outcome::Partial, ExitCode::RunPartial));
    let now = site.fleet.snapshot();
    assert_eq!(now["w2"], before["w2"], "it is as it was before");
    assert!(!now["(cluster)"].contains_key("node:w2") && now["(cluster)"].contains_key("node:w3"));
    assert_eq!(now["(cluster)"]["label:cp:checked"], "yes", "what waits for it only to settle continued");
    assert!(run.dir().join("evidence/w2/state.txt").is_file());
    let state = |name: &str| run.replay().step(&id(name)).state;
    assert_eq!(state("w2/os.runtime"), StepState::Undone);
    assert_eq!(state("cp/labels.w2"), StepState::Blocked, "it is of w2's domain");

    let status = site.status();
    assert_eq!(status.state, RunState::Partial);
    assert_eq!(status.go_on.as_deref(), Some("kubexm-install resume here"));
    assert!(status.left_out.iter().all(|left| left.host == "w2" && left.rolled_back), "{:?}", status.left_out);
    let json = serde_json::to_value(&status).expect("JSON");
    assert_eq!(json["leftOut"][0]["host"], "w2");
    let report = site.report();
    for text in ["hosts left out", "w2/kubernetes.join failed", "as it was before", "kubexm-install resume here"] {
        assert!(report.contains(text), "{text:?} is missing in:\n{report}");
    }

    site.options.drill = None;
    assert_eq!(site.resume(&Silent).await.expect("the resumed run"), Outcome::Succeeded);
    assert_eq!(site.fleet.snapshot(), whole().await);
    assert_eq!(site.rollback(&Silent).await.expect("a rollback"), Outcome::RolledBack);
    assert_eq!(site.fleet.snapshot(), before, "the second try's changes are known to the rollback");
}

#[tokio::test]
async fn steps_that_wait_for_the_end_of_a_left_out_host_start_after_its_undo() {
    let (mut site, plan) = (site(1), checked(fleet::plan(&WORKERS)));
    site.options.drill = Some(Drill::FailStep(id("w2/kubernetes.join")));
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
    let records = site.records();
    let at = |wanted: &dyn Fn(&Record) -> bool| records.iter().position(wanted).expect("a record");
    let settled = at(&|r| matches!(r, Record::UndoEnded { scope: Scope::Host { host }, .. } if host == "w2"));
    let check = at(&|r| matches!(r, Record::StepPrepared { step, .. } if *step == id("cp/check.end")));
    assert!(settled < check, "{settled} {check}");
}

#[tokio::test]
async fn more_failed_workers_than_allowed_roll_the_whole_run_back() {
    for (max, state) in [(0, Outcome::RolledBack), (1, Outcome::Partial)] {
        let (mut site, plan) = (site(max), checked(fleet::plan(&WORKERS)));
        let before = site.fleet.snapshot();
        site.options.drill = Some(Drill::FailStep(id("w1/os.runtime")));
        assert_eq!(site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run"), state, "max {max}");
        if state == Outcome::RolledBack {
            assert_eq!(site.fleet.snapshot(), before);
        }
    }
}

#[tokio::test]
async fn unreachable_hosts_do_not_cause_a_rollback_of_others() {
    // Two workers where one may fail, and a control plane.
    for (cut, max) in [(&["w1", "w2"][..], 1), (&["cp"], 3)] {
        let (site, plan, events) = (site(max), checked(fleet::plan(&WORKERS)), Recorder::default());
        for host in cut {
            site.fleet.disconnect(host);
        }
        let outcome = site.execute(&plan, &mut site.create(&plan), &events).await.expect("a run");
        assert_eq!(outcome, Outcome::Failed, "{}", site.report());
        let texts: Vec<String> = events.events().into_iter().filter_map(warning).collect();
        assert!(texts.iter().any(|text| text.contains("what was done on the others is sound")), "{texts:?}");
        for host in cut {
            let watched = format!("{host} has been out of reach for 0 s");
            assert_eq!(texts.iter().filter(|text| text.starts_with(&watched)).count(), 1, "{texts:?}");
        }
        let error = failure(&events, cut[0]);
        assert!(error.contains("out of reach") || error.contains("cannot reach"), "{error}");
        for host in cut {
            site.fleet.reconnect(host);
        }
        assert_eq!(site.resume(&Silent).await.expect("a resumed run"), Outcome::Succeeded, "{}", site.report());
    }
}

fn warning(event: Event) -> Option<String> {
    match event.kind {
        EventKind::Warning { text } => Some(text),
        _ => None,
    }
}

/// The first failure of a step on this host.
fn failure(events: &Recorder, on: &str) -> String {
    let ended = events.events().into_iter().find_map(|event| match event.kind {
        EventKind::StepEnded { host, outcome: StepOutcome::Failed, error, .. } if host == on => error,
        _ => None,
    });
    ended.expect("a failed step")
}

#[tokio::test]
async fn a_failed_required_host_rolls_the_whole_run_back() {
    let (mut site, plan) = (site(3), checked(fleet::plan(&WORKERS)));
    let before = site.fleet.snapshot();
    site.options.drill = Some(Drill::FailStep(id("cp/check.end")));
    assert_eq!(site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run"), Outcome::RolledBack);
    assert_eq!(site.fleet.snapshot(), before);
}

#[tokio::test]
async fn a_cluster_that_people_use_is_not_rolled_back_by_a_resume_that_fails() {
    let (mut site, plan) = (site(1), checked(fleet::plan(&WORKERS)));
    let before = site.fleet.snapshot();
    site.options.drill = Some(Drill::FailStep(id("w2/kubernetes.join")));
    assert_eq!(site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run"), Outcome::Partial);
    let in_use = site.fleet.snapshot();
    // The worker fails again, and this time none may be left out; then a step of the whole cluster does.
    site.options.max_failed_hosts = 0;
    for step in ["w2/kubernetes.join", "cp/check.end"] {
        site.options.drill = Some(Drill::FailStep(id(step)));
        assert_eq!(site.resume(&Silent).await.expect("a resumed run"), Outcome::Failed, "{step}");
    }
    // A worker that was in fails, and may be left out: it is left as it is, for its node is in use.
    site.options.max_failed_hosts = 3;
    site.options.drill = Some(Drill::FailStep(id("w1/kubernetes.join")));
    assert_eq!(site.resume(&Silent).await.expect("a resumed run"), Outcome::Partial);
    let left = site.status().left_out.remove(0);
    assert!(left.host == "w1" && left.left_as_it_is.is_some_and(|why| why.contains("before this run")));
    let now = site.fleet.snapshot();
    for host in ["cp", "w1", "w3"] {
        assert_eq!(now[host], in_use[host], "{host}");
    }
    site.options.drill = None;
    assert_eq!(site.resume(&Silent).await.expect("a resumed run"), Outcome::Succeeded);
    assert_eq!(site.rollback(&Silent).await.expect("a rollback"), Outcome::RolledBack);
    assert_eq!(site.fleet.snapshot(), before);
}

#[tokio::test]
async fn what_was_kept_stays_when_a_resume_without_that_option_fails() {
    let (mut site, plan) = (site(0), checked(fleet::plan(&WORKERS)));
    site.options.on_failure = OnFailure::Keep;
    site.options.drill = Some(Drill::FailStep(id("cp/check.end")));
    assert_eq!(site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run"), Outcome::Failed);
    let kept = site.fleet.snapshot();
    site.options.on_failure = OnFailure::Rollback;
    assert_eq!(site.resume(&Silent).await.expect("a resumed run"), Outcome::Failed);
    assert_eq!(site.fleet.snapshot(), kept);
}

#[tokio::test]
async fn a_host_that_nothing_reaches_any_more_is_left_as_it_is_and_reported() {
    let (mut site, plan) = (site(1), checked(fleet::plan(&WORKERS)));
    site.options.hook = Some(std::sync::Arc::new(CutAt { fleet: site.fleet.clone(), step: id("w3/kubernetes.join") }));
    assert_eq!(site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run"), Outcome::Partial);
    site.options.hook = None;
    assert_eq!(site.fleet.snapshot()["w3"]["swap"], "off", "nobody could roll it back");
    assert_eq!(site.fleet.snapshot()["(cluster)"]["label:cp:checked"], "yes", "the others are not held up");
    let left = site.status().left_out.remove(0);
    assert!(!left.rolled_back && left.left_as_it_is.is_some_and(|why| why.contains("cannot reach w3")));
    assert!(site.report().contains("left as it is"));
    site.fleet.reconnect("w3");
    assert_eq!(site.resume(&Silent).await.expect("the resumed run"), Outcome::Succeeded);
    assert_eq!(site.fleet.snapshot(), whole().await);
}

/// The host of a step goes away when the step is prepared.
struct CutAt {
    fleet: kubexm_engine::sim::SimFleet,
    step: kubexm_plan::StepId,
}

impl kubexm_engine::execute::Hook for CutAt {
    fn before_record(&self, _: usize, _: &Record) -> bool {
        true
    }

    fn after_record(&self, _: usize, record: &Record) -> bool {
        if matches!(record, Record::StepPrepared { step, .. } if *step == self.step) {
            self.fleet.disconnect("w3");
        }
        true
    }
}

#[tokio::test]
async fn a_failed_undo_of_a_left_out_host_does_not_stop_the_run_and_a_rollback_completes_it() {
    let (mut site, plan) = (site(1), checked(fleet::plan(&WORKERS)));
    let before = site.fleet.snapshot();
    site.options.drill = Some(Drill::FailStep(id("w2/kubernetes.join")));
    site.fleet.fail_at(Failure::Undo(1));
    assert_eq!(site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run"), Outcome::Partial);
    let left = site.status().left_out.remove(0);
    assert!(left.left_as_it_is.is_some_and(|why| why.contains("injected failure of an undo")));
    site.options.drill = None;
    assert_eq!(site.rollback(&Silent).await.expect("a rollback"), Outcome::RolledBack);
    assert_eq!(site.fleet.snapshot(), before);
}

#[tokio::test]
async fn a_crash_at_any_record_of_a_partial_run_resumes_to_the_whole_cluster() {
    let plan = checked(fleet::plan(&["w1", "w2"]));
    let failing = || {
        let mut site = site(1);
        site.options.drill = Some(Drill::FailStep(id("w2/kubernetes.join")));
        site
    };
    let counted = failing();
    counted.execute(&plan, &mut counted.create(&plan), &Silent).await.expect("a run");
    let end = {
        let site = site(0);
        site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
        site.fleet.snapshot()
    };
    for nth in 1..=counted.records().len() {
        let mut site = failing();
        let before = site.fleet.snapshot();
        site.options.hook = Some(StopAt::new(false, nth));
        let stopped = site.execute(&plan, &mut site.create(&plan), &Silent).await;
        assert!(matches!(stopped, Err(EngineError::Stopped { .. })), "record {nth}: {stopped:?}");
        (site.options.hook, site.options.drill) = (None, None);
        assert_eq!(site.resume(&Silent).await.expect("the resumed run"), Outcome::Succeeded, "record {nth}");
        assert_eq!(site.fleet.snapshot(), end, "record {nth}");
        assert_eq!(site.rollback(&Silent).await.expect("a rollback"), Outcome::RolledBack, "record {nth}");
        assert_eq!(site.fleet.snapshot(), before, "record {nth}");
    }
}
