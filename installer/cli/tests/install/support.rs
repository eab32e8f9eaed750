//! The support bundle: what is needed to help, and no secret, wherever one was planted.

use std::collections::BTreeMap;
use std::io::Read;

use kubexm_engine::journal::{Entry, Journal, Record};
use kubexm_engine::{ClusterPki, Run, RunId};
use kubexm_plan::{SlotProvider, lint};
use predicates::str::contains;

use crate::home::{plan, start};
use crate::site::Site;

const RUN: &str = "20260101T000000Z-0001";
/// One for each place and writing; none may come out.
const PLANTED: [(&str, &str, &str); 12] = [
    ("runs/{run}/logs/node1/a.log", "kubeadm join --token {} --v 5", "abcdef.0123456789abcdef"),
    ("runs/{run}/evidence/node1/journal-kubelet.log", "Authorization: Bearer {}", "eyJhbGciOi.PLANTEDjwt.sig"),
    ("runs/{run}/evidence/node1/x.txt", "sudo_password={}", "PLANTED-sudo-word"),
    ("runs/{run}/report.md", "https://admin:{}@registry.site/v2/", "PLANTED-url-word"),
    (
        "runs/{run}/logs/node1/c.log",
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
        "PLANTEDkeyinpem",
    ),
    (
        "pki/registry-ca.key",
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
        "PLANTEDMIGHAgEAMBMGByqGSM49AgEG",
    ),
    ("kubeconfig", "    client-key-data: {}", "UExBTlRFRExTMHRMUzFDUlVkSlRpQlNVMEVn"),
    ("runs/{run}/notes.txt", "{}", "PLANTED-in-a-file-that-is-not-ours"),
    // In a text of the plan, and in a field of each of the others: all three are read again.
    ("runs/{run}/texts", "harbor_admin_password: {}", "PLANTED-word-of-a-text"),
    ("runs/{run}/plan.json", "Join with --token {} now", "fedcba.0123456789fedcba"),
    ("runs/{run}/journal.jsonl", "https://admin:{}@registry.site/v2/ does not answer", "PLANTED-word-in-an-error"),
    // What the controller knows is found even where nothing says what it is.
    ("runs/{run}/logs/node1/b.log", "core dump: xx {} yy", "UExBTlRFRExTMHRMUzFDUlVkSlRpQlNVMEVn"),
];

#[test]
fn no_planted_secret_comes_out_and_what_helps_does() {
    let site = Site::new();
    let cluster = site.path("home/clusters/demo");
    let planted = |name: &str| {
        let (_, text, secret) = PLANTED.iter().find(|(place, ..)| place.ends_with(name)).unwrap();
        text.replace("{}", secret)
    };
    let mut wanted = plan().plan().clone();
    wanted.steps[0].title = planted("plan.json");
    let text = wanted.text(planted("texts"));
    let (step, tries, duration_ms) = (wanted.steps[0].id.clone(), 1, 7);
    let run = Run::create(&cluster.join("runs"), RunId::named(RUN), &lint::check(wanted).unwrap().0).unwrap();
    start(&run);
    let mut journal = Journal::open(&run.dir().join("journal.jsonl")).unwrap().0;
    let (prepared, error) = (step.clone(), planted("journal.jsonl"));
    let before = Vec::new();
    journal.append(&Entry::now(Record::StepPrepared { step: prepared, sequence: 1, before })).unwrap();
    journal.append(&Entry::now(Record::StepFailed { step, error, tries, duration_ms })).unwrap();
    let read_again = ["texts", "plan.json", "journal.jsonl"];
    let in_files = PLANTED.iter().filter(|(place, ..)| !read_again.iter().any(|name| place.ends_with(name)));
    for (place, text, secret) in in_files {
        let path = cluster.join(place.replace("{run}", RUN));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("before\n{}\nafter", text.replace("{}", secret))).unwrap();
    }
    let output = site.path("out.tar.gz");
    site.install(&["support-bundle", "-o", output.to_str().unwrap()]).assert().success().stdout(contains("1 runs"));

    let files = unpacked(&output);
    for (name, text) in &files {
        for (place, _, secret) in PLANTED {
            assert!(!text.contains(secret), "{secret} of {place} is in {name}");
        }
    }
    let of_run = |name: &str| files.get(&format!("kubexm-support-demo/{RUN}/{name}"));
    for name in ["plan.json", "journal.jsonl", "status.json", "report.md", "logs/node1/a.log", "evidence/node1/x.txt"] {
        assert!(of_run(name).is_some(), "{name} is missing among {:?}", files.keys());
    }
    // The planted fields are there, without what is secret in them.
    assert!(of_run(&format!("texts/{}", text.hex())).unwrap().contains("harbor_admin_password: "));
    assert!(of_run("plan.json").unwrap().contains("Join with --token "));
    assert!(of_run("journal.jsonl").unwrap().contains("registry.site/v2/ does not answer"));
    assert!(
        of_run("status.json").unwrap().contains("registry.site/v2/ does not answer"),
        "it is read from the journal"
    );
    assert!(of_run("notes.txt").is_none());
    assert!(of_run("logs/node1/a.log").unwrap().contains("before"));
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&output.metadata().unwrap()) & 0o777, 0o600);
}

/// The password of Harbor's robot is made of a key, and lies in no file of the controller.
#[test]
fn a_password_that_follows_from_a_key_does_not_come_out_either() {
    let site = Site::new();
    let cluster = site.path("home/clusters/demo");
    Run::create(&cluster.join("runs"), RunId::named(RUN), &plan()).unwrap();
    let run = cluster.join("runs").join(RUN);
    let mut planned: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("plan.json")).unwrap()).unwrap();
    let username = Some("robot$node".to_owned());
    let slot = SlotProvider::DerivedPassword { purpose: "harbor-robot".to_owned(), username };
    planned["slots"] = serde_json::json!({ "harbor": slot });
    std::fs::write(run.join("plan.json"), planned.to_string()).unwrap();
    let pki = ClusterPki::open(&cluster.join("pki")).unwrap();
    let [password, header] =
        [None, Some("robot$node")].map(|username| pki.derived_password("harbor-robot", username).unwrap());
    std::fs::create_dir_all(run.join("logs/node1")).unwrap();
    std::fs::write(run.join("logs/node1/a.log"), format!("xx {} yy {} zz\n", *password, *header)).unwrap();

    let output = site.path("out.tar.gz");
    site.install(&["support-bundle", "-o", output.to_str().unwrap()]).assert().success();
    let log = &unpacked(&output)[&format!("kubexm-support-demo/{RUN}/logs/node1/a.log")];
    let secret = header.strip_prefix("Basic ").unwrap();
    assert!(log.contains("zz") && !log.contains(&**password) && !log.contains(secret), "{log}");
}

#[test]
fn without_a_cluster_or_with_several_the_error_names_what_there_is() {
    let site = Site::new();
    site.install(&["support-bundle"]).assert().code(2).stderr(contains("nothing to pack"));
    for name in ["one", "two"] {
        std::fs::create_dir_all(site.path("home/clusters").join(name)).unwrap();
    }
    site.install(&["support-bundle"]).assert().code(2).stderr(contains("one, two"));
    site.install(&["support-bundle", "three"]).assert().code(2).stderr(contains("no cluster three"));
}

fn unpacked(path: &std::path::Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()));
    let read = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (entry.path().unwrap().display().to_string(), text)
    };
    archive.entries().unwrap().map(read).collect()
}
