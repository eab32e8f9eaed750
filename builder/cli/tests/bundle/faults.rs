//! Origins that fail in every way: each has its own exit code, the error names origin and artifact, and no bundle appears.

use std::time::Duration;

use kubexm_spec::{Digest, ExitCode};

use crate::images::{Maker, two_platforms};
use crate::registry::{Registry, Setup};
use crate::server::{How, Reply, Server, file, nobody};
use crate::site::{Site, assert_contains, noise, wanted};

/// A site that wants one file of an origin.
fn wants(url: &str, body: &[u8]) -> Site {
    let site = Site::new();
    site.extras(&format!("extraFiles:\n{}", wanted(url, body)));
    site
}

fn answers(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Server {
    Server::start(move |_| reply())
}

#[test]
fn a_download_with_a_wrong_digest_is_deleted_and_named() {
    let server = answers(|| Reply::new(200, "other bytes"));
    let site = wants(&server.url("tool"), b"the right bytes");
    let text = site.refused(ExitCode::OriginMismatch, &[]);
    let expected = Digest::of("the right bytes").to_string();
    assert_contains(&text, &["file/tool", &server.url("tool"), &expected, &Digest::of("other bytes").to_string()]);
    let left: Vec<String> = site.cache("partial").into_iter().filter(|name| !name.ends_with(".lock")).collect();
    let bytes: u64 =
        left.iter().map(|n| std::fs::metadata(site.path("kubexm/cache/partial").join(n)).unwrap().len()).sum();
    assert_eq!(bytes, 0, "wrong bytes are kept: {left:?}");
    assert!(site.cache("blobs/sha256").is_empty());
}

#[test]
fn a_page_in_place_of_a_program_is_named_as_such() {
    let server = answers(|| Reply::new(200, "<!DOCTYPE html><html>log in</html>").header("content-type", "text/html"));
    let text = wants(&server.url("tool"), b"x").refused(ExitCode::OriginMismatch, &[]);
    assert_contains(&text, &["file/tool", &server.url("tool"), "an HTML page instead of the file", "login"]);
}

#[test]
fn what_an_origin_does_not_have_is_named() {
    let server = answers(|| Reply::new(404, "no"));
    let text = wants(&server.url("tool"), b"x").refused(ExitCode::OriginMissing, &[]);
    assert_contains(&text, &["file/tool", &server.url("tool"), "404"]);
    assert_eq!(server.requests().len(), 1, "a 404 is not asked for again");
}

#[test]
fn an_origin_that_wants_a_login_is_named() {
    let server = answers(|| Reply::new(401, "who are you").header("www-authenticate", "Basic realm=x"));
    assert_contains(
        &wants(&server.url("tool"), b"x").refused(ExitCode::OriginDenied, &[]),
        &["file/tool", &server.url("tool"), "401"],
    );
}

#[test]
fn an_origin_that_does_not_answer_is_named() {
    let url = format!("http://{}/tool", nobody());
    assert_contains(&wants(&url, b"x").refused(ExitCode::OriginDown, &[]), &["file/tool", &url, "refused"]);
}

#[test]
fn an_origin_that_cuts_off_or_is_slow_is_resumed_where_it_stopped() {
    let body = noise(3, 3_000_000);
    let good = body.clone();
    let server = Server::start(move |request| {
        let reply = file(request, &good);
        match request.number {
            0 => reply.how(How::Cut(1_200_000)),
            1 => reply.how(How::Cut(900_000)),
            _ => reply.how(How::Slowly(200_000, Duration::from_millis(30))),
        }
    });
    let site = wants(&server.url("tool"), &body);
    site.built(&[]);
    let offsets: Vec<Option<usize>> = server.requests().iter().map(|request| request.offset()).collect();
    assert_eq!(offsets.len(), 3);
    assert!(offsets[0].is_none() && offsets[1] >= Some(1) && offsets[2] > offsets[1], "{offsets:?}");
    assert_eq!(site.cache("blobs/sha256"), [Digest::of(&body).hex()]);
}

#[test]
fn every_artifact_that_fails_is_named_and_complete_ones_stay_in_the_cache() {
    let server = Server::files(vec![("good", b"good".to_vec()), ("bad", b"bad".to_vec())]);
    let site = Site::new();
    let files =
        [wanted(&server.url("good"), b"good"), wanted(&server.url("bad"), b"?"), wanted(&server.url("none"), b"none")];
    site.extras(&format!("extraFiles:\n{}", files.join("\n")));
    let text = site.refused(ExitCode::OriginMissing, &[]);
    assert_contains(&text, &["2 artifacts failed", "file/bad", &server.url("bad"), "file/none", &server.url("none")]);
    assert_eq!(site.cache("blobs/sha256"), [Digest::of("good").hex()]);
}

#[test]
fn an_image_made_for_another_machine_than_its_index_says_is_refused() {
    let site = Site::new();
    let maker = Maker::new(site.path("layout"));
    let wrong = maker.manifest("arm64", 5);
    maker.finish(&[("x", &maker.index(&[("amd64", &wrong)]))]);
    site.extras("extraImages: [{name: \"a.test/b:1\", from: \"oci:layout\"}]");
    assert_contains(
        &site.refused(ExitCode::OriginMissing, &[]),
        &["extra-image/a.test/b:1", "layout", "nothing for linux/amd64", "linux/arm64", "spec.bundle.platforms"],
    );
}

#[test]
fn an_image_that_a_registry_does_not_have_is_named() {
    let (site, registry) = (Site::new(), Registry::start(Setup::default()));
    site.zone("registry.test", &registry.address);
    site.extras("zone: zone.yaml\nextraImages: [{name: \"registry.test/team/none:v1\"}]");
    assert_contains(
        &site.refused(ExitCode::OriginMissing, &[]),
        &["extra-image/registry.test/team/none:v1", &registry.address],
    );
}

/// Mirrors that carry one platform each: one name cannot stand for both.
#[test]
fn a_name_that_is_another_image_for_each_platform_is_refused() {
    let (site, registry) = (Site::new(), Registry::start(Setup::default()));
    for (arch, seed) in [("amd64", 5), ("arm64", 6)] {
        let maker = Maker::new(site.path(arch));
        let only = maker.manifest(arch, seed);
        maker.finish(&[("v1", &maker.index(&[(arch, &only)]))]);
        registry.push(maker.path(), &format!("{arch}/app"), "v1");
    }
    let to = [format!("{}/amd64", registry.address), format!("{}/arm64", registry.address)];
    site.write(
        "zone.yaml",
        format!(
            "name: lab\nrules: [{{match: a.test, to: [\"{}\", \"{}\"], plainHttp: true, only: true}}]\n",
            to[0], to[1]
        ),
    );
    site.extras("zone: zone.yaml\nplatforms: [linux/amd64, linux/arm64]\nextraImages: [{name: \"a.test/app:v1\"}]");
    assert_contains(&site.refused(ExitCode::OriginMismatch, &[]), &["a.test/app:v1", "one platform"]);
}

#[test]
fn a_blob_of_the_cache_that_has_rotted_is_removed_and_fetched_by_the_next_build() {
    let body = noise(4, 50_000);
    let server = Server::files(vec![("tool", body.clone())]);
    let site = wants(&server.url("tool"), &body);
    let good = std::fs::read(site.built(&[])).unwrap();
    std::fs::remove_file(site.path("out.tar.zst")).unwrap();
    let blob = site.path("kubexm/cache/blobs/sha256").join(Digest::of(&body).hex());
    let mut rotten = body.clone();
    rotten[7] ^= 1;
    std::fs::write(&blob, rotten).unwrap();
    assert_contains(
        &site.refused(ExitCode::Disk, &[]),
        &[blob.to_str().unwrap(), "removed", "run the same build again"],
    );
    assert_eq!(std::fs::read(site.built(&[])).unwrap(), good);
    assert_eq!(server.count("tool"), 2);
}

#[test]
fn a_failed_build_leaves_an_older_bundle_as_it_was() {
    let site = Site::new();
    two_platforms(site.path("layout"), "x");
    site.extras("extraImages: [{name: \"a.test/b:1\", from: \"oci:layout\"}]");
    let old = std::fs::read(site.built(&[])).unwrap();
    site.extras("extraFiles: [{path: missing}]");
    site.build(&[]).must(ExitCode::Config);
    assert_eq!(std::fs::read(site.path("out.tar.zst")).unwrap(), old);
    assert_eq!(crate::site::bundles(&site.path("")), ["out.tar.zst"]);
}
