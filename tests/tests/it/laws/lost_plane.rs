//! The laws of the way back of a control plane whose host or disk is gone: `delete-node`, then `add-node` of the same name and address.

use kubexm_tests::laws::{Case, Fleet as _, Points, Rooted};
use kubexm_tests::samples::LOST;

const FEW: Points = Points::Drawn { count: 2, seed: 4 };

async fn hold(case: &Case<Rooted>) -> Result<(), String> {
    case.its_invariants_hold_at_every_point().await?;
    case.a_failure_anywhere_unwinds_to_the_state_before(FEW).await?;
    case.a_failure_that_is_kept_resumes_to_the_same_end(FEW).await?;
    case.a_crash_at_any_record_resumes_to_the_same_end(FEW).await?;
    case.a_second_run_changes_nothing().await
}

fn members(fleet: &Rooted) -> Vec<String> {
    let all = fleet.snapshot();
    let words = all.get("(cluster)").into_iter().flatten();
    words.filter(|(key, _)| key.starts_with("member:")).map(|(key, state)| format!("{key} {state}")).collect()
}

async fn comes_back(index: usize) -> Result<(), String> {
    let [made, now] = &LOST[index];
    let lost = Case::of_lost(made, now).await?;
    assert_eq!(members(lost.start()).iter().filter(|member| member.ends_with("dead: true")).count(), 1);
    let refused = lost.refused_before().await?;
    assert!(refused.contains("etcd has a member of that name or address already"), "{refused}");
    assert!(refused.contains("kubexm-install delete-node"), "{refused}");
    hold(&lost).await?;
    let back = lost.comes_back().await?;
    assert_eq!(members(back.start()).len(), 2);
    hold(&back).await?;
    let all = members(&back.carried_out().await?);
    assert_eq!(all.iter().filter(|member| member.ends_with("dead: false")).count(), 3, "{all:?}");
    Ok(())
}

#[tokio::test]
async fn a_control_plane_that_was_lost_comes_back() {
    comes_back(0).await.unwrap_or_else(|why| panic!("{why}"));
}

#[tokio::test]
async fn the_first_one_comes_back_with_the_registry_and_the_time() {
    comes_back(1).await.unwrap_or_else(|why| panic!("{why}"));
}
