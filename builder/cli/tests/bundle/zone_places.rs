//! `zone check` looks at what a build needs: the platform of each image as its config has it, files of mirrors that take no
//! HEAD; and tells who does not answer now from who does not have it.

use kubexm_spec::ExitCode;
use serde_json::{Value, json};

use crate::images::{Maker, two_platforms};
use crate::registry::{Registry, Setup};
use crate::server::{Reply, Server, file, nobody};
use crate::site::{Ended, Site, assert_contains, noise, wanted};

const NAME: &str = "extra-image/registry.test/team/app:v1";

/// A site with one image for some platforms, at these repositories in this order.
fn image(platforms: &str, at: &[String]) -> Site {
    let site = Site::new();
    let to: Vec<String> = at.iter().map(|at| format!("\"{at}\"")).collect();
    let rule = format!("{{match: registry.test, to: [{}], plainHttp: true, only: true}}", to.join(", "));
    site.write("zone.yaml", format!("name: lab\nrules: [{rule}]\n"));
    site.extras(&format!(
        "platforms: [{platforms}]\nzone: zone.yaml\nextraImages: [{{name: \"registry.test/team/app:v1\"}}]"
    ));
    site
}

fn check(site: &Site, more: &[&str]) -> Ended {
    site.run(&[&["zone", "check", "-f", "cluster.yaml"], more].concat())
}

/// A site whose one file is at these servers, in this order.
fn one_file(servers: &[String]) -> Site {
    let site = Site::new();
    let (origin, mirrors) = servers.split_last().unwrap();
    let mirrors: Vec<String> = mirrors.iter().map(|mirror| format!("\"{mirror}\"")).collect();
    let rule = match mirrors.is_empty() {
        true => String::new(),
        false => format!("{{match: \"{}\", to: [{}]}}", origin.trim_start_matches("http://"), mirrors.join(", ")),
    };
    site.write("zone.yaml", format!("name: mirrored\nrules: [{rule}]\n"));
    site.extras(&format!("zone: zone.yaml\nextraFiles:\n{}", wanted(&format!("{origin}/tool"), &noise(5, 5_000))));
    site
}

fn at(server: &Server) -> String {
    format!("http://{}", server.address())
}

#[test]
fn an_image_without_the_wanted_platform_counts_as_missing_until_another_mirror_has_it() {
    let registry = Registry::start(Setup::default());
    let made = Site::new();
    let one = Maker::new(made.path("one"));
    let only = one.manifest("amd64", 5);
    one.finish(&[("v1", &one.index(&[("amd64", &only)]))]);
    registry.push(one.path(), "one/team/app", "v1");
    let (both, ..) = two_platforms(made.path("both"), "v1");
    registry.push(both.path(), "both/team/app", "v1");
    let (one, both) = (format!("{}/one", registry.address), format!("{}/both", registry.address));

    let site = image("linux/amd64, linux/arm64", std::slice::from_ref(&one));
    let ended = check(&site, &["--all"]).must(ExitCode::NoSource);
    assert_contains(
        &ended.out,
        &[&format!("ok   {NAME}"), &format!("GONE {NAME}"), "nothing for linux/arm64", "it has linux/amd64"],
    );
    // As the build has it.
    assert_contains(&site.refused(ExitCode::OriginMissing, &[]), &["nothing for linux/arm64"]);

    let site = image("linux/amd64, linux/arm64", &[one, both]);
    let ended = check(&site, &[]).must(ExitCode::Ok);
    assert_contains(
        &ended.out,
        &[&format!("ok   {NAME}"), "nothing for linux/arm64", "2 artifacts, 1 hole, 0 not available from any source"],
    );
    assert!(site.cache("blobs/sha256").is_empty(), "a check keeps nothing");
}

#[test]
fn an_image_whose_config_names_another_architecture_than_its_index_is_a_hole() {
    let registry = Registry::start(Setup::default());
    let made = Site::new();
    let lying = Maker::new(made.path("lying"));
    let arm64 = lying.manifest("arm64", 5);
    lying.finish(&[("v1", &lying.index(&[("amd64", &arm64)]))]);
    registry.push(lying.path(), "team/app", "v1");
    let site = image("linux/amd64", std::slice::from_ref(&registry.address));
    let ended = check(&site, &[]).must(ExitCode::NoSource);
    assert_contains(
        &ended.out,
        &[&format!("GONE {NAME}"), "nothing for linux/amd64", "linux/arm64, as its config says"],
    );
    let place = check(&site, &["--json"]).must(ExitCode::NoSource).document()["items"][0]["places"][0].clone();
    assert_eq!((&place["state"], &place["exitCode"]), (&json!("missing"), &json!(42)), "{place}");
}

