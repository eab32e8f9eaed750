//! How fast, how much at once, and nothing at all.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kubexm_spec::event::EventKind;
use kubexm_spec::lock::Descriptor;
use kubexm_spec::{Digest, ExitCode, Platform};
use kubexm_transport::{
    Credentials, FileCandidate, HttpOptions, ImageCandidate, OciRegistry, Registry, TransportError, Want, Watch,
};

use crate::images::{MANIFEST, Maker};
use crate::server::{How, Reply, Server, file};
use crate::support::{LONG, bytes, client, client_of, files, options, plain, quiet, store, want};

#[tokio::test(flavor = "multi_thread")]
async fn all_transfers_together_keep_to_the_rate() {
    let server = Server::start(|request| {
        let seed = request.path.trim_start_matches('/').parse().unwrap();
        file(request, &bytes(seed, 1 << 20), "\"t\"")
    })
    .await;
    let client = client_of(HttpOptions { limit_rate: Some(4 << 20), ..options() });
    let (_dir, store) = store();
    let begun = Instant::now();
    let all = (1..=8u64).map(|seed| {
        let (client, store, url) = (&client, &store, server.url(&seed.to_string()));
        async move { client.fetch(&[plain(url)], &want(&bytes(seed, 1 << 20)), store, &quiet).await.unwrap() }
    });
    futures::future::join_all(all).await;
    let took = begun.elapsed().as_secs_f64();
    assert!((1.6..LONG.as_secs_f64()).contains(&took), "8 MiB at 4 MiB a second took {took} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_files_run_at_once_where_few_large_ones_would() {
    let server = Server::start(|request| {
        let seed = request.path.trim_start_matches('/').parse().unwrap();
        file(request, &bytes(seed, 2000), "\"t\"").how(How::Slowly(1000, Duration::from_millis(100)))
    })
    .await;
    // One large transfer would fill this budget.
    let client = client_of(HttpOptions { bytes_in_flight: 8 << 20, ..options() });
    let (_dir, store) = store();
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let all = (1..=64u64).map(|seed| {
        let (client, store, url) = (&client, &store, server.url(&seed.to_string()));
        let (running, most, begun) = (&running, &most, AtomicBool::new(false));
        async move {
            let reported = |_, _| {
                if !begun.swap(true, Ordering::SeqCst) {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                }
            };
            client.fetch(&[plain(url)], &want(&bytes(seed, 2000)), store, &reported).await.unwrap();
            running.fetch_sub(1, Ordering::SeqCst);
        }
    });
    futures::future::join_all(all).await;
    // Of the large ones it would be one after the other.
    assert!(most.into_inner() > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_of_one_transfer_delays_the_others_of_its_host() {
    let server = Server::start(|request| match request.number {
        0 => Reply::new(503, "").header("retry-after", "1"),
        _ => file(request, &bytes(7, 1000), "\"t\""),
    })
    .await;
    let (_dir, store) = store();
    let (asked, mut rests) = tokio::sync::mpsc::unbounded_channel();
    let watch = Watch::new(move |kind| {
        if let EventKind::Waiting { retry_after_s: Some(1), .. } = kind {
            let _ = asked.send(());
        }
    });
    let client = client_of(HttpOptions { notice_after: Duration::ZERO, watch, ..options() });
    let one = Want { refuse_html: true, ..Want::default() };
    let (first, second) = (plain(server.url("first")), plain(server.url("second")));
    let begun = Instant::now();
    let late = async {
        rests.recv().await.unwrap();
        client.fetch(std::slice::from_ref(&second), &one, &store, &quiet).await.unwrap();
        begun.elapsed()
    };
    let (first, late) = tokio::join!(client.fetch(std::slice::from_ref(&first), &one, &store, &quiet), late);
    first.unwrap();
    assert!(late >= Duration::from_secs(1), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_that_is_a_date_is_kept() {
    let server = Server::start(|request| match request.number {
        0 => {
            let date = std::time::SystemTime::now() + Duration::from_secs(2);
            Reply::new(429, "").header("retry-after", httpdate::fmt_http_date(date))
        }
        _ => file(request, &bytes(7, 1000), "\"t\""),
    })
    .await;
    let (_dir, store) = store();
    let begun = Instant::now();
    client().fetch(&[plain(server.url("f"))], &want(&bytes(7, 1000)), &store, &quiet).await.unwrap();
    // Dates have whole seconds.
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn offline_nothing_is_asked_and_what_lacks_is_named() {
    let body = bytes(5, 5000);
    let served = body.clone();
    let server = Server::start(move |request| file(request, &served, "\"t\"")).await;
    let (_dir, store) = store();
    let candidates = [plain(server.url("kubeadm"))];
    let offline = client_of(HttpOptions { offline: true, ..options() });
    let error = offline.fetch(&candidates, &want(&body), &store, &quiet).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::NotCached);
    assert!(error.to_string().contains("kubeadm") && error.to_string().contains("--offline"), "{error}");
    assert!(matches!(offline.get_small(&candidates[0], 10).await, Err(TransportError::NotCached { .. })));
    assert!(matches!(offline.head(&candidates[0]).await, Err(TransportError::NotCached { .. })));
    assert!(server.requests().is_empty());
    client().fetch(&candidates, &want(&body), &store, &quiet).await.unwrap();
    offline.fetch(&candidates, &want(&body), &store, &quiet).await.unwrap();
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn offline_a_tag_is_what_it_was_when_it_was_last_asked() {
    let maker = Maker::new();
    let manifest = maker.manifest(MANIFEST, "amd64", &[maker.layer(1, 1000)]);
    let bytes = std::fs::read(maker.blob_path(&manifest.digest)).unwrap();
    let root = maker.path().join("blobs/sha256");
    let server = Server::start(move |request| match request.path.rsplit_once("/blobs/sha256:") {
        Some((_, hex)) => Reply::new(200, std::fs::read(root.join(hex)).unwrap_or_default()),
        None => Reply::new(200, bytes.clone()).header("content-type", MANIFEST),
    })
    .await;
    let candidates = [ImageCandidate { plain_http: true, ..ImageCandidate::new(server.address(), "team/app") }];
    let (_dir, store) = store();
    let online = OciRegistry::new(client(), Credentials::anonymous()).with_store(store.clone());
    let offline = client_of(HttpOptions { offline: true, ..options() });
    let offline = OciRegistry::new(offline, Credentials::anonymous()).with_store(store.clone());
    let amd64 = Platform::LINUX_AMD64;
    let error = offline.resolve(&candidates, "v1", None, amd64).await.unwrap_err();
    assert!(matches!(error, TransportError::NotCached { .. }), "{error}");
    let image = online.resolve(&candidates, "v1", None, amd64).await.unwrap();
    image.keep(&store).unwrap();
    let asked = server.requests().len();
    assert_eq!(offline.resolve(&candidates, "v1", None, amd64).await.unwrap(), image);
    assert_eq!(offline.resolve(&candidates, "v2", Some(manifest.digest), amd64).await.unwrap().target, image.target);
    let error = offline.fetch_blobs(&candidates, &image.blobs(), &store, &quiet).await.unwrap_err();
    assert!(error.to_string().contains(&image.layers[0].digest.to_string()), "{error}");
    assert_eq!(server.requests().len(), asked);
    // Another run with a network asks the tag again, and only the tag: the rest is known by digest.
    let again = OciRegistry::new(client(), Credentials::anonymous()).with_store(store.clone());
    again.resolve(&candidates, "v1", None, amd64).await.unwrap();
    let more: Vec<String> = server.requests()[asked..].iter().map(|request| request.path.clone()).collect();
    assert_eq!(more, ["/v2/", "/v2/team/app/manifests/v1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_is_cut_again_and_again_comes_without_a_byte_twice() {
    let body = bytes(8, 2 << 20);
    let served = body.clone();
    let server = Server::start(move |request| {
        let left = served.len() - request.offset().unwrap_or(0);
        file(request, &served, "\"t\"").how(How::Cut(left.min(200_001)))
    })
    .await;
    let (_dir, store) = store();
    client().fetch(&[plain(server.url("f"))], &want(&body), &store, &quiet).await.unwrap();
    let offsets: Vec<usize> = server.requests().iter().map(|request| request.offset().unwrap_or(0)).collect();
    let expected: Vec<usize> = (0..body.len()).step_by(200_001).collect();
    assert_eq!(offsets, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_size_nobody_says_ends_at_a_bound_and_nothing_of_it_stays() {
    let body = bytes(9, 300_000);
    let server = Server::start(move |request| {
        let reply = file(request, &body, "\"t\"");
        if request.path == "/told" { reply } else { reply.without_length() }
    })
    .await;
    let (dir, store) = store();
    let most = |most| Want { most: Some(most), ..Want::default() };
    for path in ["told", "untold"] {
        let url = server.url(path);
        let fetch = |want: Want| {
            let (store, url) = (store.clone(), url.clone());
            async move { client().fetch(&[plain(url)], &want, &store, &quiet).await }
        };
        let error = fetch(most(200_000)).await.unwrap_err();
        let reported = error.to_string();
        assert!(reported.contains("more than 200000 bytes") && reported.contains(&url), "{reported}");
        assert_eq!(error.exit_code(), ExitCode::OriginMismatch);
        assert_eq!(files(&store, "partial"), [""; 0], "{path}");
        assert_eq!(fetch(most(300_000)).await.unwrap().size, 300_000);
    }
    // Who says a size is not believed more than the bound, and not asked.
    let asked = server.requests().len();
    let want = Want { size: Some(1 << 40), ..most(1 << 30) };
    let error = client().fetch(&[plain(server.url("told"))], &want, &store, &quiet).await.unwrap_err();
    assert!(error.to_string().contains("more than 1073741824 bytes"), "{error}");
    assert_eq!(server.requests().len(), asked);
    // Of a medium, too.
    std::fs::create_dir(dir.path().join("iso")).unwrap();
    let endless = std::fs::File::create(dir.path().join("iso/x")).unwrap();
    endless.set_len((16 << 30) + 1).unwrap();
    let medium = FileCandidate::folder(&dir.path().join("iso")).unwrap();
    let error = client().fetch(&[medium.below("x")], &Want::default(), &store, &quiet).await.unwrap_err();
    assert!(error.to_string().contains("more than 17179869184 bytes"), "{error}");
}

/// A registry's document may be megabytes of one text, and sizes in it may be anything.
#[tokio::test]
async fn what_a_registry_says_of_an_image_is_quoted_in_part_and_its_sizes_are_summed_without_an_end() {
    let long = "x".repeat(1 << 20);
    let index = |platform: &str| {
        let digest = format!("sha256:{}", "0".repeat(64));
        format!(
            "{{\"schemaVersion\":2,\"manifests\":[{{\"mediaType\":\"{MANIFEST}\",\"digest\":\"{digest}\",\"size\":1,\"platform\":{{\"os\":\"linux\",\"architecture\":\"{platform}\"}}}}]}}"
        )
    };
    let documents = [
        format!("{{\"schemaVersion\":\"{long}\"}}"),
        format!("{{\"schemaVersion\":2,\"mediaType\":\"{long}\"}}"),
        format!(
            "{{\"schemaVersion\":2,\"config\":{{\"digest\":\"{long}\",\"size\":1,\"mediaType\":\"a\"}},\"layers\":[]}}"
        ),
        index(&long),
    ];
    let (_dir, store) = store();
    let registry = OciRegistry::new(client(), Credentials::anonymous()).with_store(store.clone());
    for document in documents {
        let server =
            Server::start(move |_| Reply::new(200, document.clone().into_bytes()).header("content-type", MANIFEST))
                .await;
        let candidates = [ImageCandidate { plain_http: true, ..ImageCandidate::new(server.address(), "team/app") }];
        let error = registry.resolve(&candidates, "v1", None, Platform::LINUX_AMD64).await.unwrap_err();
        let text = kubexm_spec::error_chain(&error);
        assert!(text.len() < 10_000, "{} bytes: {}", text.len(), &text[..300]);
    }
    let blob = |text: &str| Descriptor { media_type: "a".to_owned(), digest: Digest::of(text), size: u64::MAX };
    let error = registry.fetch_blobs(&[], &[blob("a"), blob("b")], &store, &quiet).await.unwrap_err();
    assert!(error.to_string().contains("more than any layer"), "{error}");
}
