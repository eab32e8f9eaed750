//! `zone check` asks the repositories of packages: a hole there is found before a lock is made of it.

use kubexm_spec::{Digest, ExitCode};
use serde_json::{Value, json};

use crate::cluster::SETUP;
use crate::packages_locked::{Site, served};
use crate::server::{Reply, Request, Server, file, nobody};
use crate::site::{Ended, assert_contains};

fn check(site: &Site, more: &[&str]) -> Ended {
    site.run(&["zone", "check"], &[&SETUP[4..], more].concat())
}

/// Debian's mirror, but for what one of its files is.
fn mirror(change: fn(&Request, Vec<u8>) -> Option<Vec<u8>>) -> Server {
    Server::start(move |request| match change(request, served(&request.path)) {
        Some(body) if !body.is_empty() => file(request, &body),
        _ => Reply::new(404, "no such file"),
    })
}

fn repository(document: &Value, name: &str) -> Value {
    let all = document["repositories"].as_array().unwrap();
    all.iter().find(|one| one["repository"] == name).unwrap_or_else(|| panic!("no {name} in {document}")).clone()
}

#[test]
fn every_suite_is_asked_and_no_package_is() {
    let site = Site::new("");
    let asked = site.lab.server.requests().len();
    let document = check(&site, &["--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["repositories"].as_array().unwrap().len(), 3);
    let security = repository(&document, "bookworm-security");
    assert_eq!((&security["os"], &security["available"]), (&json!("debian-12"), &json!(true)));
    let requests = site.lab.server.requests().split_off(asked);
    let of = |part: &str| requests.iter().filter(|one| one.path.contains(part)).count();
    assert!(of("/InRelease") >= 3 && of("/pool/") == 0);
    let indexes: Vec<_> =
        requests.iter().filter(|one| one.path.contains("binary-") || one.path.contains("by-hash")).collect();
    assert!(!indexes.is_empty() && indexes.iter().all(|one| one.method == "HEAD"), "{indexes:?}");
}

#[test]
fn unsigned_foreign_and_incomplete_repositories_are_missing_and_silent_ones_distinguished() {
    let site = Site::new("");
    let holes = |server: &Server, code: ExitCode, words: &[&str]| {
        site.mirror(server.address());
        assert_contains(&check(&site, &[]).must(code).out, words);
    };
    let other = mirror(|request, mut body| {
        if request.path.ends_with("bookworm-security/InRelease") {
            let at = body.windows(5).position(|window| window == b"Date:").unwrap() + 6;
            body[at] ^= 1;
        }
        Some(body)
    });
    holes(
        &other,
        ExitCode::NoSource,
        &["GONE repository bookworm-security of debian-12 linux/amd64", "hole", "1 hole"],
    );
    let gone = mirror(|request, body| (!request.path.contains("bookworm-updates/")).then_some(body));
    holes(&gone, ExitCode::NoSource, &["GONE repository bookworm-updates", "404"]);
    let half = mirror(|request, body| {
        let is_index = request.path.contains("/bookworm/") && !request.path.ends_with("InRelease");
        (!is_index).then_some(body)
    });
    holes(&half, ExitCode::NoSource, &["GONE repository bookworm of", "404"]);
    let short = mirror(|request, mut body| {
        if request.path.contains("/bookworm/") && !request.path.ends_with("InRelease") {
            body.truncate(body.len() / 2);
        }
        Some(body)
    });
    holes(&short, ExitCode::NoSource, &["GONE repository bookworm of", "another size than asked for"]);
    site.mirror(&nobody());
    let silent = check(&site, &[]).must(ExitCode::OriginDown);
    assert_contains(
        &silent.out,
        &["DOWN 3 repositories: ", "asked for repository bookworm of debian-12", "request failed"],
    );
    assert_contains(&silent.err, &["not available now: repository bookworm of debian-12 linux/amd64"]);
}

#[test]
fn a_repository_signed_by_another_key_is_not_the_vendors() {
    let site = Site::new("");
    let key = kubexm_packages::trust::SiteKey::generate("stranger", 2048).unwrap();
    let release = format!("Suite: bookworm\nSHA256:\n {} 1 x\n", Digest::of("x").hex());
    let signed = key.clearsigned(&release, key.created()).unwrap().into_bytes();
    let server = Server::start(move |request| match request.path.ends_with("/bookworm/InRelease") {
        true => file(request, &signed),
        false => file(request, &served(&request.path)),
    });
    site.mirror(server.address());
    assert_contains(
        &check(&site, &[]).must(ExitCode::NoSource).out,
        &["GONE repository bookworm of", "not by a key that is trusted"],
    );
}

#[test]
fn repositories_that_fail_for_one_reason_are_reported_together() {
    let site = Site::new("");
    let dead = nobody();
    site.mirror(&dead);
    let ended = site.run(&["lock"], &SETUP[4..]).must(ExitCode::OriginDown);
    // Waiting is reported for each request.
    let (_, error) = ended.err.split_once("\nerror: ").expect("an error at the end");
    assert_eq!(error.matches("Connection refused").count(), 1, "{}", ended.err);
    assert_contains(error, &["3 requests: ", "needed for repository bookworm", "repository bookworm-security"]);
}
