//! Several builds, one store.

use std::time::Duration;

use kubexm_transport::Store;

use crate::server::{How, Server, file};
use crate::support::{bytes, client, files, plain, quiet, store, want};

#[tokio::test(flavor = "multi_thread")]
async fn many_fetchers_of_one_blob_make_one_download() {
    let body = bytes(5, 2 << 20);
    let good = body.clone();
    let server = Server::start(move |request| {
        file(request, &good, "\"t\"").how(How::Slowly(256 << 10, Duration::from_millis(20)))
    })
    .await;
    let (_dir, store) = store();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            // Each as a program of its own: its own client, its own handle of the folder.
            let (root, url, want) = (store.root().to_owned(), server.url("f"), want(&body));
            tokio::spawn(async move {
                let store = Store::open(root).unwrap();
                client().fetch(&[plain(url)], &want, &store, &quiet).await.unwrap()
            })
        })
        .collect();
    let mut answered = 0;
    for task in tasks {
        answered += usize::from(task.await.unwrap().url.is_some());
    }
    assert_eq!((answered, server.requests().len()), (1, 1));
    assert!(files(&store, "partial").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_fetch_releases_the_next_one() {
    let body = bytes(6, 4 << 20);
    let good = body.clone();
    let server = Server::start(move |request| {
        let reply = file(request, &good, "\"t\"");
        if request.number == 0 { reply.how(How::Stall(3 << 20)) } else { reply }
    })
    .await;
    let (_dir, store) = store();
    let (reached, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let first = tokio::spawn({
        let (store, url, want) = (store.clone(), server.url("f"), want(&body));
        async move {
            let reported = move |done, _| {
                let _ = reached.send(done);
            };
            client().fetch(&[plain(url)], &want, &store, &reported).await
        }
    });
    while seen.recv().await.unwrap() < 2 << 20 {}
    first.abort();
    let _ = first.await;
    client().fetch(&[plain(server.url("f"))], &want(&body), &store, &quiet).await.unwrap();
    assert!(server.requests()[1].offset().is_some(), "{:?}", server.requests());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_than_the_limit_run_at_once_against_one_host() {
    let now = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let most = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let server = Server::start(move |request| {
        let index: u64 = request.path.trim_start_matches('/').parse().unwrap();
        file(request, &bytes(index, 400_000), "\"t\"").how(How::Slowly(100_000, Duration::from_millis(10)))
    })
    .await;
    let (_dir, store) = store();
    crate::support::provider();
    let options = kubexm_transport::HttpOptions { parallel_per_host: 2, ..crate::support::options() };
    let client = kubexm_transport::HttpClient::new(options).unwrap();
    let fetches = (1..=8u64).map(|index| {
        let (client, store, now, most) = (client.clone(), store.clone(), now.clone(), most.clone());
        let (url, want) = (server.url(&index.to_string()), want(&bytes(index, 400_000)));
        async move {
            use std::sync::atomic::Ordering::SeqCst;
            let begun = std::sync::atomic::AtomicBool::new(false);
            let total = want.size;
            let reported = |done, _| {
                if !begun.swap(true, SeqCst) {
                    most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                }
                if Some(done) == total {
                    now.fetch_sub(1, SeqCst);
                }
            };
            client.fetch(&[plain(url)], &want, &store, &reported).await.unwrap();
        }
    });
    futures::future::join_all(fetches).await;
    assert_eq!(most.load(std::sync::atomic::Ordering::SeqCst), 2);
}
