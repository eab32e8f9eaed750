//! The laws of a second `create` with other values of a chart: its release has them afterwards, and the earlier ones after a
//! rollback.

use kubexm_plan::op::{HelmRelease, Op};
use kubexm_plan::{Pipeline, Plan, Undo};
use kubexm_tests::laws::{Case, Fleet, Points, Rooted, Simulated};
use kubexm_tests::samples::FLEETS;

fn releases(plan: &mut Plan) -> impl Iterator<Item = &mut HelmRelease> {
    plan.steps.iter_mut().flat_map(|step| &mut step.ops).filter_map(|op| match op {
        Op::HelmRelease(release) => Some(release),
        _ => None,
    })
}

fn change(plan: &mut Plan) {
    let changed = plan.text("{\"values\": {\"replicas\": 5, \"hook\": \"runs\"}, \"images\": []}\n");
    releases(plan).for_each(|release| release.input = changed);
    // As the recipe writes it for a cluster that is there.
    let is_addon = |op: &Op| matches!(op, Op::HelmRelease(_) | Op::Manifests(_));
    for step in plan.steps.iter_mut().filter(|step| step.ops.iter().any(is_addon)) {
        step.undo = Undo::RestoreBefore;
    }
}

async fn case<F: Fleet>() -> Case<F> {
    let first = Case::<F>::of(&FLEETS[0], Pipeline::Create).await.expect("a case");
    first.again(change).await.expect("a cluster")
}

async fn hold<F: Fleet>(count: usize) -> Result<(), String> {
    let (case, points) = (case::<F>().await, Points::Drawn { count, seed: 4 });
    case.a_failure_anywhere_unwinds_to_the_state_before(Points::Every).await?;
    case.a_crash_at_any_record_resumes_to_the_same_end(points).await?;
    case.a_failure_that_is_kept_resumes_to_the_same_end(Points::Every).await?;
    case.a_rollback_resumed_after_a_crash_at_any_record_has_the_same_end(points).await?;
    case.its_invariants_hold_at_every_point().await?;
    case.a_second_run_changes_nothing().await
}

#[test]
fn the_sample_installs_storage_a_chart_and_yaml() {
    let (_, plan) = FLEETS[0].plan_create();
    let mut plan = plan.plan().clone();
    assert_eq!(releases(&mut plan).count(), 2);
    assert!(plan.steps.iter().flat_map(|step| &step.ops).any(|op| matches!(op, Op::Manifests(_))));
}

#[tokio::test]
async fn its_laws_hold_on_the_simulated_fleet() {
    let held = hold::<Simulated>(12).await;
    let undone = case::<Simulated>().await.a_failure_of_any_undo_is_resumed_to_the_same_end(Points::Every).await;
    held.and(undone.map(drop)).unwrap_or_else(|why| panic!("{why}"));
}

#[tokio::test]
async fn its_laws_hold_with_the_real_ops() {
    hold::<Rooted>(4).await.unwrap_or_else(|why| panic!("{why}"));
}
