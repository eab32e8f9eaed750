//! What is wrong with what was typed: said first, with the exit code that a script can act on.

use std::fs;

use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

use crate::site::{Site, closed_port, cluster_yaml};

/// A site with a cluster.yaml of the operator.
fn site() -> (Site, String) {
    let site = Site::new();
    let file = site.path("cluster.yaml");
    fs::write(&file, cluster_yaml(&[("node1", closed_port())])).unwrap();
    (site, file.display().to_string())
}

#[test]
fn what_is_wrong_with_the_arguments_is_told_before_a_yes_is_asked_for() {
    let (site, file) = site();
    let bundle = site.bundle(closed_port());
    let bundle = bundle.to_str().unwrap();
    let wrong: [(&[&str], i32, &str); 15] = [
        (&["create", "--bundle", "/nowhere"], 37, "/nowhere does not exist"),
        (&["upgrade", "--bundle", "/nowhere"], 37, "/nowhere does not exist"),
        (&["create", "--bundle", bundle, "-f", "/nowhere.yaml"], 20, "/nowhere.yaml"),
        (&["add-node", "node7", "--bundle", bundle, "-f", &file], 20, "node7"),
        (&["run", "/nowhere.json", "--bundle", bundle], 20, "/nowhere.json"),
        (&["reset", "-f", "/nowhere.yaml"], 20, "/nowhere.yaml"),
        (&["reset", "-f", &file, "--only", "node7"], 20, "node7"),
        (&["reset", "-f", &file, "--roll-back", "RUN"], 2, "has no run RUN"),
        (&["delete-node", "node7", "-f", &file], 20, "node7"),
        (&["certs", "renew", "-f", "/nowhere.yaml"], 20, "/nowhere.yaml"),
        (&["registry", "prune", "-f", "/nowhere.yaml"], 20, "/nowhere.yaml"),
        (&["restore", "/nowhere", "-f", &file], 57, "/nowhere is no backup"),
        (&["restore", "/nowhere.db", "-f", &file], 57, "/nowhere.db is no snapshot of etcd"),
        (&["create", "--from-backup", "/nowhere", "--bundle", bundle], 57, "/nowhere is no backup"),
        (&["rollback", "RUN"], 2, "there is no run RUN"),
    ];
    for (args, code, text) in wrong {
        let refused = site.install(args).assert().code(code);
        refused.stderr(contains(text).and(contains("-y").not()));
    }
}

#[test]
fn a_change_without_a_terminal_needs_a_yes_before_a_host_is_contacted() {
    let (site, file) = site();
    let bundle = site.bundle(closed_port());
    let bundle = bundle.to_str().unwrap();
    let changes: [&[&str]; 9] = [
        &["--bundle", bundle],
        &["create", "--bundle", bundle],
        &["upgrade", "--bundle", bundle],
        &["addons", "apply", "--bundle", bundle],
        &["reset", "-f", &file],
        &["delete-node", "node1", "-f", &file],
        &["adopt", "-f", &file],
        &["certs", "renew", "-f", &file],
        &["registry", "prune", "-f", &file],
    ];
    for args in changes {
        site.install(args).assert().code(11).stderr(contains("-y").and(contains("/nowhere/key").not()));
    }
}

#[test]
fn a_command_line_that_is_not_understood_is_an_event_with_json_and_a_text_without() {
    let site = Site::new();
    for (args, text) in [
        (&["preflight", "--json"][..], "--bundle"),
        (&["preflight", "--bundel", "x", "--json"], "'--bundle'"),
        (&["prefligt", "--json"], "'preflight'"),
        (&["status", "--json", "--watch"], "cannot be used with"),
        (&["--json"], "--bundle"),
    ] {
        let output = site.install(args).assert().code(2).stderr("").get_output().stdout.clone();
        let result: Value = serde_json::from_slice(&output).unwrap();
        assert_eq!(result["schema"], "kubexm.io/event/v1", "{result}");
        assert_eq!((result["type"].as_str(), result["ok"].as_bool()), (Some("result"), Some(false)), "{result}");
        assert_eq!(result["exitCode"], 2, "{result}");
        let summary = result["summary"].as_str().unwrap();
        assert!(summary.contains(text) && !summary.starts_with("error"), "{result}");
    }
    site.install(&["preflight"]).assert().code(2).stdout("").stderr(contains("error: ").and(contains("Usage:")));
    site.install(&["preflight", "--json", "--help"]).assert().success().stdout(contains("Usage:"));
}

#[test]
fn a_file_of_known_hosts_that_is_named_and_not_there_is_an_error_unless_it_may_be_made() {
    let (site, file) = site();
    let none = site.path("none").display().to_string();
    for verb in [&["status"][..], &["reset", "-y"], &["certs", "check"], &["backup", "--to", "backups"]] {
        let refused = site.install(&[verb, &["-f", &file, "--known-hosts", &none]].concat()).assert().code(20);
        refused.stderr(contains(format!("--known-hosts {none}: there is no such file")).and(contains("--accept-new")));
    }
    let folder = site.folder.path().to_str().unwrap();
    let refused = site.install(&["status", "-f", &file, "--known-hosts", folder]).assert().code(20);
    refused.stderr(contains("it is a folder"));
    let made = site.install(&["status", "-f", &file, "--known-hosts", &none, "--accept-new-host-keys"]).assert();
    made.code(51).stderr(contains("/nowhere/key"));
}
