//! Bundles on a web server: read in place, whatever the server does.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use kubexm_spec::ExitCode;

use crate::push::{log_in, run, site, way};
use crate::registry::{PASSWORD, Registry, Setup};
use crate::server::{How, Reply, Request, Server, nobody};
use crate::site::{Site, assert_contains, digest, noise};

/// A range of a request as `(first, end)`.
fn range(request: &Request) -> Option<(u64, u64)> {
    let (first, last) = request.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse::<u64>().ok()?.checked_add(1)?))
}

/// The part of a file that was asked for, as nginx answers.
fn part(request: &Request, file: &File, etag: &str) -> Reply {
    let len = file.metadata().unwrap().len();
    let held = request.header("if-range").is_none_or(|held| held == etag);
    let Some((first, end)) = range(request).filter(|_| held) else {
        return Reply::new(200, "all of another file").header("etag", etag);
    };
    let end = end.min(len);
    let mut body = vec![0; (end - first) as usize];
    file.read_exact_at(&mut body, first).unwrap();
    Reply::new(206, body).header("content-range", format!("bytes {first}-{}/{len}", end - 1)).header("etag", etag)
}

/// Serves a file, through a change of each answer.
pub fn serve(path: &Path, change: impl Fn(&Request, Reply) -> Reply + Send + Sync + 'static) -> Server {
    let file = File::open(path).unwrap();
    Server::start(move |request| change(request, part(request, &file, "\"one\"")))
}

/// Runs a verb on the bundle of a server.
pub fn read(site: &Site, verb: &str, server: &Server, more: &[&str]) -> crate::site::Ended {
    let url = server.url("bundles/site.tar.zst");
    let args: Vec<&str> = [verb, &url, "--plain-http"].iter().chain(more).copied().collect();
    site.run(&args)
}

#[test]
fn inspecting_300_mb_or_taking_a_small_member_out_of_them_moves_less_than_a_hundredth() {
    let site = Site::new();
    for n in 0..10 {
        // Begins as gzip does, so it is stored as it is; the rest is a hole.
        let file = site.write(&format!("f{n}.gz"), [0x1f, 0x8b, n]);
        File::options().write(true).open(file).unwrap().set_len(30 << 20).unwrap();
    }
    site.write("small.txt", "a small one".repeat(100));
    let files: Vec<String> = (0..10).map(|n| format!("{{path: f{n}.gz}}")).collect();
    site.extras(&format!("extraFiles: [{}, {{path: small.txt}}]", files.join(", ")));
    let bundle = site.built(&[]);
    let size = bundle.metadata().unwrap().len();
    assert!(size > 300 << 20, "{size}");
    let moved = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&moved);
    let server = serve(&bundle, move |_, reply| {
        count.fetch_add(reply.body.len() as u64, Ordering::Relaxed);
        reply
    });
    let verbs: [(&str, &[&str]); 3] = [("inspect", &["--json"]), ("list", &[]), ("cat", &["cluster.yaml"])];
    for (verb, more) in verbs {
        moved.store(0, Ordering::Relaxed);
        let ended = read(&site, verb, &server, more).must(ExitCode::Ok);
        assert_contains(&ended.out, &["small.txt"]);
        let moved = moved.load(Ordering::Relaxed);
        assert!(moved > 0 && moved * 100 < size, "{verb} moved {moved} of {size} bytes");
    }
    let blob = digest(&site.path("small.txt")).to_string();
    moved.store(0, Ordering::Relaxed);
    let ended = read(&site, "cat", &server, &[&blob]).must(ExitCode::Ok);
    assert_eq!(ended.out, "a small one".repeat(100));
    let moved = moved.load(Ordering::Relaxed);
    assert!(moved * 100 < size, "cat moved {moved} of {size} bytes");
}

