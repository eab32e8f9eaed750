//! The laws of a second `create` whose cluster.yaml has no add-ons any more: they are gone afterwards, with their Secrets, and there again
//! after a rollback.

use kubexm_plan::op::{Manifests, NOTHING, Op, ReleaseAbsent};
use kubexm_plan::{Pipeline, Plan, Undo};
use kubexm_tests::laws::{Case, Fleet, Points, Rooted, Simulated};
use kubexm_tests::samples::FLEETS;

/// As the recipe writes it for a cluster that is there.
fn change(plan: &mut Plan) {
    plan.text(NOTHING);
    for step in plan.steps.iter_mut() {
        for op in &mut step.ops {
            let removed: Op = match op {
                Op::HelmRelease(release) => {
                    let (name, namespace) = (release.name.clone(), release.namespace.clone());
                    ReleaseAbsent { name, namespace, wait_s: release.wait_s }.into()
                }
                Op::Manifests(of) => Manifests::none(of.name.clone(), of.namespace.clone(), of.wait_s).into(),
                _ => continue,
            };
            *op = removed;
            step.undo = Undo::RestoreBefore;
        }
    }
    let read: Vec<_> = plan.steps.iter().flat_map(|step| &step.ops).flat_map(Op::slots).cloned().collect();
    plan.slots.retain(|slot, provider| provider.secret_field().is_none() || read.contains(slot));
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
fn the_changed_plan_removes_releases_objects_and_secrets() {
    let mut plan = FLEETS[0].plan_create().1.plan().clone();
    change(&mut plan);
    let ops = || plan.steps.iter().flat_map(|step| &step.ops);
    assert_eq!(ops().filter(|op| matches!(op, Op::ReleaseAbsent(_))).count(), 2);
    assert_eq!(ops().filter(|op| matches!(op, Op::Manifests(op) if op.is_removal())).count(), 2);
}

#[tokio::test]
async fn its_laws_hold_on_the_simulated_fleet() {
    hold::<Simulated>(12).await.unwrap_or_else(|why| panic!("{why}"));
}

#[tokio::test]
async fn its_laws_hold_with_the_real_ops() {
    hold::<Rooted>(4).await.unwrap_or_else(|why| panic!("{why}"));
}
