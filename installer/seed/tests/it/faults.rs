//! Registries that fail for a while: what is in the registry in the end is right, and no login goes to a stranger.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kubexm_spec::{Digest, Platform};

use crate::bundles::{Made, Maker, noise};
use crate::proxy::{Fault, Proxy, Seen};
use crate::registry::{PASSWORD, Registry, Setup};
use crate::site::{login, options, run};

const ONE: [Platform; 1] = [Platform::LINUX_AMD64];
/// More than two chunks.
const LARGE: usize = 10 << 20;

fn large(folder: &std::path::Path) -> (kubexm_archive::Bundle, Made) {
    let mut maker = Maker::new(&ONE);
    let app = maker.image("quay.io/team/app:1", &[noise(1, LARGE)], 0);
    (maker.bundle(folder), app)
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_and_failing_answers_are_tried_again_and_a_pause_is_kept() {
    let registry = Registry::start(Setup::default());
    let choose = |seen: &Seen, number: usize| match (seen.method.as_str(), number) {
        ("HEAD", 0) => Fault::Answer(429, vec![("retry-after", "1".to_owned())], String::new()),
        ("PATCH", 0) | ("PUT", 1) => Fault::Answer(500, Vec::new(), String::new()),
        ("POST", 1) => Fault::Answer(503, Vec::new(), String::new()),
        _ => Fault::None,
    };
    let proxy = Proxy::before(&registry.address, choose).await;
    let folder = tempfile::tempdir().unwrap();
    let (bundle, app) = large(folder.path());
    let begun = Instant::now();
    run(&bundle, &options(folder.path(), &proxy.address)).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(1), "Retry-After was not heeded");
    assert_eq!(Digest::of(registry.raw("mirror/quay.io/team/app:1")), app.target.digest);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_cut_arrives_whole() {
    let registry = Registry::start(Setup::default());
    let choose = |seen: &Seen, number: usize| match (seen.method.as_str(), number) {
        ("PATCH", 1) => Fault::CutAfter(1_000_000),
        _ => Fault::None,
    };
    let proxy = Proxy::before(&registry.address, choose).await;
    let folder = tempfile::tempdir().unwrap();
    let (bundle, app) = large(folder.path());
    run(&bundle, &options(folder.path(), &proxy.address)).await.unwrap();
    assert_eq!(Digest::of(registry.raw("mirror/quay.io/team/app:1")), app.target.digest);
    // distribution drops an upload that was cut in a chunk: what it had is sent again, and no more than that.
    assert!(proxy.uploaded() <= LARGE + (5 << 20) + 4096, "{}", proxy.uploaded());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_location_on_another_host_gets_the_bytes_and_not_the_login() {
    let registry = Registry::start(Setup { password: true, ..Setup::default() });
    // The storage: it accepts without a login what the registry would want one for.
    let upstream = registry.address.clone();
    let storage = Proxy::before(&upstream, |_, _| Fault::Answer(403, Vec::new(), String::new())).await;
    let at = storage.address.clone();
    let choose = move |seen: &Seen, number: usize| match (seen.method.as_str(), number) {
        ("POST", 1..) => Fault::LocationAt(at.clone()),
        _ => Fault::None,
    };
    let proxy = Proxy::before(&registry.address, choose).await;
    let folder = tempfile::tempdir().unwrap();
    let (bundle, _) = large(folder.path());
    let mut options = options(folder.path(), &proxy.address);
    options.connection.credentials = login(&proxy.address, PASSWORD);
    assert!(run(&bundle, &options).await.is_err(), "the storage refuses");
    let seen = storage.seen.lock().unwrap();
    assert!(!seen.is_empty(), "the Location was not followed");
    assert!(seen.iter().all(|seen| !seen.headers.contains_key("authorization")), "{seen:?}");
    assert!(proxy.seen.lock().unwrap().iter().any(|seen| seen.headers.contains_key("authorization")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_runs_out_in_the_middle_is_replaced() {
    let registry = Registry::start(Setup::default());
    let (given, used) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tokens = Arc::clone(&given);
    // A token is good for six requests.
    let choose = move |seen: &Seen, _: usize| {
        if seen.target.starts_with("/token") {
            let number = given.fetch_add(1, Ordering::Relaxed) + 1;
            used.store(0, Ordering::Relaxed);
            let body = format!("{{\"token\":\"t{number}\"}}");
            return Fault::Answer(200, vec![("content-type", "application/json".to_owned())], body);
        }
        let wanted = format!("Bearer t{}", given.load(Ordering::Relaxed));
        let shown = seen.headers.get("authorization");
        if shown == Some(&wanted) && used.fetch_add(1, Ordering::Relaxed) < 6 {
            return Fault::None;
        }
        let host = seen.headers.get("host").cloned().unwrap_or_default();
        let challenge = format!("Bearer realm=\"http://{host}/token\",service=\"test\"");
        Fault::Answer(401, vec![("www-authenticate", challenge)], String::new())
    };
    let proxy = Proxy::before(&registry.address, choose).await;
    let folder = tempfile::tempdir().unwrap();
    let (bundle, app) = large(folder.path());
    let mut options = options(folder.path(), &proxy.address);
    options.connection.parallel = 1;
    run(&bundle, &options).await.unwrap();
    assert_eq!(Digest::of(registry.raw("mirror/quay.io/team/app:1")), app.target.digest);
    assert!(tokens.load(Ordering::Relaxed) > 1, "no token ran out");
}
