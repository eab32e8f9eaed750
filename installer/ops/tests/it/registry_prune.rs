//! Records of bundles go, the depot reads again, and they come back with a rollback; blobs go for good, and none that is needed. What the
//! depot has is read, and who uses an image is found.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::common::{Host, same};
use kubexm_ops::{Wave, depot_content, dispatch, probe, step};
use kubexm_plan::depot::{BUNDLES, CONFIG, UNIT, record_path};
use kubexm_plan::op::{Blobs, BlobsRemoved, BundlesRemoved};
use kubexm_plan::{ObservedState, Op, Probe, Step, Undo};
use kubexm_spec::Digest;
use kubexm_spec::depot::{DepotConfig, Repository, SCHEMA, Tls};
use serde_json::json;

fn config(images: &[(&str, &str)]) -> DepotConfig {
    let repository = |content: &&str| Repository {
        tags: [("1".to_owned(), Digest::of(content))].into(),
        manifests: [Digest::of(content)].into(),
        blobs: [Digest::of("shared layer")].into(),
    };
    DepotConfig {
        schema: SCHEMA.to_owned(),
        listen: SocketAddr::from(([0, 0, 0, 0], 5443)),
        store: "/var/lib/kubexm/store".to_owned(),
        tls: Tls { cert: "/etc/kubexm/depot/tls.crt".to_owned(), key: "/etc/kubexm/depot/tls.key".to_owned() },
        login: None,
        images: images.iter().map(|(name, content)| ((*name).to_owned(), repository(content))).collect(),
        files: BTreeMap::new(),
        packages: None,
    }
}

fn text(config: &DepotConfig) -> String {
    serde_json::to_string(config).expect("JSON")
}

/// A depot of two bundles that runs; the second is the present one.
fn depot() -> Host {
    let host = Host::fresh();
    let (first, second) = (config(&[("a.b/old", "old"), ("a.b/new", "older")]), config(&[("a.b/new", "new")]));
    host.put(&record_path("v1-first"), text(&first));
    host.put(&record_path("v2-second"), text(&second));
    host.put(CONFIG, text(&second));
    host.put("/etc/kubexm/depot/ca.crt", "a certificate\n");
    for blob in ["old", "older", "new", "shared layer"] {
        host.blob(blob);
    }
    host.put("/usr/local/bin/kubexm-install", "#!/bin/true\n");
    let unit = "[Service]\nExecStart=/usr/local/bin/kubexm-install depot\nExecReload=/bin/kill -HUP $MAINPID\n\
                [Install]\nWantedBy=multi-user.target\n";
    host.put(&format!("/etc/systemd/system/{UNIT}"), unit);
    let unit = kubexm_plan::op::Unit {
        name: UNIT.to_owned(),
        enabled: true,
        running: Some(true),
        loaded: Vec::new(),
        reloaded: Vec::new(),
    };
    converge(&host, &unit.into());
    host
}

fn first(host: &Host) -> Op {
    let digest = Digest::of(host.read(&record_path("v1-first")));
    BundlesRemoved { bundles: [("v1-first".to_owned(), digest)].into() }.into()
}

fn blobs(of: &[&str]) -> Op {
    let blobs = of.iter().map(|text| (Digest::of(text), text.len() as u64)).collect();
    BlobsRemoved { blobs }.into()
}

fn look(host: &Host, op: &Op) -> ObservedState {
    dispatch::observe(op, &host.machine).unwrap_or_else(|error| panic!("{}", error.full()))
}

fn converge(host: &Host, op: &Op) {
    dispatch::keep(op, &host.machine).unwrap_or_else(|error| panic!("{}", error.full()));
    dispatch::converge(op, &host.machine).unwrap_or_else(|error| panic!("{}", error.full()));
    assert!(look(host, op).satisfied, "{}", look(host, op).raw());
}

fn refused(host: &Host, op: &Op) -> String {
    dispatch::converge(op, &host.machine).expect_err("a refusal").full()
}

#[test]
fn a_record_goes_and_comes_back_byte_for_byte_also_when_it_went_only_half_way() {
    let host = depot();
    let (op, before) = (first(&host), host.tree());
    let found = look(&host, &op);
    assert!(!found.satisfied);
    converge(&host, &op);
    assert!(!host.machine.path(record_path("v1-first")).exists());
    let content = depot_content::look(&host.machine).expect("a look");
    assert_eq!(content.left.keys().collect::<Vec<_>>(), ["v1-first"], "its blobs are there");
    let traces = host.traces();
    assert!(look(&host, &op).satisfied);
    same(&traces, &host.traces(), "looking again changed something");
    let back = |host: &Host| {
        for wave in Wave::ALL {
            dispatch::restore(&op, &host.machine, &found, wave).unwrap_or_else(|error| panic!("{}", error.full()));
        }
        same(&before, &host.tree(), "a rollback left a difference");
    };
    back(&host);

    // Killed after the record got its other name: the depot may serve it still.
    let record = host.machine.path(record_path("v1-first"));
    std::fs::rename(&record, record.with_extension("json.leaving")).expect("a rename");
    assert!(!look(&host, &op).satisfied, "the depot has not read its folder yet");
    let content = depot_content::look(&host.machine).expect("a look");
    assert!(content.bundles.contains_key("v1-first"), "the next removal has it again");
    back(&host);
    std::fs::rename(&record, record.with_extension("json.leaving")).expect("a rename");
    converge(&host, &op);
    back(&host);
}

