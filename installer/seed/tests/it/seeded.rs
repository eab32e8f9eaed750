//! What is in the registry afterwards, and what it took to bring it there.

use std::path::Path;

use kubexm_seed::State;
use kubexm_spec::{Digest, Platform};
use serde_json::Value;

use crate::bundles::{Maker, noise};
use crate::proxy::{Fault, Proxy};
use crate::registry::{Registry, Setup, distribution_3};
use crate::site::{notes, options, options_for, run};

const BOTH: [Platform; 2] = [Platform::LINUX_AMD64, Platform::LINUX_ARM64];
const ONE: [Platform; 1] = [Platform::LINUX_AMD64];

/// Every kind of content, read back byte for byte.
async fn every_kind_reads_back(program: &Path) {
    let setup = Setup { tls: true, password: true, ..Setup::default() };
    let registry = Registry::start_program(program, setup);
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&BOTH);
    let app = maker.image("quay.io/team/app:v1", &[noise(1, 9 << 20), noise(2, 1000)], 0);
    let by_tag = maker.attach("quay.io/team/app:v1", &app.target, true);
    let by_subject = maker.attach("quay.io/team/app:v1", &app.manifests[&Platform::LINUX_AMD64], false);
    maker.image("busybox:1", &[noise(2, 1000)], 0);
    let chart = maker.chart("web", "1.2.3+4");
    let file = maker.file("Read Me.txt", b"hello");
    let bundle = maker.bundle(folder.path());
    let seeded = run(&bundle, &options_for(folder.path(), &registry, setup)).await.unwrap();
    assert_eq!(seeded.count(State::Pushed), 4, "{seeded:#?}");
    assert_eq!(Digest::of(registry.raw("mirror/quay.io/team/app:v1")), app.target.digest);
    for manifest in app.manifests.values() {
        let name = format!("mirror/quay.io/team/app@{}", manifest.digest);
        assert_eq!(Digest::of(registry.raw(&name)), manifest.digest);
    }
    let tag = format!("mirror/quay.io/team/app:sha256-{}.sig", app.target.digest.hex());
    assert_eq!(Digest::of(registry.raw(&tag)), by_tag);
    assert_eq!(Digest::of(registry.raw(&format!("mirror/quay.io/team/app@{by_subject}"))), by_subject);
    registry.raw("mirror/docker.io/library/busybox:1");
    let layer = |name: &str| {
        let manifest: Value = serde_json::from_slice(&registry.raw(name)).unwrap();
        manifest["layers"][0]["digest"].as_str().unwrap().to_owned()
    };
    assert_eq!(layer("mirror/kubexm/charts/web:1.2.3_4"), chart.to_string());
    assert_eq!(layer("mirror/kubexm/files:Read_Me.txt"), file.to_string());
    // Neither registry lists referrers by itself: the tag of the referrers tag schema has the one that has a subject.
    let subject = app.manifests[&Platform::LINUX_AMD64].digest.hex();
    let listed = registry.raw(&format!("mirror/quay.io/team/app:sha256-{subject}"));
    assert!(String::from_utf8(listed).unwrap().contains(&by_subject.to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_content_reads_back_from_docker_registry_with_tls_and_a_login() {
    every_kind_reads_back(Path::new("/usr/bin/docker-registry")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_content_reads_back_from_distribution_3_with_tls_and_a_login() {
    every_kind_reads_back(&distribution_3()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_layer_is_sent_once_and_a_second_seed_sends_nothing_and_asks_little() {
    let registry = Registry::start(Setup::default());
    let proxy = Proxy::before(&registry.address, |_, _| Fault::None).await;
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&ONE);
    let shared = noise(1, 6 << 20);
    for name in ["quay.io/a/one:1", "quay.io/b/two:1", "ghcr.io/c/three:1"] {
        maker.image(name, &[shared.clone(), noise(name.len() as u64, 5000)], 0);
    }
    let bundle = maker.bundle(folder.path());
    let options = options(folder.path(), &proxy.address);
    let first = run(&bundle, &options).await.unwrap();
    let (uploaded, requests) = (proxy.uploaded(), proxy.requests());
    assert!(uploaded < (6 << 20) + 64_000, "{uploaded} bytes for one layer of 6 MiB");
    assert!(first.totals.blobs_mounted >= 2, "{first:#?}");
    proxy.forget();
    let second = run(&bundle, &options).await.unwrap();
    assert_eq!((second.count(State::Present), second.totals.blobs_sent, second.totals.tags), (3, 0, 0));
    assert_eq!(second.audited, 3, "what is there is compared, too");
    let again = proxy.requests();
    assert!(again <= 5 && again * 5 < requests, "{again} requests after {requests}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_bundle_sends_only_what_is_new_and_old_references_stay() {
    let registry = Registry::start(Setup::default());
    let proxy = Proxy::before(&registry.address, |_, _| Fault::None).await;
    let folder = tempfile::tempdir().unwrap();
    let base = noise(1, 5 << 20);
    let mut january = Maker::new(&ONE);
    let old = january.image("quay.io/a/app:1", &[base.clone(), noise(2, 9000)], 0);
    let january = january.bundle(folder.path());
    let mut february = Maker::new(&ONE);
    february.image("quay.io/a/app:1", &[base.clone(), noise(2, 9000)], 0);
    february.image("quay.io/a/app:2", &[base.clone(), noise(3, 9000)], 0);
    february.image("quay.io/b/other:2", &[base, noise(4, 9000)], 0);
    let february = february.bundle(folder.path());
    let options = options(folder.path(), &proxy.address);
    run(&january, &options).await.unwrap();
    proxy.forget();
    let seeded = run(&february, &options).await.unwrap();
    // The new layers and the configs' manifests; the base is in the same repository, and mounted into the other one.
    assert!(proxy.uploaded() < 30_000, "{} bytes", proxy.uploaded());
    assert_eq!((seeded.count(State::Present), seeded.count(State::Pushed)), (1, 2));
    assert_eq!(Digest::of(registry.raw("mirror/quay.io/a/app:1")), old.target.digest);
    let records = options.record.records().unwrap();
    assert_eq!(records.len(), 2, "each bundle has its record");
    assert!(records.iter().all(|record| record.repositories.contains_key("mirror/quay.io/a/app")));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_platform_and_only_one_kind_are_pushed_when_asked_for() {
    let registry = Registry::start(Setup::default());
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&BOTH);
    let app = maker.image("quay.io/a/app:1", &[noise(1, 5000)], 0);
    maker.chart("web", "1.0.0");
    let bundle = maker.bundle(folder.path());
    let mut options = options(folder.path(), &registry.address);
    options.choice.platforms = vec![Platform::LINUX_ARM64];
    options.kinds.charts = false;
    let (seeded, notes) = notes(&bundle, &options).await;
    assert_eq!(seeded.entries.len(), 1);
    assert_eq!(Digest::of(registry.raw("mirror/quay.io/a/app:1")), app.manifests[&Platform::LINUX_ARM64].digest);
    assert!(notes.iter().any(|note| note.contains("quay.io/a/app:1") && note.contains("one platform")), "{notes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_changes_nothing_and_says_what_would_be_sent() {
    let registry = Registry::start(Setup::default());
    let proxy = Proxy::before(&registry.address, |_, _| Fault::None).await;
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&ONE);
    maker.image("quay.io/a/app:1", &[noise(1, 5000)], 0);
    let bundle = maker.bundle(folder.path());
    let mut options = options(folder.path(), &proxy.address);
    options.dry_run = true;
    let seeded = run(&bundle, &options).await.unwrap();
    assert_eq!((seeded.count(State::Missing), seeded.totals.blobs_sent), (1, 2));
    let seen = proxy.seen.lock().unwrap();
    // Whether it may be pushed to is asked by an upload that is cancelled.
    let asks = |seen: &crate::proxy::Seen| match seen.method.as_str() {
        "GET" | "HEAD" => true,
        "POST" | "DELETE" => seen.target.contains("/blobs/uploads/") && seen.body == 0,
        _ => false,
    };
    assert!(seen.iter().all(asks), "{seen:?}");
    assert!(!registry.blobs().exists());
}

/// A program that ends between a signature and the list in which it is looked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_referrers_that_a_seed_before_did_not_write_is_written_by_the_next() {
    let registry = Registry::start(Setup::default());
    let proxy = Proxy::before(&registry.address, |_, _| Fault::None).await;
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&ONE);
    let app = maker.image("quay.io/a/app:1", &[noise(1, 5000)], 0);
    let [one, other] = [1, 2].map(|_| maker.attach("quay.io/a/app:1", &app.target, false).to_string());
    let bundle = maker.bundle(folder.path());
    let options = options(folder.path(), &proxy.address);
    run(&bundle, &options).await.unwrap();
    let list = format!("sha256-{}", app.target.digest.hex());
    registry.forget_tag("mirror/quay.io/a/app", &list);
    run(&bundle, &options).await.unwrap();
    let listed = String::from_utf8(registry.raw(&format!("mirror/quay.io/a/app:{list}"))).unwrap();
    assert!(listed.contains(&one) && listed.contains(&other), "{listed}");
    proxy.forget();
    run(&bundle, &options).await.unwrap();
    assert_eq!(proxy.count("PUT", ""), 0, "what is listed is not pushed again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delta_is_seeded_where_the_registry_or_another_bundle_has_the_rest_and_else_says_what_it_lacks() {
    let registry = Registry::start(Setup::default());
    let folder = tempfile::tempdir().unwrap();
    let base = noise(1, 100_000);
    let mut january = Maker::new(&ONE);
    // Of an index that is not whole the registry has the manifest only.
    january.image("quay.io/a/app:1", std::slice::from_ref(&base), 2);
    let january = january.bundle(folder.path());
    let february = || {
        let mut maker = Maker::new(&ONE);
        maker.image("quay.io/a/app:1", std::slice::from_ref(&base), 2);
        maker.image("quay.io/a/app:2", &[base.clone(), noise(3, 9000)], 2);
        maker
    };
    let mut options = options(folder.path(), &registry.address);
    let delta = february().delta(folder.path(), &january);
    options.rest_in_registry = true;
    let (text, code) = crate::site::fails(&delta, &options).await;
    assert_eq!(code, 33, "nothing is there yet: {text}");
    assert!(text.contains("--base"), "{text}");
    run(&january, &options).await.unwrap();
    let seeded = run(&delta, &options).await.unwrap();
    assert_eq!((seeded.count(State::Present), seeded.count(State::Pushed)), (1, 1), "{seeded:#?}");
    registry.raw("mirror/quay.io/a/app:2");
    let elsewhere = Registry::start(Setup::default());
    let mut options = crate::site::options(folder.path(), &elsewhere.address);
    let (text, code) = crate::site::fails(&delta, &options).await;
    assert_eq!(code, 33, "{text}");
    options.dry_run = false;
    let whole = delta.on_bases(vec![january]).unwrap();
    assert_eq!(run(&whole, &options).await.unwrap().count(State::Pushed), 2);
}
