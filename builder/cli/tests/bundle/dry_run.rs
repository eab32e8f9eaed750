//! `build --dry-run`: the list comes first, without a network, platform by platform.

use kubexm_spec::ExitCode;
use serde_json::{Value, json};

use crate::images::two_platforms;
use crate::registry::{Registry, Setup};
use crate::server::{Server, nobody};
use crate::site::{Site, assert_contains, end, noise, wanted};

fn sum(document: &Value, platform: &Value) -> Value {
    let all = document["platforms"].as_array().unwrap();
    all.iter().find(|sum| sum["platform"] == *platform).unwrap_or_else(|| panic!("{document}")).clone()
}

#[test]
fn sizes_are_asked_only_when_that_is_wanted_and_shared_layers_count_once() {
    let (site, registry) = (Site::new(), Registry::start(Setup::default()));
    let server = Server::files(vec![("tool", noise(5, 12_345))]);
    let (made, ..) = two_platforms(site.path("made"), "v1");
    registry.push(made.path(), "mirror/app", "v1");
    site.zone("registry.test", &format!("{}/mirror", registry.address));
    site.extras(&format!(
        "platforms: [linux/amd64, linux/arm64]\nextraImages: [{{name: registry.test/app:v1}}]\nextraFiles:\n{}",
        wanted(&server.url("tool"), &noise(5, 12_345))
    ));
    let list = site.build(&["--zone", "zone.yaml", "--dry-run"]).must(ExitCode::Ok).out;
    assert_contains(
        &list,
        &["linux/amd64: 1 artifact of", "linux/arm64: 1 artifact of", "every platform: 1", "in all: 3", "--sizes"],
    );
    assert!(server.requests().is_empty());

    let document = site.build(&["--zone", "zone.yaml", "--dry-run", "--sizes", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(server.requests().iter().map(|r| r.method.as_str()).collect::<Vec<_>>(), ["HEAD"]);
    assert_eq!(sum(&document, &Value::Null), json!({"artifacts": 1, "bytes": 12_345, "unknown": 0, "platform": null}));
    let of = |platform: &str| sum(&document, &json!(platform))["bytes"].as_u64().unwrap();
    let total = document["total"]["bytes"].as_u64().unwrap();
    // One layer of 60,000 bytes is in both images, and the index.
    let shared = of("linux/amd64") + of("linux/arm64") + 12_345 - total;
    assert!((60_000..62_000).contains(&shared), "{shared} of {document}");
    assert_eq!(document["total"]["unknown"], 0);
}

#[test]
fn a_dry_run_works_without_a_network() {
    let site = Site::new();
    site.extras(&format!("extraFiles:\n{}", wanted(&format!("http://{}/tool", nobody()), b"x")));
    let document = site.build(&["--dry-run", "--sizes", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["items"][0]["size"], Value::Null);
    assert_eq!(document["total"], json!({"artifacts": 1, "bytes": 0, "unknown": 1}));
}

#[test]
fn a_lock_and_files_of_this_machine_give_sizes_without_asking() {
    let (site, server) = (Site::new(), Server::files(vec![("tool", noise(5, 12_345))]));
    site.write("notes.txt", "12345678");
    site.extras(&format!("extraFiles:\n{}\n- {{path: notes.txt}}", wanted(&server.url("tool"), &noise(5, 12_345))));
    let before = site.build(&["--dry-run", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(before["total"], json!({"artifacts": 2, "bytes": 8, "unknown": 1}));
    site.run(&["lock", "-f", "cluster.yaml"]).must(ExitCode::Ok);
    let asked = server.requests().len();
    let after = site.build(&["--dry-run", "--locked", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(after["total"], json!({"artifacts": 2, "bytes": 12_353, "unknown": 0}));
    assert_eq!(server.requests().len(), asked);
}

#[test]
fn unverified_catalogue_data_is_reported_before_the_build() {
    let site = Site::new();
    let build = |version: &str, more: &[&str]| {
        site.run(&[&["build", "--kubernetes", version, "--dry-run"], more].concat()).must(ExitCode::Ok)
    };
    let ended = build("v1.34.99", &[]);
    assert_contains(
        &ended.err,
        &[
            "warning: unverified: Kubernetes 1.34.99: the catalogue does not know this patch",
            "warning: unverified: Kubernetes 1.34.99: its image tags are those of an older patch",
        ],
    );
    let document = build("v1.34.99", &["--json"]).document();
    let kinds: Vec<&Value> = document["unverified"].as_array().unwrap().iter().map(|doubt| &doubt["kind"]).collect();
    assert_eq!(kinds, ["unknown-patch", "constants"]);
    assert_eq!(document["unverified"][1]["keys"][1], "image/coredns");
    assert_eq!(build("v1.34.4", &["--json"]).document()["unverified"], json!([]));
    let explained = |item: &str, more: &[&str]| {
        site.run(&[&["explain", item, "--kubernetes", "v1.34.99"], more].concat()).must(ExitCode::Ok)
    };
    assert_contains(&explained("pause", &[]).out, &["doubt", "its image tags are those of an older patch"]);
    assert!(!explained("runc", &[]).out.contains("doubt"));
    let document = explained("pause", &["--json"]).document();
    assert_eq!(document["items"][0]["unverified"].as_array().unwrap().len(), 1, "{document}");
}

/// Seconds of 2026-01-01 and 2026-12-01: before and after the ends of Kubernetes 1.34 and of its containerd.
const BEFORE: &str = "1767225600";
const AFTER: &str = "1796083200";

#[test]
fn release_lines_after_their_end_of_life_are_reported_and_do_not_change_versions() {
    let site = Site::new();
    site.write(
        "cluster.yaml",
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: x}\nspec:\n  kubernetes: {version: v1.34.4}\n  runtime: {version: 2.2.7}\n",
    );
    let document = |day: &str| {
        let args = ["build", "-f", "cluster.yaml", "--dry-run", "--json"];
        end(site.program().args(args).env("SOURCE_DATE_EPOCH", day)).must(ExitCode::Ok).document()
    };
    let (before, after) = (document(BEFORE), document(AFTER));
    assert_eq!(before["notices"], json!([]));
    assert_eq!(after["notices"][0]["kind"], "end-of-life");
    let warnings = after["warnings"].to_string();
    assert_contains(
        &warnings,
        &["Kubernetes 1.34.4: upstream ended 1.34 on 2026-10-27", "containerd 2.2.7: upstream ended its line"],
    );
    assert_eq!(before["items"], after["items"]);
    // what was compared with upstream is said, too
    assert_eq!(before["verified"][0]["about"], "Kubernetes 1.34.4");
    assert_eq!(before["verified"][0]["tag"], "v1.34.10");
    // a day that is none is a slip, not today
    let args = ["build", "--kubernetes", "v1.34.4", "--dry-run"];
    let ended = end(site.program().args(args).env("SOURCE_DATE_EPOCH", "yesterday")).must(ExitCode::Usage);
    assert_contains(&ended.err, &["SOURCE_DATE_EPOCH is \"yesterday\""]);
}

#[test]
fn a_rule_of_a_zone_file_that_nothing_needs_is_reported_and_those_of_a_builtin_zone_are_not() {
    let site = Site::new();
    let rules = "- {match: dl.k8s.io, to: [mirror.test]}\n- {match: ghrc.io, to: [mirror.test]}\n";
    site.write("zone.yaml", format!("name: mine\nrules:\n{rules}"));
    let warnings = |zone: &str| {
        let args = ["build", "--kubernetes", "v1.34.4", "--dry-run", "--zone", zone, "--json"];
        end(site.program().args(args).env("SOURCE_DATE_EPOCH", BEFORE)).must(ExitCode::Ok).document()["warnings"]
            .clone()
    };
    assert_eq!(
        warnings("zone.yaml"),
        json!(["zone mine: nothing that is needed is fetched through the rule for ghrc.io"])
    );
    assert_eq!(warnings("cn"), json!([]));
}
