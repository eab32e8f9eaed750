//! Values that hosts make: only when needed, once for all who need them, and never a dead one twice.

#![allow(clippy::expect_used, reason = "a test that cannot set itself up has failed")]

use crate::common::{Site, checked, fleet};
use kubexm_engine::events::{Recorder, Silent};
use kubexm_engine::journal::Record;
use kubexm_engine::sim::Failure;
use kubexm_engine::{Outcome, Run, RunId};
use kubexm_plan::StepId;

const WORKERS: [&str; 3] = ["w1", "w2", "w3"];

fn site() -> Site {
    Site::with(["cp", "w1", "w2", "w3"])
}

#[tokio::test]
async fn three_parallel_joins_share_each_slot_value() {
    let (site, plan) = (site(), checked(fleet::plan(&WORKERS)));
    assert_eq!(site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run"), Outcome::Succeeded);
    let mut made = site.fleet.provided();
    made.sort();
    assert_eq!(made, ["caCertHash", "joinToken"]);
    let records = site.records();
    let join = |step: &StepId| step.0.ends_with("/kubernetes.join");
    let last_begun = records.iter().rposition(|r| matches!(r, Record::StepPrepared { step, .. } if join(step)));
    let first_done = records.iter().position(|r| matches!(r, Record::StepDone { step, .. } if join(step)));
    assert!(last_begun < first_done && last_begun.is_some(), "the journal has the joins one after another");
}

#[tokio::test]
async fn no_slot_value_is_made_when_every_step_is_satisfied() {
    let (site, plan) = (site(), checked(fleet::plan(&WORKERS)));
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("the first run");
    let made = site.fleet.provided().len();
    let mut second = Run::create(&site.runs(), RunId::named("two"), &plan).expect("a run folder");
    assert_eq!(site.execute(&plan, &mut second, &Silent).await.expect("the second run"), Outcome::Succeeded);
    assert_eq!(site.fleet.provided().len(), made);
}

#[tokio::test]
async fn a_join_that_failed_is_tried_again_with_a_new_token() {
    let mut plan = fleet::plan(&WORKERS);
    plan.steps.iter_mut().for_each(|step| step.retries = 1);
    let plan = checked(plan);
    // The joins are the last converges but the labels: count them on another fleet.
    let counted = site();
    counted.execute(&plan, &mut counted.create(&plan), &Silent).await.expect("a run");
    let mut renewed = 0;
    for nth in 1..=counted.fleet.converges() {
        let site = site();
        site.fleet.fail_at(Failure::Before(nth));
        let outcome = site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
        // A sim's join refuses a token that a failed one had.
        assert_eq!(outcome, Outcome::Succeeded, "converge {nth}");
        let tokens = site.fleet.provided().iter().filter(|kind| *kind == "joinToken").count();
        assert!(tokens <= 2, "{tokens} tokens for one failure");
        renewed += usize::from(tokens == 2);
    }
    assert_eq!(renewed, WORKERS.len(), "each of the joins failed once, and nothing else needs a new token");
}

#[tokio::test]
async fn values_made_on_a_host_never_reach_the_run_folder_or_the_events() {
    let (site, plan, events) = (site(), checked(fleet::plan(&WORKERS)), Recorder::default());
    site.execute(&plan, &mut site.create(&plan), &events).await.expect("a run");
    let mut text = format!("{:?}", events.events());
    for file in ["journal.jsonl", "plan.json", "report.md"] {
        text += &std::fs::read_to_string(site.runs().join("one").join(file)).expect(file);
    }
    assert!(!site.fleet.provided().is_empty() && !text.contains("secret-"), "a token is in it");
}
