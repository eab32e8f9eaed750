//! Clusters that earlier programs made: their journals, plans, ledgers and stamps are read, their runs are resumed and
//! rolled back, and their hosts are reset. The archives were recorded before the op kinds had types for their states.

#![allow(clippy::expect_used, clippy::panic, reason = "a recording that cannot be read fails the test")]

use std::path::PathBuf;

use kubexm_engine::Outcome;
use kubexm_engine::replay::RunState;
use kubexm_engine::sim::Snapshot;
use kubexm_plan::ObservedState;
use kubexm_tests::laws::{Fleet, How, Recorded, differences};

fn load(name: &str) -> Recorded {
    let archive = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/recorded/{name}.tar.gz"));
    Recorded::load(&archive).unwrap_or_else(|why| panic!("{name}: {why}"))
}

fn same(found: &Snapshot, wanted: &Snapshot, what: &str) {
    let lines = differences(found, wanted, &std::collections::BTreeSet::new());
    assert!(lines.is_empty(), "{what}:\n{}", lines.join("\n"));
}

const WHOLE: [&str; 2] = ["rooted-whole", "rooted-packages"];

#[tokio::test]
async fn every_state_of_a_recorded_ledger_is_read_as_a_type() {
    for name in WHOLE {
        let recorded = load(name);
        let (mut states, mut kinds) = (0, std::collections::BTreeSet::new());
        for (host, link) in recorded.fleet.links() {
            for record in link.ledger().await.expect("a ledger") {
                assert_eq!(record.ops.len(), record.before.len(), "{host}: {}", record.step);
                for (op, found) in record.ops.iter().zip(&record.before) {
                    op.places(found).unwrap_or_else(|why| panic!("{host}: {}: {op}: {why}", record.step));
                    // Written again, it is what it was: older programs read it, too.
                    let text = serde_json::to_string(found).expect("JSON");
                    assert_eq!(serde_json::from_str::<ObservedState>(&text).expect("JSON"), *found);
                    kinds.insert(op.name());
                    states += 1;
                }
            }
        }
        assert!(states > 200 && kinds.len() > 15, "{name} has {states} states of {kinds:?}");
    }
}

#[tokio::test]
async fn a_recorded_stamp_says_whose_node_it_is() {
    let recorded = load("rooted-whole");
    for (host, link) in recorded.fleet.links() {
        let facts = link.facts().await.expect("facts");
        let stamp = facts.stamp.expect("a stamp");
        assert_eq!((stamp.cluster.as_str(), stamp.bundle), ("demo", None), "{host}: its program remembered no bundle");
    }
}

/// Each recording has registry certificates of its own. Of static pods other than the API server the fakes of then kept no account.
fn without_certificates(mut snapshot: Snapshot) -> Snapshot {
    for state in snapshot.values_mut() {
        state.retain(|path, _| !(path.ends_with(".crt") || path.ends_with("/tls.key") || path.ends_with("staticPods")));
    }
    snapshot
}

#[tokio::test]
async fn a_recorded_run_that_was_killed_resumes() {
    let recorded = load("rooted-killed");
    let run = recorded.run().expect("the run");
    assert_eq!(run.status().expect("a status").state, RunState::Running);
    let outcome = run.resume(&recorded.fleet, How::KEEP).await.expect("resumed");
    assert_eq!(outcome, Outcome::Succeeded, "{}", run.report());
    let whole = load("rooted-whole").left;
    let resumed = without_certificates(recorded.fleet.snapshot());
    same(&resumed, &without_certificates(whole), "resumed, it is as one that was not killed");
    let outcome = run.roll_back(&recorded.fleet, How::KEEP).await.expect("rolled back");
    assert_eq!(outcome, Outcome::RolledBack, "{}", run.report());
    same(&recorded.fleet.snapshot(), &recorded.before, "resumed and rolled back, it is as before");
}

async fn rolls_back(name: &str) {
    let recorded = load(name);
    same(&recorded.fleet.snapshot(), &recorded.left, "unpacked, it is as it was left");
    let run = recorded.run().expect("the run");
    let outcome = run.roll_back(&recorded.fleet, How::KEEP).await.expect("rolled back");
    assert_eq!(outcome, Outcome::RolledBack, "{name}: {}", run.report());
    same(&recorded.fleet.snapshot(), &recorded.before, "rolled back, it is as before");
}

async fn resets(name: &str) {
    let recorded = load(name);
    let case = recorded.reset().await.unwrap_or_else(|why| panic!("{name}: {why}"));
    case.every_host_is_as_before_anything().await.unwrap_or_else(|why| panic!("{name}: {why}"));
}

#[tokio::test]
async fn recorded_runs_roll_back() {
    for name in ["rooted-whole", "rooted-packages", "rooted-killed"] {
        rolls_back(name).await;
    }
}

#[tokio::test]
async fn recorded_hosts_are_reset() {
    for name in WHOLE {
        resets(name).await;
    }
}