#[test]
fn a_cached_image_does_not_count_as_available_in_the_registry() {
    let registry = Registry::start(Setup::default());
    let made = Site::new();
    let (both, index, _) = two_platforms(made.path("both"), "v1");
    registry.push(both.path(), "full/app", "v1");
    let site = Site::new();
    let by_digest = format!(
        "platforms: [linux/amd64]\nzone: zone.yaml\nextraImages: [{{name: \"registry.test/app@{}\"}}]",
        index.digest
    );
    site.zone("registry.test", &format!("{}/full", registry.address));
    site.extras(&by_digest);
    site.built(&[]);
    check(&site, &[]).must(ExitCode::Ok);
    site.zone("registry.test", &format!("{}/empty", registry.address));
    assert_contains(&check(&site, &[]).must(ExitCode::NoSource).out, &["GONE extra-image/registry.test/app@", "404"]);
}

#[test]
fn a_mirror_that_takes_no_head_is_asked_for_one_byte() {
    for (status, part) in [(405, true), (501, true), (403, false), (405, false)] {
        let body = noise(5, 5_000);
        let mirror = Server::start(move |request| match (request.method.as_str(), part) {
            ("HEAD", _) => Reply::new(status, ""),
            (_, true) => Reply::new(206, &body[..1])
                .header("content-range", "bytes 0-0/5000")
                .header("content-type", "application/octet-stream"),
            (_, false) => file(request, &body),
        });
        let site = one_file(&[at(&mirror)]);
        let document = check(&site, &["--json"]).must(ExitCode::Ok).document();
        let place = &document["items"][0]["places"][0];
        assert_eq!((&place["state"], &place["size"]), (&json!("available"), &json!(5_000)), "{status} {document}");
        let asked: Vec<(String, Option<String>)> = mirror
            .requests()
            .iter()
            .map(|request| (request.method.clone(), request.header("range").map(str::to_owned)))
            .collect();
        assert_eq!(asked, [("HEAD".to_owned(), None), ("GET".to_owned(), Some("bytes=0-0".to_owned()))], "{status}");
    }
    let closed = Server::start(|_| Reply::new(403, ""));
    let document = check(&one_file(&[at(&closed)]), &["--json"]).must(ExitCode::NoSource).document();
    let place = &document["items"][0]["places"][0];
    assert_eq!((&place["state"], &place["exitCode"]), (&json!("missing"), &json!(43)), "{document}");
}

#[test]
fn a_source_that_does_not_answer_has_another_exit_code_than_a_missing_artifact() {
    let states = |document: &Value| -> Vec<Value> {
        document["items"][0]["places"].as_array().unwrap().iter().map(|place| place["state"].clone()).collect()
    };
    for status in [429, 500, 503] {
        let busy = Server::start(move |_| Reply::new(status, ""));
        let empty = Server::files(vec![]);
        let site = one_file(&[at(&empty), at(&busy)]);
        let ended = check(&site, &[]).must(ExitCode::OriginDown);
        assert_contains(&ended.out, &["DOWN file/tool", &busy.url("tool"), "1 hole, 1 place that does not answer now"]);
        assert_contains(&ended.err, &["not available now: file/tool", "later"]);
        let document = check(&site, &["--json"]).must(ExitCode::OriginDown).document();
        assert_eq!(states(&document), [json!("missing"), json!("unanswered")], "{status}");
        let summary =
            (&document["available"], &document["holes"], &document["unanswered"], &document["items"][0]["state"]);
        assert_eq!(summary, (&json!(false), &json!(1), &json!(1), &json!("unanswered")), "{status}");
    }
    let full = Server::files(vec![("tool", noise(5, 5_000))]);
    let document = check(&one_file(&[format!("http://{}", nobody()), at(&full)]), &["--json"]);
    let document = document.must(ExitCode::Ok).document();
    assert_eq!(states(&document), [json!("unanswered"), json!("available")]);
    assert_eq!(document["items"][0]["state"], "available");
    // One that can be found nowhere weighs more than one that may come back.
    let (site, empty) = (Site::new(), Server::files(vec![]));
    let away = format!("http://{}/away", nobody());
    site.extras(&format!("extraFiles:\n{}\n{}", wanted(&away, b"x"), wanted(&empty.url("gone"), b"x")));
    let ended = check(&site, &[]).must(ExitCode::NoSource);
    assert_contains(&ended.err, &["not available from any source: file/gone", "not available now: file/away"]);
}

#[test]
fn a_registry_that_does_not_answer_now_is_no_hole() {
    let busy = Server::start(|_| Reply::new(503, ""));
    let site = image("linux/amd64", &[busy.address().to_owned()]);
    let document = check(&site, &["--json"]).must(ExitCode::OriginDown).document();
    assert_eq!(document["items"][0]["places"][0]["state"], "unanswered", "{document}");
}
