//! The laws of a second `create` with another audit policy: kube-apiserver has it afterwards, on every control plane, and the
//! earlier one after a rollback.

use kubexm_ops::fake::RootedSystem;
use kubexm_plan::op::{Content, Op};
use kubexm_plan::{Pipeline, Plan};
use kubexm_spec::Digest;
use kubexm_tests::laws::{Case, Fleet, Points, Rooted, Simulated};
use kubexm_tests::samples::FLEETS;

const POLICY: &str = "/etc/kubexm/audit/policy.yaml";
const CHANGED: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: None\n";
const CONTROL_PLANES: [&str; 2] = ["node1", "node2"];

fn change(plan: &mut Plan) {
    let changed = plan.text(CHANGED);
    for op in plan.steps.iter_mut().flat_map(|step| &mut step.ops) {
        if let Op::File(file) = op
            && file.path == POLICY
        {
            file.content = Content::Text { digest: changed };
        }
    }
}

async fn case<F: Fleet>() -> Case<F> {
    let first = Case::<F>::of(&FLEETS[0], Pipeline::Create).await.expect("a case");
    first.again(change).await.expect("a cluster")
}

/// What the API server of a host has read.
fn policy(system: &RootedSystem) -> Option<Digest> {
    system.read_by_api_server().expect("a state").and_then(|read| read.get(POLICY).copied())
}

/// A few steps of many change anything: every failure is tried, and so many crashes.
async fn hold<F: Fleet>(count: usize) -> Result<(), String> {
    let (case, points) = (case::<F>().await, Points::Drawn { count, seed: 4 });
    case.a_failure_anywhere_unwinds_to_the_state_before(Points::Every).await?;
    case.a_crash_at_any_record_resumes_to_the_same_end(points).await?;
    case.a_failure_that_is_kept_resumes_to_the_same_end(Points::Every).await?;
    case.a_rollback_resumed_after_a_crash_at_any_record_has_the_same_end(points).await?;
    case.its_invariants_hold_at_every_point().await?;
    case.a_second_run_changes_nothing().await
}

#[tokio::test]
async fn a_changed_policy_is_what_every_api_server_has() {
    let case = case::<Rooted>().await;
    for host in CONTROL_PLANES {
        let before = policy(&case.start().system(host)).expect("a policy");
        assert_ne!(before, Digest::of(CHANGED), "{host}");
    }
    let fleet = case.carried_out().await.unwrap_or_else(|why| panic!("{why}"));
    for host in CONTROL_PLANES {
        assert_eq!(policy(&fleet.system(host)), Some(Digest::of(CHANGED)), "{host}");
    }
    assert_eq!(fleet.system("node3").read_by_api_server().expect("a state"), None);
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
