//! The report of a run, from the folders of the controller alone.

use kubexm_engine::{Run, RunId};
use kubexm_plan::lint;
use kubexm_recipes::sample;
use kubexm_session::{Home, SessionError};
use kubexm_spec::{ExitCode, ExitError as _};

fn create_run(home: &Home, cluster: &str, id: &str) {
    let (plan, _) = lint::check(sample::plan(&sample::cluster()).unwrap()).unwrap();
    Run::create(&home.cluster(cluster).runs(), RunId::named(id), &plan).unwrap();
}

#[test]
fn the_latest_run_of_all_clusters_is_reported_unless_a_cluster_or_a_run_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None, None);
    create_run(&home, "blue", "20260103T000000Z-0001");
    create_run(&home, "red", "20260101T000000Z-0001");
    create_run(&home, "red", "20260102T000000Z-0001");
    let run = |cluster, named| home.run_report(cluster, named).unwrap().status().unwrap().run;
    assert_eq!(run(None, None), "20260103T000000Z-0001");
    assert_eq!(run(Some("red"), None), "20260102T000000Z-0001");
    assert_eq!(run(None, Some("20260101T000000Z-0001")), "20260101T000000Z-0001");
    let text = home.run_report(None, None).unwrap().text().unwrap();
    assert!(text.contains("20260103T000000Z-0001"), "{text}");
}

#[test]
fn a_missing_run_is_a_usage_error_that_says_how_to_find_or_start_one() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None, None);
    let refused = |cluster, named| -> SessionError { home.run_report(cluster, named).unwrap_err() };
    assert_eq!(refused(None, None).exit_code(), ExitCode::Usage);
    assert!(refused(None, None).to_string().contains("no runs yet"));
    create_run(&home, "blue", "20260103T000000Z-0001");
    let other = refused(Some("red"), Some("20260103T000000Z-0001"));
    assert_eq!(other.to_string(), "there is no run 20260103T000000Z-0001; `kubexm-install status` lists the runs");
}
