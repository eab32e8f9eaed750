//! The run that is continued when nothing names it.

use kubexm_engine::journal::{Entry, Journal, Record};
use kubexm_engine::{Run, RunId};
use kubexm_plan::{CheckedPlan, lint};
use kubexm_recipes::sample;
use kubexm_session::{Direction, Home};

fn plan() -> CheckedPlan {
    lint::check(sample::plan(&sample::cluster()).unwrap()).unwrap().0
}

/// A run that began and did not end.
fn died(home: &Home, cluster: &str, id: &str) -> Run {
    let run = Run::create(&home.cluster(cluster).runs(), RunId::named(id), &plan()).unwrap();
    let (resume, rollback) = (format!("resume {id} --bundle x"), format!("rollback {id} --bundle x"));
    let record = Record::RunStarted { plan: run.plan_digest(), tool: "test".to_owned(), resume, rollback };
    Journal::open(&run.dir().join("journal.jsonl")).unwrap().0.append(&Entry::now(record)).unwrap();
    run
}

#[test]
fn the_last_run_of_the_only_cluster_is_found_with_its_command_and_of_several_each_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None, None);
    let found = |named, direction| home.recorded_command(named, direction).map(|found| found.command);
    let error = |named| found(named, Direction::Forward).unwrap_err().to_string();
    assert!(error(None).contains("no runs yet"), "{}", error(None));
    died(&home, "red", "20260101T000000Z-0001");
    died(&home, "red", "20260101T000000Z-0002");
    let resume = "resume 20260101T000000Z-0002 --bundle x";
    assert_eq!(found(None, Direction::Forward).unwrap(), resume);
    assert_eq!(found(None, Direction::Back).unwrap(), "rollback 20260101T000000Z-0002 --bundle x");
    assert_eq!(found(Some("20260101T000000Z-0001"), Direction::Forward).unwrap(), resume.replace("0002", "0001"));
    assert!(error(Some("nope")).contains("there is no run nope"), "{}", error(Some("nope")));

    let other = died(&home, "blue", "20260101T000000Z-0003");
    let both = error(None);
    assert!(both.contains(resume) && both.contains(&resume.replace("0002", "0003")), "{both}");

    // One that cannot be read is not the one to continue, and is named where there is no other.
    std::fs::write(other.dir().join("plan.json"), "{").unwrap();
    assert_eq!(found(None, Direction::Forward).unwrap(), resume);
    std::fs::remove_dir_all(home.cluster("red").folder).unwrap();
    let damaged = error(None);
    assert!(damaged.contains("20260101T000000Z-0003 of cluster blue cannot be read"), "{damaged}");
    assert!(damaged.contains("plan.json"), "{damaged}");
}
