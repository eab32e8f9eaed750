//! Sizes in a lock: what an origin only tells of a file is never compared with the file itself.

use std::time::Duration;

use kubexm_spec::lock::Content;
use kubexm_spec::{ExitCode, Lock};

use crate::server::{Reply, Request, Server, file};
use crate::site::{Site, assert_contains, noise, wanted};

const TOOL: &str = "tools/tool.bin";
const SIZE: u64 = 30_000;

fn tool() -> Vec<u8> {
    noise(3, 30_000)
}

/// A cluster of one file, whose origin has a mirror before it.
fn behind(mirror: &Server, origin: &Server) -> Site {
    let site = Site::new();
    site.extras(&format!("extraFiles:\n{}", wanted(&origin.url(TOOL), &tool())));
    site.write(
        "zone.yaml",
        format!("name: lab\nrules:\n- {{match: \"{}\", to: [\"http://{}\"]}}\n", origin.address(), mirror.address()),
    );
    site
}

fn lock(site: &Site, more: &[&str]) {
    let all = [&["lock", "-f", "cluster.yaml"], more].concat();
    site.run(&all).must(ExitCode::Ok);
}

fn size(site: &Site) -> u64 {
    let lock = Lock::parse(&std::fs::read(site.path("cluster.lock.json")).unwrap()).unwrap();
    match &lock.items[0].content {
        Content::File { size, .. } => *size,
        other => panic!("{other:?}"),
    }
}

/// An origin whose HEAD tells `reported` bytes, and whose file is as it should be.
fn lies(reported: usize) -> Server {
    Server::start(move |request: &Request| match request.method.as_str() {
        "HEAD" => Reply::new(200, vec![0; reported]).header("content-type", "application/octet-stream"),
        _ => file(request, &tool()),
    })
}

#[test]
fn the_size_of_a_mirrors_error_page_is_never_locked() {
    for content_type in ["text/html; charset=utf-8", "application/json", "text/xml"] {
        let mirror = Server::start(move |_: &Request| {
            Reply::new(200, "<html>log in first</html>").header("content-type", content_type)
        });
        let site = behind(&mirror, &Server::files(vec![(TOOL, tool())]));
        lock(&site, &["--zone", "zone.yaml"]);
        assert_eq!(size(&site), SIZE, "{content_type}");
        site.built(&["--zone", "zone.yaml", "--locked", "--cache", "cold"]);
    }
}

#[test]
fn a_size_that_two_mirrors_report_differently_is_measured() {
    let mirror = Server::files(vec![(TOOL, noise(5, 500))]);
    let origin = Server::files(vec![(TOOL, tool())]);
    let site = behind(&mirror, &origin);
    lock(&site, &["--zone", "zone.yaml"]);
    assert_eq!(size(&site), SIZE);
    site.built(&["--zone", "zone.yaml", "--locked", "--cache", "cold"]);
}

#[test]
fn two_mirrors_that_report_one_size_get_one_head_request_each() {
    let (mirror, origin) = (Server::files(vec![(TOOL, tool())]), Server::files(vec![(TOOL, tool())]));
    let site = behind(&mirror, &origin);
    lock(&site, &["--zone", "zone.yaml"]);
    assert_eq!(size(&site), SIZE);
    for server in [mirror, origin] {
        let asked: Vec<String> = server.requests().into_iter().map(|request| request.method).collect();
        assert_eq!(asked, ["HEAD"]);
    }
}

#[test]
fn a_second_mirror_that_never_answers_does_not_delay_the_lock() {
    let origin = Server::start(|_: &Request| {
        std::thread::sleep(Duration::from_secs(3600));
        Reply::new(503, "")
    });
    let site = behind(&Server::files(vec![(TOOL, tool())]), &origin);
    lock(&site, &["--zone", "zone.yaml"]);
    assert_eq!(size(&site), SIZE);
    // Whoever has nobody else to ask asks again, three times in all.
    assert!(origin.requests().len() <= 1, "{:?}", origin.requests());
}

#[test]
fn a_size_that_its_only_origin_reported_wrongly_is_drift_and_update_corrects_it() {
    for reported in [17, 40_000] {
        let server = lies(reported);
        let site = Site::new();
        site.extras(&format!("extraFiles:\n{}", wanted(&server.url(TOOL), &tool())));
        lock(&site, &[]);
        assert_eq!(size(&site), reported as u64);
        let text = site.refused(ExitCode::LockDrift, &["--locked"]);
        let size_is = format!("file/tool.bin: size: the lock has {reported}, the file of this digest has 30000");
        assert_contains(&text, &[&size_is, "`kubexm-bundle update file/tool.bin`"]);
        assert!(!text.contains("another size than asked for"), "the origin is blamed: {text}");
        // Also where the file is not in the cache by now.
        site.run(&["update", "-f", "cluster.yaml", "--cache", "cold", "file/tool.bin"]).must(ExitCode::Ok);
        assert_eq!(size(&site), SIZE);
        site.built(&["--locked", "--cache", "colder"]);
    }
}

#[test]
fn an_origin_with_other_bytes_than_locked_is_named_with_a_remedy() {
    let server = Server::start(|request: &Request| match request.method.as_str() {
        "HEAD" => file(request, &tool()),
        _ => file(request, &noise(9, 20_000)),
    });
    let site = Site::new();
    site.extras(&format!("extraFiles:\n{}", wanted(&server.url(TOOL), &tool())));
    lock(&site, &[]);
    let text = site.refused(ExitCode::OriginMismatch, &["--locked"]);
    assert_contains(
        &text,
        &["file/tool.bin", "sent other bytes than asked for", "`kubexm-bundle update file/tool.bin`"],
    );
}
