//! SIGKILL at any moment of a build: no half bundle under its name, and the same build then ends as if nothing had been. SIGINT,
//! SIGTERM and SIGHUP: one end, that is reported.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kubexm_spec::ExitCode;

use crate::server::{How, Server, file};
use crate::site::{Site, bundles, digest, noise, wanted};

const FILES: [&str; 4] = ["a", "b", "c", "d"];
const SIZE: usize = 5 << 20;

/// Four files of a slow origin, and one of this machine that takes a while to pack. As long as the flag is set, one of the four
/// stops halfway: no build comes to its end then, however late it is killed.
fn site() -> (Site, Server, Arc<AtomicBool>) {
    let site = Site::new();
    let bodies: Vec<Vec<u8>> = (0..).take(FILES.len()).map(|seed| noise(seed + 1, SIZE)).collect();
    let served = bodies.clone();
    let held = Arc::new(AtomicBool::new(true));
    let is_held = Arc::clone(&held);
    let server = Server::start(move |request| {
        let index = FILES.iter().position(|name| *name == request.path).unwrap();
        let stops = index == 0 && is_held.load(Ordering::Relaxed);
        let slowly = How::Slowly(256 << 10, Duration::from_millis(25));
        file(request, &served[index]).how(if stops { How::Stall(SIZE / 16) } else { slowly })
    });
    let files: Vec<String> = FILES.iter().zip(&bodies).map(|(name, body)| wanted(&server.url(name), body)).collect();
    site.write("large", noise(9, 48 << 20));
    site.extras(&format!("extraFiles:\n{}\n- {{path: large}}", files.join("\n")));
    (site, server, held)
}

/// When a build is killed.
enum Moment {
    /// So many milliseconds after it has asked the origin for something.
    Asked(u64),
    /// When the cache has a part of a file.
    Part,
    /// So many milliseconds after it has said that a phase begins.
    Phase(&'static str, u64),
}

/// A build whose events can be read, and which no shell has told to ignore signals.
fn start(site: &Site) -> Child {
    Command::new("env")
        .arg("--default-signal=INT,TERM,HUP")
        .arg(assert_cmd::cargo::cargo_bin("kubexm-bundle"))
        .args(["build", "--json", "-f", "cluster.yaml", "-o", "out.tar.zst"])
        .current_dir(site.path(""))
        .env("KUBEXM_HOME", site.path("kubexm"))
        .env("NO_PROXY", "*")
        .env_remove("KMZONE")
        .env_remove("KKZONE")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Until the origin was asked for something more.
fn wait_until_asked(server: &Server, asked: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.requests().len() == asked {
        assert!(Instant::now() < deadline, "the build never asked for anything");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Until the cache has a part of a file.
fn wait_for_a_part(site: &Site) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let partial = site.path("kubexm/cache/partial");
    let length = |name: &String| partial.join(name).metadata().map_or(0, |file| file.len());
    while !site.cache("partial").iter().any(|name| name.ends_with(".part") && length(name) > 0) {
        assert!(Instant::now() < deadline, "nothing of a file came");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Starts the build and kills it at a moment; whether it was still running.
fn killed(site: &Site, server: &Server, moment: &Moment) -> bool {
    let asked = server.requests().len();
    let mut child = start(site);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let later = match moment {
        Moment::Asked(later) => {
            wait_until_asked(server, asked);
            *later
        }
        Moment::Part => {
            wait_for_a_part(site);
            0
        }
        Moment::Phase(name, later) => {
            let text = format!("\"name\":\"{name}\"");
            assert!(lines.by_ref().any(|line| line.contains(&text)), "the build ended before {name}");
            *later
        }
    };
    // A moment inside the work, not a wait for a state.
    std::thread::sleep(Duration::from_millis(later));
    child.kill().unwrap();
    !child.wait().unwrap().success()
}

#[test]
fn a_build_killed_at_any_moment_resumes_to_the_same_bytes() {
    let (site, server, held) = site();
    for moment in [0, 150, 250, 350].map(Moment::Asked).into_iter().chain([Moment::Part]) {
        assert!(killed(&site, &server, &moment), "it came to its end without a file");
        assert!(!site.path("out.tar.zst").exists());
    }
    held.store(false, Ordering::Relaxed);
    let packing = [0, 5, 20, 50, 100].map(|later| Moment::Phase("pack", later));
    for moment in [Moment::Phase("fetch", 0)].into_iter().chain(packing) {
        killed(&site, &server, &moment);
        if site.path("out.tar.zst").exists() {
            // The kill came after the rename: then it is whole.
            site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok);
            std::fs::remove_file(site.path("out.tar.zst")).unwrap();
        }
    }
    let finished = digest(&site.built(&[]));
    assert_eq!(bundles(&site.path("")), ["out.tar.zst"], "the partial file of a killed build is taken over");
    assert!(server.requests().iter().any(|request| request.offset().is_some()), "nothing was resumed");

    let fresh = site.path("fresh cache");
    assert_eq!(digest(&site.built(&["--cache", fresh.to_str().unwrap()])), finished);
}

#[test]
fn an_interrupted_build_ends_with_a_result_and_resumes_when_it_is_run_again() {
    // One interruption of each build: what a second one finds to fetch depends on how far the first came.
    for signal in ["-INT", "-TERM", "-HUP"] {
        let (site, server, held) = site();
        let mut child = start(&site);
        wait_for_a_part(&site);
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let lines: Vec<String> = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).collect();
        assert_eq!(child.wait().unwrap().code(), Some(i32::from(ExitCode::Declined.code())), "{lines:?}");
        let end: serde_json::Value = serde_json::from_str(lines.last().unwrap()).unwrap();
        assert_eq!((&end["type"], &end["ok"]), (&"result".into(), &false.into()), "{end}");
        assert!(end["summary"].as_str().unwrap().contains("interrupted"), "{end}");
        assert!(!site.path("out.tar.zst").exists());
        held.store(false, Ordering::Relaxed);
        site.built(&[]);
        assert!(server.requests().iter().any(|request| request.offset().is_some()), "nothing was resumed");
    }
}

#[test]
fn a_signal_at_the_end_of_a_program_gives_one_end_and_its_code() {
    let site = Site::new();
    for round in 0..60_u64 {
        let mut child = start(&site);
        std::thread::sleep(Duration::from_millis(round));
        let kill = |signal: &str| Command::new("kill").args([signal, &child.id().to_string()]).output().unwrap();
        // As `timeout` does.
        kill("-TERM");
        kill("-TERM");
        let lines: Vec<String> = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).collect();
        let status = child.wait().unwrap();
        // Before it listens, the signal ends it as it ends any program.
        let Some(code) = status.code() else { continue };
        let results: Vec<serde_json::Value> = lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|line: &serde_json::Value| line["type"] == "result")
            .collect();
        let [result] = results.as_slice() else { panic!("{lines:?}") };
        assert_eq!(result["exitCode"], code, "{lines:?}");
    }
}

#[test]
fn two_builds_of_one_bundle_never_write_over_each_other() {
    let (site, _server, held) = site();
    held.store(false, Ordering::Relaxed);
    site.built(&[]);
    let run = || site.build(&[]);
    let codes: Vec<i32> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        all.into_iter().map(|thread| thread.join().unwrap().code).collect()
    });
    assert!(codes.contains(&0), "{codes:?}");
    let locked = i32::from(ExitCode::HostLocked.code());
    assert!(codes.iter().all(|code| *code == 0 || *code == locked), "{codes:?}");
    site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok);
}
