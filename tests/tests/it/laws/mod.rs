//! The laws of every pipeline, over every sample: on the strict simulated fleet, and with the real ops on machines that are rooted in
//! directories. One test for each law, pipeline and kind of fleet, so that they run side by side; a new pipeline gets its own.

#![allow(clippy::expect_used, clippy::panic, reason = "a law that does not hold, or cannot be tried, fails the test")]
#![allow(clippy::print_stdout, reason = "how many points were tried, and how long it took, is said")]

mod acts_half_done;
mod addons_removed;
mod adopted;
mod authorities;
mod lost_plane;
mod members_listed;
mod reconfigured;
mod refused;
mod releases;
mod table;
mod timers_removed;

use std::time::Instant;

use kubexm_plan::Pipeline;
use kubexm_tests::laws::{Case, Fleet, Points};
use table::{Held, Law, samples};

/// Holds one law against one case; returns how many points were tried.
async fn check<F: Fleet>(law: Law, case: &Case<F>, points: Points) -> Result<usize, String> {
    match law {
        Law::Unwinds => case.a_failure_anywhere_unwinds_to_the_state_before(points).await,
        Law::CrashResumes => case.a_crash_at_any_record_resumes_to_the_same_end(points).await,
        Law::FailureResumes => case.a_failure_that_is_kept_resumes_to_the_same_end(points).await,
        Law::RollbackResumes => case.a_rollback_resumed_after_a_crash_at_any_record_has_the_same_end(points).await,
        Law::UndoFails => case.a_failure_of_any_undo_is_resumed_to_the_same_end(points).await,
        Law::SecondRun => case.a_second_run_changes_nothing().await.map(|()| 1),
        Law::Invariants => case.its_invariants_hold_at_every_point().await.map(|()| 1),
        Law::LeavesOut => {
            let steps = case.a_failure_of_any_step_of_an_optional_host_leaves_it_out(points).await?;
            Ok(steps + case.a_failure_of_any_change_leaves_out_one_host_at_most(points).await?)
        }
        Law::AsBefore => case.every_host_is_as_before_anything().await.map(|()| 1),
    }
}

async fn hold<F: Fleet>(law: Law, pipeline: Pipeline, held: Held) {
    if let Held::Not(why) = held {
        println!("{law:?} does not apply to {pipeline}: {why}");
        return;
    }
    let mut broken = Vec::new();
    for (sample, points) in samples(held, pipeline) {
        let began = Instant::now();
        let case = Case::<F>::of(sample, pipeline).await.unwrap_or_else(|why| panic!("{}: {why}", sample.name));
        if law == Law::LeavesOut && !case.has_optional() {
            continue;
        }
        match check(law, &case, points).await {
            Ok(tried) => println!("{}: {tried} tried in {} ms", case.name, began.elapsed().as_millis()),
            Err(why) => broken.push(format!("{}: {why}", case.name)),
        }
    }
    assert!(broken.is_empty(), "{law:?}:\n{}", broken.join("\n\n"));
}

/// One test for each law, pipeline and kind of fleet: `create::rooted::unwinds`.
macro_rules! every_law {
    ($fleet:ident, $column:ident, $pipeline:expr; $($name:ident: $law:ident,)*) => {
        $(#[tokio::test]
        async fn $name() {
            hold::<kubexm_tests::laws::$fleet>(Law::$law, $pipeline, row(Law::$law, $pipeline).$column).await;
        })*
    };
    ($fleet:ident, $column:ident, $pipeline:expr) => {
        every_law! { $fleet, $column, $pipeline;
            law_1_a_failure_unwinds: Unwinds,
            law_2_a_crash_resumes: CrashResumes,
            law_2_a_failure_that_is_kept_resumes: FailureResumes,
            law_3_a_crashed_rollback_resumes: RollbackResumes,
            law_3_a_failed_undo_resumes: UndoFails,
            law_4_a_second_run_changes_nothing: SecondRun,
            law_5_its_invariants_hold: Invariants,
            a_bad_worker_is_left_out: LeavesOut,
            hosts_are_as_before_anything: AsBefore,
        }
    };
}

macro_rules! every_pipeline {
    ($($name:ident: $pipeline:ident,)*) => {
        $(mod $name {
            mod simulated {
                use super::super::table::{Law, row};
                use super::super::hold;
                use kubexm_plan::Pipeline;
                every_law!(Simulated, simulated, Pipeline::$pipeline);
            }
            mod rooted {
                use super::super::table::{Law, row};
                use super::super::hold;
                use kubexm_plan::Pipeline;
                every_law!(Rooted, rooted, Pipeline::$pipeline);
            }
        })*
    };
}
kubexm_plan::for_each_pipeline!(every_pipeline);
