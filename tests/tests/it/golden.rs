//! The plan of every pipeline, as text: one of those that the laws are tried with. A new pipeline gets its own.

#![allow(clippy::expect_used, reason = "a plan that cannot be made fails the test")]

use kubexm_plan::Pipeline;
use kubexm_tests::laws::{Case, Simulated};
use kubexm_tests::samples::{ADOPTED, ADOPTED_ETCD, FLEETS, SAMPLES};

fn settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

/// What a host's ledger lists, by name: which of two steps that run at once ends first differs from one create to another.
fn in_order(plan: &str) -> String {
    let listed = |line: &&str| line.starts_with("    ");
    let mut lines: Vec<&str> = plan.lines().collect();
    for run in lines.chunk_by_mut(|one, next| listed(one) == listed(next)) {
        if run.first().is_some_and(listed) {
            run.sort_unstable();
        }
    }
    lines.join("\n") + "\n"
}

#[tokio::test]
async fn every_pipeline_has_a_golden_plan() {
    let settings = settings();
    for pipeline in Pipeline::ALL.iter().copied() {
        let mut samples = FLEETS.iter().chain(&SAMPLES);
        let sample = samples.find(|sample| sample.is_for(pipeline)).expect("a sample for every pipeline");
        let case = Case::<Simulated>::of(sample, pipeline).await.expect("a plan");
        settings.bind(|| insta::assert_snapshot!(pipeline.name(), in_order(&case.plan().render())));
    }
}

#[tokio::test]
async fn the_upgrade_of_an_adopted_cluster_has_a_golden_plan() {
    let case = Case::<Simulated>::of_adopted_upgrade(&ADOPTED).await.expect("a plan");
    settings().bind(|| insta::assert_snapshot!("upgrade-adopted", in_order(&case.plan().render())));
}

/// Nothing of its etcd is in it but the question whether that is healthy.
#[tokio::test]
async fn the_upgrade_of_an_adopted_cluster_over_an_etcd_of_others_has_a_golden_plan() {
    let case = Case::<Simulated>::of_adopted_upgrade(&ADOPTED_ETCD).await.expect("a plan");
    settings().bind(|| insta::assert_snapshot!("upgrade-adopted-etcd", in_order(&case.plan().render())));
}

/// The certificates of its members and clients, beside those that every cluster has.
#[tokio::test]
async fn the_renewal_of_an_etcd_of_kubexms_own_has_a_golden_plan() {
    let is_own = |sample: &&kubexm_tests::samples::Sample| sample.name == "etcd of kubexm's on three hosts of its own";
    let sample = FLEETS.iter().find(is_own).expect("the sample");
    let case = Case::<Simulated>::of(sample, Pipeline::CertsRenew).await.expect("a plan");
    settings().bind(|| insta::assert_snapshot!("certs-renew-etcd", in_order(&case.plan().render())));
}
