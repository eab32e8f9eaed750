//! The laws of `create`, `join` and `reset`, over every sample: on the strict simulated fleet, and with the real ops on
//! machines that are rooted in directories. One test a line of the table and kind of fleet, so that they run side by side.

#![allow(clippy::expect_used, clippy::panic, reason = "a law that does not hold, or cannot be tried, fails the test")]
#![allow(clippy::print_stdout, reason = "how many points were tried, and how long it took, is said")]

mod acts_half_done;
mod refused;
mod table;

use std::time::Instant;

use kubexm_tests::laws::{Case, Fleet, Pipeline, Points, Rooted, Simulated};
use table::{Held, Law, row, samples};

/// Holds one law against one case; returns how many points were tried.
async fn check<F: Fleet>(law: Law, case: &Case<F>, points: Points) -> Result<usize, String> {
    match law {
        Law::Unwinds => case.a_failure_anywhere_unwinds_to_the_state_before(points).await,
        Law::CrashResumes => case.a_crash_at_any_record_resumes_to_the_same_end(points).await,
        Law::FailureResumes => case.a_failure_that_is_kept_resumes_to_the_same_end(points).await,
        Law::RollbackGoesOn => case.a_crash_at_any_record_of_a_rollback_goes_on_to_the_same_end(points).await,
        Law::UndoFails => case.a_failure_of_any_undo_is_gone_on_with_to_the_same_end(points).await,
        Law::SecondRun => case.a_second_run_changes_nothing().await.map(|()| 1),
        Law::Invariants => case.its_invariants_hold_at_every_point().await.map(|()| 1),
        Law::LeavesOut => {
            let steps = case.a_failure_of_any_step_of_an_expendable_host_leaves_it_out(points).await?;
            Ok(steps + case.a_failure_of_any_change_leaves_out_one_host_at_most(points).await?)
        }
        Law::AsBefore => case.every_host_is_as_before_anything().await.map(|()| 1),
    }
}

async fn hold<F: Fleet>(law: Law, pipeline: Pipeline, held: Held) {
    let mut broken = Vec::new();
    for (sample, points) in samples(held, pipeline) {
        let began = Instant::now();
        let case = Case::<F>::of(sample, pipeline).await.unwrap_or_else(|why| panic!("{}: {why}", sample.name));
        if law == Law::LeavesOut && !case.has_expendable() {
            continue;
        }
        match check(law, &case, points).await {
            Ok(tried) => println!("{}: {tried} tried in {} ms", case.name, began.elapsed().as_millis()),
            Err(why) => broken.push(format!("{}: {why}", case.name)),
        }
    }
    assert!(broken.is_empty(), "{law:?}:\n{}", broken.join("\n\n"));
}

macro_rules! laws {
    ($($name:ident: $law:ident $pipeline:ident $fleet:ident $column:ident;)*) => {
        $(#[tokio::test]
        async fn $name() {
            hold::<$fleet>(Law::$law, Pipeline::$pipeline, row(Law::$law, Pipeline::$pipeline).$column).await;
        })*
    };
}

laws! {
    simulated_1_a_failed_create_unwinds: Unwinds Create Simulated simulated;
    simulated_1_a_failed_join_unwinds: Unwinds Join Simulated simulated;
    simulated_1_a_failed_reset_unwinds: Unwinds Reset Simulated simulated;
    simulated_2_a_crashed_create_resumes: CrashResumes Create Simulated simulated;
    simulated_2_a_crashed_join_resumes: CrashResumes Join Simulated simulated;
    simulated_2_a_crashed_reset_resumes: CrashResumes Reset Simulated simulated;
    simulated_2_a_failed_create_that_is_kept_resumes: FailureResumes Create Simulated simulated;
    simulated_2_a_failed_join_that_is_kept_resumes: FailureResumes Join Simulated simulated;
    simulated_2_a_failed_reset_that_is_kept_resumes: FailureResumes Reset Simulated simulated;
    simulated_3_a_crashed_rollback_of_create_goes_on: RollbackGoesOn Create Simulated simulated;
    simulated_3_a_crashed_rollback_of_join_goes_on: RollbackGoesOn Join Simulated simulated;
    simulated_3_a_crashed_rollback_of_reset_goes_on: RollbackGoesOn Reset Simulated simulated;
    simulated_3_a_failed_undo_of_create_is_gone_on_with: UndoFails Create Simulated simulated;
    simulated_3_a_failed_undo_of_join_is_gone_on_with: UndoFails Join Simulated simulated;
    simulated_3_a_failed_undo_of_reset_is_gone_on_with: UndoFails Reset Simulated simulated;
    simulated_4_a_second_create_changes_nothing: SecondRun Create Simulated simulated;
    simulated_4_a_second_join_changes_nothing: SecondRun Join Simulated simulated;
    simulated_4_a_second_reset_changes_nothing: SecondRun Reset Simulated simulated;
    simulated_5_the_invariants_hold_through_create: Invariants Create Simulated simulated;
    simulated_5_the_invariants_hold_through_join: Invariants Join Simulated simulated;
    simulated_5_the_invariants_hold_through_reset: Invariants Reset Simulated simulated;
    simulated_create_goes_on_without_a_bad_worker: LeavesOut Create Simulated simulated;
    simulated_join_goes_on_without_a_bad_worker: LeavesOut Join Simulated simulated;
    simulated_a_reset_leaves_hosts_as_before_create: AsBefore Reset Simulated simulated;
    rooted_1_a_failed_create_unwinds: Unwinds Create Rooted rooted;
    rooted_1_a_failed_join_unwinds: Unwinds Join Rooted rooted;
    rooted_1_a_failed_reset_unwinds: Unwinds Reset Rooted rooted;
    rooted_2_a_crashed_create_resumes: CrashResumes Create Rooted rooted;
    rooted_2_a_crashed_join_resumes: CrashResumes Join Rooted rooted;
    rooted_2_a_crashed_reset_resumes: CrashResumes Reset Rooted rooted;
    rooted_2_a_failed_create_that_is_kept_resumes: FailureResumes Create Rooted rooted;
    rooted_2_a_failed_join_that_is_kept_resumes: FailureResumes Join Rooted rooted;
    rooted_2_a_failed_reset_that_is_kept_resumes: FailureResumes Reset Rooted rooted;
    rooted_3_a_crashed_rollback_of_create_goes_on: RollbackGoesOn Create Rooted rooted;
    rooted_3_a_crashed_rollback_of_join_goes_on: RollbackGoesOn Join Rooted rooted;
    rooted_3_a_crashed_rollback_of_reset_goes_on: RollbackGoesOn Reset Rooted rooted;
    rooted_4_a_second_create_changes_nothing: SecondRun Create Rooted rooted;
    rooted_4_a_second_join_changes_nothing: SecondRun Join Rooted rooted;
    rooted_4_a_second_reset_changes_nothing: SecondRun Reset Rooted rooted;
    rooted_5_the_invariants_hold_through_create: Invariants Create Rooted rooted;
    rooted_5_the_invariants_hold_through_join: Invariants Join Rooted rooted;
    rooted_5_the_invariants_hold_through_reset: Invariants Reset Rooted rooted;
    rooted_create_goes_on_without_a_bad_worker: LeavesOut Create Rooted rooted;
    rooted_join_goes_on_without_a_bad_worker: LeavesOut Join Rooted rooted;
    rooted_a_reset_leaves_hosts_as_before_create: AsBefore Reset Rooted rooted;
}