#[test]
fn a_record_that_was_written_again_is_refused() {
    let host = depot();
    let op = first(&host);
    host.put(&record_path("v1-first"), text(&config(&[("a.b/old", "another")])));
    let text = refused(&host, &op);
    assert!(text.contains("v1-first") && text.contains("registry prune"), "{text}");
    assert!(host.machine.path(record_path("v1-first")).exists());
}

#[test]
fn only_blobs_that_nothing_names_are_deleted_and_all_of_them_or_none() {
    let host = depot();
    // Still served: its record is there.
    let text = refused(&host, &blobs(&["old", "older"]));
    assert!(text.contains("is needed by a bundle"), "{text}");
    converge(&host, &first(&host));
    for needed in ["new", "shared layer"] {
        let text = refused(&host, &blobs(&["old", needed]));
        assert!(text.contains(&Digest::of(needed).to_string()), "{text}");
    }
    assert!(host.machine.blob(&Digest::of("old")).exists(), "nothing is deleted when one is needed");
    converge(&host, &blobs(&["old", "older", "never there"]));
    assert!(!host.machine.blob(&Digest::of("old")).exists() && host.machine.blob(&Digest::of("new")).exists());
    assert!(depot_content::look(&host.machine).expect("a look").left.is_empty(), "nothing is left of it");
}

#[test]
fn what_a_run_has_brought_for_the_next_bundle_is_not_deleted_before_the_depot_knows_it() {
    let host = depot();
    converge(&host, &first(&host));
    let brought = BTreeMap::from([(Digest::of("old"), 3)]);
    let fill = Step::on("node1", "store.fill", "")
        .ensure(Blobs { blobs: brought, depots: None, shared_at: None })
        .undo(Undo::RestoreBefore)
        .build();
    let before = step::observe(&fill, &host.machine).expect("a look");
    step::converge(&fill, &host.machine, "upgrade", 1, &before).expect("all is there");
    let text = refused(&host, &blobs(&["old"]));
    assert!(text.contains(&Digest::of("old").to_string()), "{text}");
    for wave in Wave::ALL {
        step::undo(&fill, &host.machine, "upgrade", 1, &before, wave).expect("an undo");
    }
    converge(&host, &blobs(&["old"]));
}

#[test]
fn a_record_that_cannot_be_read_is_named_and_nothing_is_deleted() {
    let host = depot();
    converge(&host, &first(&host));
    host.put(&format!("{BUNDLES}/broken.json"), "{");
    let found = depot_content::look(&host.machine).expect("a look");
    assert_eq!(found.unreadable.keys().collect::<Vec<_>>(), [&record_path("broken")]);
    let text = refused(&host, &blobs(&["old"]));
    assert!(text.contains("broken.json"), "{text}");
    assert!(host.machine.blob(&Digest::of("old")).exists());
}

#[test]
fn what_a_depot_has_is_read_with_the_sizes_of_its_blobs() {
    let host = depot();
    let found = depot_content::look(&host.machine).expect("a look");
    assert_eq!(found.bundles.keys().collect::<Vec<_>>(), ["v1-first", "v2-second"]);
    assert_eq!(found.config.as_ref().map(|config| &config.images), Some(&config(&[("a.b/new", "new")]).images));
    assert_eq!(found.blobs.get(&Digest::of("shared layer")), Some(&12));
    assert_eq!(found.blobs.len(), 4);
    assert_eq!(depot_content::look(&Host::fresh().machine).expect("a look"), Default::default());
}

#[test]
fn a_depot_is_asked_whether_it_has_read_its_folder_again() {
    let host = depot();
    let ask = |host: &Host| {
        let probe = Probe::DepotLacks {
            url: "https://10.0.0.11:5443".to_owned(),
            ca: "/etc/kubexm/depot/ca.crt".to_owned(),
            login: None,
            blobs: [Digest::of("old")].into(),
        };
        probe::look(&probe, &host.machine).expect("an answer")
    };
    let answer = ask(&host);
    assert!(!answer.holds && answer.seen.contains("404 is expected"), "{answer:?}");
    converge(&host, &first(&host));
    assert!(ask(&host).holds, "{:?}", ask(&host));
}

#[test]
fn who_uses_an_image_is_named_and_without_an_answer_nobody_knows() {
    let host = depot();
    let ask = |host: &Host| {
        probe::look(&Probe::ImagesUnused { images: ["docker.io/library/busybox:1".to_owned()].into() }, &host.machine)
            .expect("an answer")
    };
    let answer = ask(&host);
    assert!(!answer.holds, "there is no cluster: {answer:?}");
    host.with_cluster();
    assert!(ask(&host).holds, "{:?}", ask(&host));
    let cron = json!([{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly", "namespace": "a"},
        "spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}}}}}]);
    host.put("/run/kubexm-double/workloads.json", cron.to_string());
    let answer = ask(&host);
    assert!(!answer.holds && answer.seen.contains("CronJob a/nightly"), "{answer:?}");
}
