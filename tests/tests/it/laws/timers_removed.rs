//! The laws of a second `create` whose cluster.yaml asks for no timers any more: they are gone afterwards, and there again after a rollback.

use kubexm_plan::op::{Absent, Op, Unit};
use kubexm_plan::timers::{HostTimer, TIMERS};
use kubexm_plan::{Pipeline, Plan};
use kubexm_tests::laws::{Case, Fleet, Points, Rooted, Simulated};
use kubexm_tests::samples::named;

fn removed(timer: HostTimer) -> Vec<Op> {
    let stopped =
        Unit { name: timer.timer(), enabled: false, running: Some(false), loaded: Vec::new(), reloaded: Vec::new() };
    let units = [timer.timer(), timer.service()].map(|unit| format!("/etc/systemd/system/{unit}"));
    let files = units.into_iter().chain([timer.config(), timer.record(), timer.unfinished(), timer.stamp()]);
    let ended = Unit { name: timer.service(), ..stopped.clone() };
    let gone = files.map(|path| Absent { path }.into());
    std::iter::once(stopped.into()).chain(gone).chain([ended.into()]).collect()
}

/// As the recipe writes it where the hosts have them.
fn change(plan: &mut Plan) {
    for step in plan.steps.iter_mut().filter(|step| step.id.0.ends_with("/timers.start")) {
        step.ops = TIMERS.into_iter().flat_map(removed).collect();
    }
}

async fn case<F: Fleet>() -> Case<F> {
    let sample = named("three control planes that are all workers too");
    let first = Case::<F>::of(sample, Pipeline::Create).await.expect("a case");
    first.again(change).await.expect("a cluster")
}

async fn hold<F: Fleet>(count: usize) -> Result<(), String> {
    let (case, points) = (case::<F>().await, Points::Drawn { count, seed: 4 });
    case.a_failure_anywhere_unwinds_to_the_state_before(points).await?;
    case.a_crash_at_any_record_resumes_to_the_same_end(points).await?;
    case.a_rollback_resumed_after_a_crash_at_any_record_has_the_same_end(points).await?;
    case.a_second_run_changes_nothing().await
}

#[tokio::test]
async fn the_hosts_have_no_timer_any_more() {
    let case = case::<Rooted>().await;
    for host in ["node1", "node2", "node3"] {
        for timer in TIMERS {
            let path = format!("/etc/systemd/system/{}", timer.timer());
            assert!(case.start().machine(host).path(&path).is_file(), "{host} {path}");
        }
    }
    let fleet = case.carried_out().await.unwrap_or_else(|why| panic!("{why}"));
    for host in ["node1", "node2", "node3"] {
        for timer in TIMERS {
            let unit = format!("/etc/systemd/system/{}", timer.timer());
            for path in [unit, timer.config()] {
                assert!(!fleet.machine(host).path(&path).exists(), "{host} {path}");
            }
        }
    }
}

#[tokio::test]
async fn their_laws_hold_on_the_simulated_fleet() {
    hold::<Simulated>(24).await.unwrap_or_else(|why| panic!("{why}"));
}

#[tokio::test]
async fn their_laws_hold_with_the_real_ops() {
    hold::<Rooted>(4).await.unwrap_or_else(|why| panic!("{why}"));
}