#[test]
fn every_verb_that_reads_a_bundle_reads_it_from_a_server() {
    let site = site(2, 300_000);
    let server = serve(&site.path("out.tar.zst"), |_, reply| reply);
    let name = server.url("bundles/site.tar.zst");
    assert_contains(&read(&site, "verify", &server, &[]).must(ExitCode::Ok).out, &["OK: checksums match", &name]);
    let document = read(&site, "verify", &server, &["--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["bytes"]["ok"], true);
    let here = site.run(&["inspect", "--json", "out.tar.zst"]).document();
    let there = read(&site, "inspect", &server, &["--json"]).must(ExitCode::Ok).document();
    assert_eq!((&there["bundleId"], &there["artifacts"]), (&here["bundleId"], &here["artifacts"]));
    read(&site, "sbom", &server, &["--format", "cyclonedx"]).must(ExitCode::Ok);
    let registry = Registry::start(Setup::default());
    read(&site, "push", &server, &[&registry.oci("a")]).must(ExitCode::Ok);
    site.run(&["pull", &registry.oci("a"), "-o", "back.tar.zst", "--plain-http"]).must(ExitCode::Ok);
    assert_eq!(digest(&site.path("back.tar.zst")), digest(&site.path("out.tar.zst")));
}

#[test]
fn a_bundle_is_read_over_tls_with_a_password_from_a_real_server_that_never_shows_it() {
    let setup = Setup { tls: true, password: true };
    let registry = Registry::start(setup);
    // A registry serves its blobs as a web server does: the bundle is a blob of another one.
    let site = site(1, 5 << 20);
    std::fs::rename(site.path("out.tar.zst"), site.path("inner.tar.zst")).unwrap();
    site.extras("extraFiles: [{path: inner.tar.zst}]");
    site.built(&[]);
    log_in(&site, &registry, PASSWORD);
    let way = way(&registry, setup);
    run(&site, &["push", "out.tar.zst", &registry.oci("a")], &way).must(ExitCode::Ok);
    let blob = digest(&site.path("inner.tar.zst"));
    let at = |login: &str| format!("https://{login}{}/v2/a/blobs/{blob}", registry.address);
    let (good, wrong) = (at("builder:open%20sesame@"), at("builder:barley@"));
    let ended = run(&site, &["verify", &good], &way).must(ExitCode::Ok);
    assert!(!format!("{}{}", ended.out, ended.err).contains("sesame"), "{}{}", ended.out, ended.err);
    let ended = run(&site, &["inspect", "--json", &good], &way).must(ExitCode::Ok);
    assert!(!ended.out.contains("sesame"), "{}", ended.out);
    for args in [["verify", &wrong], ["inspect", &wrong], ["list", &wrong]] {
        let ended = run(&site, &args, &way).must(ExitCode::OriginDenied);
        assert_contains(&ended.err, &["401", &registry.address]);
        assert!(!format!("{}{}", ended.out, ended.err).contains("barley"), "{}", ended.err);
    }
    // Without its CA nothing is said to it.
    assert_contains(&site.run(&["verify", &good]).must(ExitCode::OriginDown).err, &["certificate"]);
}

#[test]
fn plain_http_is_used_only_if_it_is_allowed() {
    let site = site(1, 1000);
    let server = serve(&site.path("out.tar.zst"), |_, reply| reply);
    let url = server.url("site.tar.zst").replace("http://", "http://me:sesame@");
    let ended = site.run(&["inspect", &url]).must(ExitCode::Usage);
    assert_contains(&ended.err, &["--plain-http", "https"]);
    assert!(!ended.err.contains("sesame") && server.requests().is_empty());
    site.run(&["init", "--plain-http"]).must(ExitCode::Usage);
}

#[test]
fn addresses_that_differ_only_in_their_query_are_both_read_and_no_query_is_shown() {
    let site = site(1, 1000);
    let (file, other) = (std::fs::read(site.path("out.tar.zst")).unwrap(), noise(3, 5000));
    site.write("f0.bin", other);
    let second = File::open(site.built(&[])).unwrap();
    let first = File::open(site.write("first.tar.zst", file)).unwrap();
    let server = Server::start(move |request| match request.path.split_once('?') {
        Some((_, "token=sesame")) => part(request, &first, "\"one\""),
        Some((_, "token=barley")) => part(request, &second, "\"two\""),
        _ => Reply::new(403, ""),
    });
    let at = |token: &str| server.url(&format!("site.tar.zst?token={token}"));
    let ended = site.run(&["diff", "--json", "--plain-http", &at("sesame"), &at("barley")]).must(ExitCode::Ok);
    assert_eq!(ended.document()["differs"], true, "one of the two was read twice");
    let shown = format!("{}{}", ended.out, ended.err);
    assert!(!shown.contains("sesame") && !shown.contains("barley"), "{shown}");
    let refusals =
        [["diff", &at("sesame"), &at("wrong")], ["verify", &at("one"), &at("wrong")], ["verify", &at("a"), &at("b")]];
    for args in refusals {
        let ended = site.run(&[&args[..], &["--plain-http"]].concat());
        assert_ne!(ended.code, 0);
        let shown = format!("{}{}", ended.out, ended.err);
        assert!(!shown.contains("sesame") && !shown.contains("wrong") && !shown.contains("token"), "{shown}");
    }
    let ended = site.run(&["verify", "oci://me:sesame@registry.test/a"]);
    assert!(ended.code != 0 && !ended.err.contains("sesame"), "{}", ended.err);
}

#[test]
fn provenance_names_a_file_on_a_server_by_its_digest_too() {
    let site = site(2, 3 << 20);
    let server = serve(&site.path("out.tar.zst"), |_, reply| reply);
    let statement = read(&site, "provenance", &server, &["--files"]).must(ExitCode::Ok).document();
    let subjects = statement["subject"].as_array().unwrap();
    assert_eq!(subjects.len(), 2, "{subjects:?}");
    assert_eq!(subjects[1]["name"], "site.tar.zst");
    assert_eq!(subjects[1]["digest"]["sha256"], digest(&site.path("out.tar.zst")).hex());
    // What does not come is no statement.
    let server = serve(&site.path("out.tar.zst"), |request, reply| match request.number {
        0..2 => reply,
        _ => Reply::new(404, ""),
    });
    let ended = read(&site, "provenance", &server, &["--files"]).must(ExitCode::OriginMismatch);
    assert_eq!(ended.out, "");
}

#[test]
fn a_server_without_ranges_is_refused_with_what_to_do() {
    let site = site(1, 1000);
    let body = std::fs::read(site.path("out.tar.zst")).unwrap();
    let server = Server::start(move |_| Reply::new(200, body.clone()).header("etag", "\"one\""));
    let ended = read(&site, "inspect", &server, &[]).must(ExitCode::OriginMismatch);
    assert_contains(
        &ended.err,
        &["serves no parts of files", "curl -fL", "| kubexm-bundle verify -", "fetch the whole file", server.address()],
    );
}

#[test]
fn what_the_hint_about_a_server_without_ranges_says_is_true_for_every_verb() {
    let site = site(1, 1000);
    let body = std::fs::read(site.path("out.tar.zst")).unwrap();
    let given = body.clone();
    let server = Server::start(move |_| Reply::new(200, body.clone()).header("etag", "\"one\""));
    for (verb, more) in [
        ("inspect", &[][..]),
        ("verify", &[]),
        ("list", &[]),
        ("extract", &["--all", "-C", "all"]),
        ("join", &["-o", "j"]),
    ] {
        let ended = read(&site, verb, &server, more).must(ExitCode::OriginMismatch);
        assert_contains(&ended.err, &["serves no parts of files", "curl -fL", "| kubexm-bundle verify -", "from disk"]);
    }
    assert!(!site.path("all").exists() && !site.path("j").exists());
    // Both ways that it names, as curl would write the bytes.
    let output = site.program().args(["verify", "-"]).write_stdin(given.clone()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    site.write("fetched.tar.zst", given);
    site.run(&["extract", "fetched.tar.zst", "--all", "-C", "all"]).must(ExitCode::Ok);
}

#[test]
fn volumes_on_a_server_are_found_by_the_name_of_the_bundle_or_of_one_of_them() {
    let site = site(3, 400_000);
    site.run(&["join", "out.tar.zst", "--split", "500K", "-o", "site.tar.zst"]).must(ExitCode::Ok);
    let volumes: Vec<String> =
        crate::site::names(&site.path("")).into_iter().filter(|name| name.starts_with("site.tar.zst.")).collect();
    assert!(volumes.len() > 2, "{volumes:?}");
    let folder = site.path("");
    let without = Arc::new(AtomicUsize::new(0));
    let gone = Arc::clone(&without);
    let server = Server::start(move |request| {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let name = path.rsplit('/').next().unwrap();
        match File::open(folder.join(name)) {
            _ if query != "token=sesame" || gone.load(Ordering::Relaxed) != 0 && name.ends_with(".002") => {
                Reply::new(404, "")
            }
            Ok(file) if name.starts_with("site.") => part(request, &file, &format!("\"{name}\"")),
            _ => Reply::new(404, ""),
        }
    });
    let here = site.run(&["inspect", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    for name in ["site.tar.zst", "site.tar.zst.001", "site.tar.zst.002"] {
        let url = server.url(&format!("bundles/{name}?token=sesame"));
        let run = |verb: &str, more: &[&str]| site.run(&[&[verb, &url, "--plain-http"], more].concat());
        let ended = run("inspect", &["--json"]).must(ExitCode::Ok);
        assert_eq!(ended.document()["artifacts"], here["artifacts"], "{name}");
        assert!(!ended.out.contains("sesame"), "{}", ended.out);
        run("verify", &[]).must(ExitCode::Ok);
        run("join", &["-o", "joined.tar.zst"]).must(ExitCode::Ok);
        assert_eq!(digest(&site.path("joined.tar.zst")), digest(&site.path("out.tar.zst")), "{name}");
    }
    let missing = server.url("bundles/other.tar.zst?token=sesame");
    let ended = site.run(&["inspect", &missing, "--plain-http"]).must(ExitCode::OriginMissing);
    assert_contains(&ended.err, &["other.tar.zst", "404"]);
    without.store(1, Ordering::Relaxed);
    let url = server.url("bundles/site.tar.zst?token=sesame");
    let ended = site.run(&["verify", &url, "--plain-http"]).must(ExitCode::BundleTruncated);
    assert_contains(&ended.err, &["site.tar.zst.002 is missing"]);
    let ended = site.run(&["verify", "--json", &url, "--plain-http"]).must(ExitCode::BundleTruncated).document();
    let missing = ended["complete"]["missing"].as_array().unwrap();
    assert!(missing.len() == 1 && missing[0].as_str().unwrap().ends_with("site.tar.zst.002"), "{missing:?}");
}

#[test]
fn a_server_without_etag_and_last_modified_is_refused() {
    let site = site(1, 1000);
    let server = serve(&site.path("out.tar.zst"), |_, mut reply| {
        reply.headers.retain(|(name, _)| *name != "etag");
        reply
    });
    let ended = read(&site, "inspect", &server, &[]).must(ExitCode::OriginMismatch);
    assert_contains(&ended.err, &["neither ETag nor Last-Modified"]);
}

#[test]
fn a_file_that_changes_while_it_is_read_is_an_error_and_never_a_mixture() {
    let site = site(3, 2 << 20);
    let old = File::open(site.path("out.tar.zst")).unwrap();
    // Of the same length, so that only its tag tells it apart.
    let mut bytes = std::fs::read(site.path("out.tar.zst")).unwrap();
    let half = bytes.len() / 2;
    bytes[half] ^= 1;
    let new = File::open(site.write("new.tar.zst", bytes)).unwrap();
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |request| match asked.fetch_add(1, Ordering::Relaxed) {
        0..3 => part(request, &old, "\"one\""),
        _ => part(request, &new, "\"two\""),
    });
    let ended = read(&site, "verify", &server, &[]).must(ExitCode::OriginMismatch);
    assert_contains(&ended.err, &["was changed or removed while it was read", server.address()]);
}

#[test]
fn a_changed_file_of_a_server_that_ignores_if_range_is_never_mixed() {
    let site = site(3, 2 << 20);
    let asked = AtomicUsize::new(0);
    let server = serve(&site.path("out.tar.zst"), move |_, mut reply| {
        if asked.fetch_add(1, Ordering::Relaxed) >= 3 {
            reply.headers.retain(|(name, _)| *name != "etag");
            reply = reply.header("etag", "\"two\"");
        }
        reply
    });
    let ended = read(&site, "verify", &server, &[]).must(ExitCode::OriginMismatch);
    assert_contains(&ended.err, &["was changed or removed"]);
}

#[test]
fn wrong_ranges_and_lengths_of_a_server_are_noticed() {
    let site = site(1, 1 << 20);
    let bundle = site.path("out.tar.zst");
    // From elsewhere than asked for, and said so.
    let server = serve(&bundle, |request, mut reply| {
        if request.number > 0 {
            reply.headers.retain(|(name, _)| *name != "content-range");
            reply = reply.header("content-range", "bytes 7-8/2000000");
        }
        reply
    });
    let code = read(&site, "verify", &server, &[]).code;
    assert!([40, 41].contains(&code), "{code}");
    // Longer than it says.
    let server = serve(&bundle, |request, mut reply| {
        if request.number > 1 {
            reply.body.extend_from_slice(b"and more");
        }
        reply
    });
    assert_contains(&read(&site, "verify", &server, &[]).must(ExitCode::OriginDown).err, &["sent more than"]);
    // From elsewhere, and said otherwise: only the bundle itself tells.
    let server = serve(&bundle, |request, mut reply| {
        if request.number > 1 {
            reply.body.reverse();
        }
        reply
    });
    let ended = read(&site, "verify", &server, &[]);
    assert_eq!(ended.code, i32::from(ExitCode::BundleDamaged.code()), "{}", ended.err);
    // An encoded body.
    let server = serve(&bundle, |_, reply| reply.header("content-encoding", "gzip"));
    assert_contains(&read(&site, "inspect", &server, &[]).must(ExitCode::OriginMismatch).err, &["encoded with gzip"]);
}

#[test]
fn a_connection_that_breaks_is_resumed_where_it_was() {
    let site = site(1, 3 << 20);
    let server = serve(&site.path("out.tar.zst"), |request, reply| match request.number % 2 {
        1 => {
            let half = reply.body.len() / 2;
            reply.how(How::Cut(half))
        }
        _ => reply,
    });
    read(&site, "verify", &server, &[]).must(ExitCode::Ok);
    let asked: Vec<(u64, u64)> = server.requests().iter().filter_map(range).collect();
    let resumed = asked.windows(2).any(|pair| pair[0].1 == pair[1].1 && pair[0].0 < pair[1].0);
    assert!(resumed, "every break began again: {asked:?}");
}

#[test]
fn a_server_that_dies_in_the_middle_is_named_and_not_reported_as_damage() {
    let site = site(1, 3 << 20);
    let server = serve(&site.path("out.tar.zst"), |request, reply| match request.number {
        0..2 => reply,
        _ => Reply::new(404, ""),
    });
    let ended = read(&site, "verify", &server, &[]).must(ExitCode::OriginMismatch);
    assert_contains(&ended.err, &["was changed or removed"]);
    for more in [&["--json"][..], &["--json", "--quick"]] {
        let server = serve(&site.path("out.tar.zst"), |request, reply| match request.number {
            0..2 => reply,
            _ => Reply::new(404, ""),
        });
        let ended = read(&site, "verify", &server, more).must(ExitCode::OriginMismatch);
        assert_contains(&ended.out, &["was changed or removed"]);
        let document = ended.document();
        assert_eq!(document["exitCode"], ExitCode::OriginMismatch.code());
        assert!(document["bytes"]["ok"].is_null(), "bytes that did not come are not damaged: {document}");
    }
    let gone = format!("http://{}/site.tar.zst", nobody());
    // Five tries with waits between them.
    let ended = site.run(&["inspect", &gone, "--plain-http"]).must(ExitCode::OriginDown);
    assert_contains(&ended.err, &["request failed"]);
}
