//! Harbor's projects: those of others are not pushed to.

#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

use kubexm_ops::dispatch;
use kubexm_ops::fake::harbor_host::{harbor, projects};
use kubexm_plan::op::Op;
use serde_json::Value;

use crate::common::Host;

const STATE: &str = "/run/kubexm-double/state.json";

/// Its projects, on a host where it runs.
fn running(host: &mut Host) -> Op {
    harbor(host);
    projects(host, &["ghcr.io", "registry.k8s.io"], false).into()
}

fn change(host: &Host, change: impl FnOnce(&mut Value)) {
    let mut state: Value = serde_json::from_str(&host.read(STATE)).expect("JSON");
    change(&mut state["harbor"]);
    host.put(STATE, state.to_string());
}

#[test]
fn a_project_that_another_user_has_made_is_refused_by_name() {
    let mut host = Host::fresh();
    let op = running(&mut host);
    dispatch::converge(&op, &host.machine).expect("projects");
    assert!(dispatch::observe(&op, &host.machine).expect("a look").satisfied);
    change(&host, |harbor| harbor["projects"]["ghcr.io"]["owner"] = "mallory".into());
    assert!(!dispatch::observe(&op, &host.machine).expect("a look").satisfied);
    let error = dispatch::converge(&op, &host.machine).expect_err("whose tags mallory moves").full();
    assert!(error.contains("ghcr.io") && error.contains("mallory") && error.contains("delete the project"), "{error}");
}

/// Whom that user has added may still push.
#[test]
fn a_project_whose_makers_account_is_deleted_is_not_the_administrators() {
    let mut host = Host::fresh();
    let op = running(&mut host);
    dispatch::converge(&op, &host.machine).expect("projects");
    change(&host, |harbor| harbor["projects"]["ghcr.io"]["owner"] = "(deleted)".into());
    assert!(!dispatch::observe(&op, &host.machine).expect("a look").satisfied);
    let error = dispatch::converge(&op, &host.machine).expect_err("nobody knows whose it is").full();
    assert!(error.contains("ghcr.io") && error.contains("account is deleted"), "{error}");
}

#[test]
fn a_robot_that_may_do_more_than_pull_is_given_its_rights_anew() {
    let mut host = Host::fresh();
    let op = running(&mut host);
    dispatch::converge(&op, &host.machine).expect("projects");
    let push = serde_json::json!({"resource": "repository", "action": "push"});
    let more: [&dyn Fn(&mut Value); 2] =
        [&|permissions| permissions[0]["access"].as_array_mut().expect("a list").push(push.clone()), &|permissions| {
            permissions[0]["namespace"] = "*".into()
        }];
    for more in more {
        change(&host, |harbor| more(&mut harbor["robots"]["1"]["permissions"]));
        assert!(!dispatch::observe(&op, &host.machine).expect("a look").satisfied);
        dispatch::converge(&op, &host.machine).expect("its rights");
        assert!(dispatch::observe(&op, &host.machine).expect("a look").satisfied);
    }
}

/// A pod of an earlier bundle may be made again, on a node that has not its image.
#[test]
fn a_robot_keeps_the_right_to_pull_what_an_earlier_bundle_brought() {
    let mut host = Host::fresh();
    let op = running(&mut host);
    dispatch::converge(&op, &host.machine).expect("projects");
    let next = projects(&mut host, &["quay.io"], false).into();
    dispatch::converge(&next, &host.machine).expect("those of the next bundle");
    let namespaces = |host: &Host| {
        let state: Value = serde_json::from_str(&host.read(STATE)).expect("JSON");
        let all = state["harbor"]["robots"]["1"]["permissions"].as_array().expect("a list").clone();
        all.iter().map(|one| one["namespace"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(namespaces(&host), ["ghcr.io", "quay.io", "registry.k8s.io"]);
    for op in [&op, &next] {
        assert!(dispatch::observe(op, &host.machine).expect("a look").satisfied);
    }
    // What somebody has deleted since, or has made anew, is no longer the cluster's.
    change(&host, |harbor| drop(harbor["projects"].as_object_mut().expect("projects").remove("ghcr.io")));
    change(&host, |harbor| harbor["robots"]["1"]["disable"] = true.into());
    dispatch::converge(&next, &host.machine).expect("its rights");
    assert_eq!(namespaces(&host), ["quay.io", "registry.k8s.io"]);
}
