//! The laws of a renewal on a cluster that was adopted: the hosts let nothing else be done there.

use kubexm_plan::Op;
use kubexm_tests::laws::{Case, Fleet, Points, Rooted, Simulated};
use kubexm_tests::samples::SAMPLES;

async fn case<F: Fleet>() -> Case<F> {
    Case::<F>::of_adopted(&SAMPLES[0]).await.unwrap_or_else(|why| panic!("{why}"))
}

async fn hold<F: Fleet>(count: usize) -> Result<(), String> {
    let (case, points) = (case::<F>().await, Points::Drawn { count, seed: 4 });
    case.a_failure_anywhere_unwinds_to_the_state_before(points).await?;
    case.a_crash_at_any_record_resumes_to_the_same_end(points).await?;
    case.a_rollback_resumed_after_a_crash_at_any_record_has_the_same_end(points).await?;
    case.a_second_run_changes_nothing().await
}

#[tokio::test]
async fn a_copy_of_the_earlier_admin_conf_becomes_one_of_the_renewed() {
    let case = case::<Rooted>().await;
    let host = case.plan().hosts[0].name.clone();
    let copies = case.plan().steps.iter().flat_map(|step| &step.ops);
    assert!(copies.into_iter().any(|op| matches!(op, Op::Kubeconfig(op) if op.replaces.is_some())));
    let read = |fleet: &Rooted, path: &str| std::fs::read(fleet.machine(&host).path(path)).expect("a file");
    let (admin, copy) = ("/etc/kubernetes/admin.conf", "/root/.kube/config");
    let before = read(case.start(), admin);
    assert_eq!(read(case.start(), copy), before);
    let fleet = case.carried_out().await.unwrap_or_else(|why| panic!("{why}"));
    assert_ne!(read(&fleet, admin), before);
    assert_eq!(read(&fleet, copy), read(&fleet, admin));
}

#[tokio::test]
async fn its_laws_hold_on_the_simulated_fleet() {
    hold::<Simulated>(12).await.unwrap_or_else(|why| panic!("{why}"));
}

#[tokio::test]
async fn its_laws_hold_with_the_real_ops() {
    hold::<Rooted>(3).await.unwrap_or_else(|why| panic!("{why}"));
}
