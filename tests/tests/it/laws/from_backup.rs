//! The laws of a `create` that makes the cluster of a backup, on hosts that have none: of the same names, and of others.

use kubexm_tests::laws::{Case, Fleet, Points, Rooted, Simulated};
use kubexm_tests::samples::{ELSEWHERE, FLEETS, Sample};

async fn hold<F: Fleet>(now: &Sample, count: usize) -> Result<(), String> {
    let case = Case::<F>::of_backup(&FLEETS[0], now).await?;
    let points = Points::Drawn { count, seed: 4 };
    case.its_invariants_hold_at_every_point().await?;
    case.a_failure_anywhere_unwinds_to_the_state_before(points).await?;
    case.a_failure_that_is_kept_resumes_to_the_same_end(points).await?;
    case.a_crash_at_any_record_resumes_to_the_same_end(points).await?;
    case.a_rollback_resumed_after_a_crash_at_any_record_has_the_same_end(points).await?;
    case.a_second_run_changes_nothing().await
}

#[tokio::test]
async fn hosts_of_the_same_names_with_the_real_ops() {
    hold::<Rooted>(&FLEETS[0], 3).await.unwrap_or_else(|why| panic!("{why}"));
}

#[tokio::test]
async fn hosts_of_other_names_on_the_simulated_fleet() {
    hold::<Simulated>(&ELSEWHERE, 12).await.unwrap_or_else(|why| panic!("{why}"));
}

/// The authorities of the lost cluster are those of the new one, on every control plane.
#[tokio::test]
async fn hosts_of_other_names_have_the_authorities_of_the_backup() {
    let case = Case::<Rooted>::of_backup(&FLEETS[0], &ELSEWHERE).await.unwrap_or_else(|why| panic!("{why}"));
    let fleet = case.carried_out().await.unwrap_or_else(|why| panic!("{why}"));
    let read = |host: &str, path: &str| std::fs::read(fleet.machine(host).path(path)).expect("a file");
    let ca = read("node4", "/etc/kubernetes/pki/ca.crt");
    assert_eq!(ca, read("node2", "/etc/kubernetes/pki/ca.crt"));
    assert!(!read("node4", "/etc/kubernetes/pki/sa.key").is_empty());
    let snapshots = fleet.machine("node4").path("/var/lib/kubexm/snapshots");
    assert!(!snapshots.exists(), "the snapshot, which is not encrypted, stays");
}
