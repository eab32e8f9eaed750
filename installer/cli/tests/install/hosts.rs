//! Hosts that cannot be worked with, and changes that nobody has said yes to.

use std::process::Command;

use kubexm_archive::Bundle;
use kubexm_engine::{Run, RunId};
use kubexm_plan::lint;
use kubexm_spec::Digest;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

use crate::home;
use crate::site::{Site, closed_port, cluster_yaml};

#[test]
fn every_host_that_cannot_be_reached_is_named_in_one_go() {
    let site = Site::new();
    let key = key(&site);
    let yaml = cluster_yaml(&[("node1", closed_port()), ("node2", closed_port())]).replace("/nowhere/key", &key);
    let bundle = site.bundle_with(&yaml, |_| true);
    let bundle = bundle.to_str().unwrap();
    for verb in [&["create", "-y"][..], &["preflight"], &["plan", "create"]] {
        let mut command = site.install(verb);
        let ended = command.args(["--allow-unsigned", "--bundle", bundle]).assert().code(50);
        ended.stderr(contains("cannot reach node1").and(contains("cannot reach node2")));
    }
}

#[test]
fn a_resume_that_does_not_reach_a_worker_says_how_to_continue_without_it() {
    let site = Site::new();
    let yaml = cluster_yaml(&[("node1", closed_port())]).replace("/nowhere/key", &key(&site));
    let path = site.bundle_with(&yaml, |_| true);
    let bundle = Bundle::open(&path).unwrap();
    let mut plan = home::plan().plan().clone();
    plan.cluster = Digest::of(bundle.read("cluster.yaml", 1 << 20).unwrap());
    plan.bundle = Some(bundle.manifest_digest());
    // No real plan is without its first control plane; one whose only host may be left out has no step that needs it.
    plan.steps.retain(|step| step.host != kubexm_plan::CONTROLLER);
    plan.slots.retain(|_, provider| !matches!(provider, kubexm_plan::SlotProvider::AdminKubeconfig { .. }));
    for (run, optional) in [("20260101T000000Z-0001", false), ("20260101T000000Z-0002", true)] {
        plan.hosts.iter_mut().for_each(|host| host.optional = optional);
        let checked = lint::check(plan.clone()).unwrap().0;
        Run::create(&site.path("home/clusters/demo/runs"), RunId::named(run), &checked).unwrap();
        let resumed = site.install(&["resume", run, "--bundle", path.to_str().unwrap()]).assert().code(50);
        let without = contains("to continue without: --max-failed-workers 1");
        if optional {
            resumed.stderr(contains("cannot reach node1").and(without));
        } else {
            resumed.stderr(contains("cannot reach node1").and(without.not()));
        }
    }
}

#[test]
fn with_json_the_last_event_is_the_result() {
    let site = Site::new();
    let key = key(&site);
    let yaml = cluster_yaml(&[("node1", closed_port())]).replace("/nowhere/key", &key);
    let bundle = site.bundle_with(&yaml, |_| true);
    let output = site
        .install(&["preflight", "--json", "--allow-unsigned", "--bundle", bundle.to_str().unwrap()])
        .output()
        .unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((result["type"].as_str(), result["exitCode"].as_u64()), (Some("result"), Some(50)), "{result}");
    let output = site.create(&bundle).arg("--json").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().all(|event| event["schema"] == "kubexm.io/event/v1"), "{text}");
    assert_eq!(events.last().unwrap()["type"], "result");
    assert!(events.len() > 3, "phases must be reported: {text}");
}

#[test]
fn a_key_that_cannot_be_read_is_named_with_its_host() {
    let site = Site::new();
    let bundle = site.bundle(closed_port());
    site.create(&bundle).assert().code(51).stderr(contains("node1").and(contains("/nowhere/key")));
}

#[test]
fn an_invalid_drill_is_refused_before_anything_is_read() {
    let site = Site::new();
    for drill in ["fail", "fail:init", "die:soon", "burn:down"] {
        let refused = site.install(&["create", "-y", "--bundle", "/nowhere", "--drill", drill]).assert().code(2);
        refused.stderr(contains("fail:HOST/STEP or die:N"));
    }
}

fn key(site: &Site) -> String {
    let path = site.path("key");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).status().unwrap();
    assert!(made.success());
    path.display().to_string()
}
