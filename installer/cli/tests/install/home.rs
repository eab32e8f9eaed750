//! What is reported about runs, from the journals alone.

use kubexm_engine::journal::{Ended, Entry, Journal, Record};
use kubexm_engine::{Run, RunId};
use kubexm_plan::lint;
use kubexm_recipes::sample;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

use crate::site::{Site, closed_port};

#[test]
fn an_empty_home_has_no_runs_and_says_how_to_begin_one() {
    let site = Site::new();
    site.install(&["status"]).assert().success().stdout(contains("no runs yet"));
    let output = site.install(&["status", "--json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document, serde_json::json!({ "schema": "kubexm.io/status/v1", "clusters": [] }));
    site.install(&["report"]).assert().code(2).stderr(contains("no runs yet"));
    site.install(&["report", "20260101T000000Z-0000"]).assert().code(2).stderr(contains("there is no run"));
}

#[test]
fn there_is_nothing_to_resume_in_an_empty_home() {
    let site = Site::new();
    let bundle = site.bundle(closed_port());
    let bundle = bundle.to_str().unwrap();
    site.install(&["resume", "--bundle", bundle]).assert().code(2).stderr(contains("demo has no run"));
    site.install(&["resume", "nope", "--bundle", bundle]).assert().code(2).stderr(contains("no run nope"));
}

#[test]
fn resume_names_the_unfinished_run_of_a_cluster_that_the_bundle_does_not_name() {
    let site = Site::new();
    let id = RunId::named("20260101T000000Z-0001");
    let run = Run::create(&site.path("home/clusters/plant-7/runs"), id.clone(), &plan()).unwrap();
    let bundle = site.bundle(closed_port());
    let resume = |more: &[&str]| {
        site.install(&[&["resume", "--bundle", bundle.to_str().unwrap()], more].concat()).assert().code(2)
    };
    let other = format!("run {} of cluster plant-7 can be continued with: resume", id.as_str());
    resume(&[]).stderr(contains("demo has no run"));
    start(&run);
    resume(&[]).stderr(contains("demo has no run").and(contains(other.as_str())));
    resume(&[id.as_str()]).stderr(contains("no run 2026").and(contains(other.as_str())));
}

#[test]
fn a_run_is_seen_by_status_and_report_and_resumed_only_with_its_own_bundle() {
    let site = Site::new();
    let runs = site.path("home/clusters/demo/runs");
    let id = RunId::named("20260101T000000Z-0001");
    Run::create(&runs, id.clone(), &plan()).unwrap();

    site.install(&["status"]).assert().success().stdout(contains(id.as_str()).and(contains("not started")));
    let output = site.install(&["status", "demo", "--json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["clusters"][0]["runs"][0]["run"], id.as_str());
    site.install(&["report", id.as_str()]).assert().success().stdout(contains("# create of cluster demo"));
    let output = site.install(&["report", "--json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "kubexm.io/run-status/v2");

    let bundle = site.bundle(closed_port());
    let resumed = site.install(&["resume", "--bundle", bundle.to_str().unwrap()]).assert().code(61);
    resumed.stderr(contains("belongs to another"));
}

#[test]
fn status_says_which_bundle_is_installed_who_signed_it_and_when() {
    let site = Site::new();
    let cluster = site.path("home/clusters/demo");
    Run::create(&cluster.join("runs"), RunId::named("20260101T000000Z-0001"), &plan()).unwrap();
    let json = || -> Value {
        let output = site.install(&["status", "--json"]).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["clusters"][0]["installed"].clone()
    };
    site.install(&["status"]).assert().success().stdout(contains("installed").not());
    assert_eq!(json(), Value::Null);
    let manifest = format!("sha256:{}", "ab".repeat(32));
    for (more, says) in [
        (
            r#","signers":["0123"],"date":1790000001,"sequence":7"#,
            "signed by key 0123 at 2026-09-21T14:13:21Z, sequence 7",
        ),
        (r#","signers":["0123"]"#, "signed by key 0123, without a date"),
        ("", "NOT SIGNED"),
    ] {
        let bundle = format!(r#"{{"manifest":"{manifest}"{more}}}"#);
        let record = format!(r#"{{"schema":"kubexm.io/installed/v1","run":"r","bundle":{bundle}}}"#);
        std::fs::write(cluster.join("installed.json"), record).unwrap();
        let line = format!("installed: bundle {manifest}, {says}\n");
        site.install(&["status"]).assert().success().stdout(contains(line));
        assert_eq!(json(), serde_json::from_str::<Value>(&bundle).unwrap());
    }
    std::fs::write(cluster.join("installed.json"), "{").unwrap();
    site.install(&["status"])
        .assert()
        .success()
        .stdout(contains("installed.json says which bundle").and(contains("not started")));
    assert!(json()["error"].as_str().unwrap().contains("cannot be read"));
}

#[test]
fn files_and_folders_that_somebody_left_beside_clusters_and_runs_are_no_runs() {
    let site = Site::new();
    let runs = site.path("home/clusters/demo/runs");
    let id = RunId::named("20260101T000000Z-0001");
    Run::create(&runs, id.clone(), &plan()).unwrap();
    std::fs::write(site.path("home/clusters/README"), "ours").unwrap();
    std::fs::write(runs.join("notes.txt"), "call Jo").unwrap();
    std::fs::create_dir(runs.join("old")).unwrap();
    let shown = site.install(&["status"]).assert().success();
    shown.stdout(contains(id.as_str()).and(contains("notes").not()).and(contains("old").not()));
    site.install(&["report"]).assert().success().stdout(contains("# create of cluster demo"));
}

#[test]
fn a_run_that_cannot_be_read_does_not_hide_the_others_and_ends_every_verb_that_needs_it_with_71() {
    let site = Site::new();
    let runs = site.path("home/clusters/demo/runs");
    let (lost, whole) = ("20260101T000000Z-0002", "20260101T000000Z-0003");
    Run::create(&runs, RunId::named("20260101T000000Z-0001"), &plan()).unwrap();
    std::fs::create_dir(runs.join(lost)).unwrap();
    std::fs::write(runs.join(lost).join("sequence"), "2\n").unwrap();
    let all = || contains("20260101T000000Z-0001").and(contains(lost)).and(contains("cannot be read"));
    site.install(&["status"]).assert().code(71).stdout(all());
    let output = site.install(&["status", "--json"]).assert().code(71).get_output().stdout.clone();
    let document: Value = serde_json::from_slice(&output).unwrap();
    assert!(
        document["clusters"][0]["runs"][1]["error"].as_str().unwrap().contains("plan.json is damaged"),
        "{document}"
    );
    for verb in [&["report"][..], &["report", lost], &["resume"], &["rollback", "-y"], &["resume", lost]] {
        site.install(verb).assert().code(71).stderr(contains("plan.json is damaged: it is missing"));
    }
    let bundle = site.bundle(closed_port());
    for verb in [&["resume"][..], &["rollback", "-y"]] {
        let args = [verb, &["--bundle", bundle.to_str().unwrap()]].concat();
        site.install(&args).assert().code(71).stderr(contains("plan.json is damaged: it is missing"));
    }
    // Nothing depends on one that was followed by others.
    Run::create(&runs, RunId::named(whole), &plan()).unwrap();
    site.install(&["status"]).assert().success().stdout(all().and(contains(whole)));
}

#[test]
fn a_run_is_not_rolled_back_before_later_runs() {
    let site = Site::new();
    let runs = site.path("home/clusters/demo/runs");
    for id in ["20260101T000000Z-0001", "20260101T000000Z-0002"] {
        start(&Run::create(&runs, RunId::named(id), &plan()).unwrap());
    }
    let bundle = site.bundle(closed_port());
    let back = |run: &str| site.install(&["rollback", run, "-y", "--bundle", bundle.to_str().unwrap()]).assert();
    back("20260101T000000Z-0001").code(2).stderr(contains("followed by run 20260101T000000Z-0002"));
    // The last one is let through, to be refused for its bundle.
    back("20260101T000000Z-0002").code(61).stderr(contains("belongs to another"));
}

#[test]
fn a_run_that_ended_well_is_rolled_back_only_when_it_is_named() {
    let site = Site::new();
    let id = RunId::named("20260101T000000Z-0001");
    let run = Run::create(&site.path("home/clusters/demo/runs"), id.clone(), &plan()).unwrap();
    let mut journal = Journal::open(&run.dir().join("journal.jsonl")).unwrap().0;
    journal.append(&started(&run)).unwrap();
    for step in &plan().plan().steps {
        journal.append(&Entry::now(Record::StepSatisfied { step: step.id.clone(), duration_ms: 1 })).unwrap();
    }
    journal.append(&Entry::now(Record::RunEnded { outcome: Ended::Succeeded })).unwrap();
    let bundle = site.bundle(closed_port());
    let back = |args: &[&str]| {
        let bundle = bundle.to_str().unwrap();
        site.install(&[&["rollback", "-y", "--bundle", bundle], args].concat()).assert()
    };
    back(&[]).code(2).stderr(contains("succeeded").and(contains(format!("name it: {}", id.as_str()))));
    back(&[id.as_str()]).code(61).stderr(contains("belongs to another"));
}

#[test]
fn resume_and_rollback_without_arguments_find_the_run_and_its_bundle_and_say_what_to_type_without_it() {
    let site = Site::new();
    let bundle = site.bundle(closed_port());
    let id = RunId::named("20260101T000000Z-0001");
    let run = Run::create(&site.path("home/clusters/demo/runs"), id.clone(), &plan()).unwrap();
    let command = |verb| format!("/usr/bin/kubexm-install {verb} {id} --bundle {}", bundle.display());
    let begun = started_by(&run, &command("resume"), &command("rollback"));
    Journal::open(&run.dir().join("journal.jsonl")).unwrap().0.append(&begun).unwrap();
    for (verb, more) in [("resume", None), ("rollback", Some("-y"))] {
        let typed = || site.install(&std::iter::once(verb).chain(more).collect::<Vec<_>>()).assert();
        // The bundle is another one than that of the plan.
        let said = format!("run {id} of cluster demo was started with {}", bundle.display());
        let to_type = format!("{verb} {id} --bundle FILE");
        typed().code(61).stderr(contains(said.as_str()).and(contains("was replaced")).and(contains(to_type.as_str())));
        let aside = bundle.with_extension("aside");
        std::fs::rename(&bundle, &aside).unwrap();
        typed().code(2).stderr(contains("which is not there now").and(contains(to_type.as_str())));
        std::fs::rename(&aside, &bundle).unwrap();
    }
}

/// Writes down that a run has begun.
pub fn start(run: &Run) {
    Journal::open(&run.dir().join("journal.jsonl")).unwrap().0.append(&started(run)).unwrap();
}

fn started(run: &Run) -> Entry {
    started_by(run, "resume", "rollback")
}

fn started_by(run: &Run, resume: &str, rollback: &str) -> Entry {
    let (tool, resume, rollback) = ("test".to_owned(), resume.to_owned(), rollback.to_owned());
    Entry::now(Record::RunStarted { plan: run.plan_digest(), tool, resume, rollback })
}

pub fn plan() -> kubexm_plan::CheckedPlan {
    lint::check(sample::plan(&sample::cluster()).unwrap()).unwrap().0
}
