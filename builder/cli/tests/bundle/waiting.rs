//! A build that waits for an origin says so while it waits: for whom, why, which try it was and when the next one is.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::server::{Reply, Server, file};
use crate::site::{Site, assert_contains, noise, wanted};

/// A build that is killed when the test has seen enough.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn build(site: &Site, more: &[&str]) -> Running {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("kubexm-bundle"));
    command
        .current_dir(site.path(""))
        .env("KUBEXM_HOME", site.path("kubexm"))
        .env("HOME", site.path("home"))
        .env("NO_PROXY", "*")
        .args(["build", "-f", "cluster.yaml", "-o", "out.tar.zst"])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Running(command.spawn().unwrap())
}

/// The first line that has a part, of a program that would continue for a minute.
fn line(from: impl std::io::Read + Send + 'static, part: &'static str) -> String {
    let (give, take) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            // Nobody reads any more: the test is over.
            let _ = give.send(line);
        }
    });
    let begun = Instant::now();
    let mut seen = Vec::new();
    loop {
        let left = Duration::from_secs(60).saturating_sub(begun.elapsed());
        let line = take.recv_timeout(left).unwrap_or_else(|e| panic!("{e}: {part:?} is not in {seen:#?}"));
        if line.contains(part) {
            return line;
        }
        seen.push(line);
    }
}

#[test]
fn a_retry_after_of_a_day_is_reported_at_once_with_the_origin_and_that_no_wait_is_so_long() {
    let server = Server::start(|_| Reply::new(503, "").header("retry-after", "86400"));
    let site = Site::new();
    site.extras(&format!("extraFiles:\n{}", wanted(&server.url("tool"), b"x")));
    let mut running = build(&site, &[]);
    let reported = line(running.0.stderr.take().unwrap(), "waiting for");
    assert_contains(
        &reported,
        &[&server.url("tool"), "503", "86400 s", "no wait is longer than 60 s", "try 1 of 2", "next in 60 s"],
    );
    // Two builds that want one file wait for each other.
    drop(running);
    let mut running = build(&site, &["--json"]);
    let event: Value = serde_json::from_str(&line(running.0.stdout.take().unwrap(), "\"waiting\"")).unwrap();
    assert_eq!((&event["type"], &event["origin"]), (&"waiting".into(), &server.url("tool").into()));
    assert_eq!((&event["attempt"], &event["attempts"], &event["retryAfterS"]), (&1.into(), &2.into(), &86_400.into()));
    assert_eq!((&event["next"], &event["withinMs"]), (&"try".into(), &60_000.into()));
}

#[test]
fn a_retry_after_of_a_day_is_not_waited_for_if_another_mirror_has_the_file() {
    let body = noise(6, 5_000);
    let served = body.clone();
    let (busy, full) = (
        Server::start(|_| Reply::new(503, "").header("retry-after", "86400")),
        Server::start(move |request| file(request, &served)),
    );
    let site = Site::new();
    let (busy, origin) = (busy.url("store"), full.address());
    site.write("zone.yaml", format!("name: mirrored\nrules: [{{match: \"{origin}\", to: [\"{busy}\"]}}]\n"));
    site.extras(&format!("zone: zone.yaml\nextraFiles:\n{}", wanted(&full.url("tool"), &body)));
    let mut running = build(&site, &[]);
    let reported = line(running.0.stderr.take().unwrap(), "503");
    assert_contains(&reported, &[&format!("{busy}/tool"), "86400 s", "another source is tried"]);
    assert!(running.0.wait().unwrap().success());
}
