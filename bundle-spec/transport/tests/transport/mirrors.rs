//! Mirrors that fail: what is remembered of them, and where the next one continues.

use std::time::Duration;

use kubexm_transport::{HttpOptions, Want};

use crate::server::{How, Reply, Server, file};
use crate::support::{bytes, client, client_of, impatient, options, plain, quiet, soon, store, want};

const SIZE: usize = 3 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn the_next_mirror_resumes_at_the_byte_where_one_stopped() {
    // In the middle of a chunk, at its ends, and at the ends of the file.
    for (at, how) in
        [0, 1, 4095, 65_536, 1_234_567, SIZE - 1].into_iter().flat_map(|at| [(at, How::Cut(at)), (at, How::Reset(at))])
    {
        let body = bytes(9, SIZE);
        let (first, second) = (body.clone(), body.clone());
        let breaking = Server::start(move |request| match request.number {
            0 => file(request, &first, "\"a\"").how(how),
            _ => Reply::new(404, ""),
        })
        .await;
        let whole = Server::start(move |request| file(request, &second, "\"b\"")).await;
        let (_dir, store) = store();
        let candidates = [plain(breaking.url("f")), plain(whole.url("f"))];
        let fetched = client().fetch(&candidates, &want(&body), &store, &quiet).await.unwrap();
        assert_eq!(fetched.url, Some(whole.url("f")));
        let asked = whole.requests();
        assert_eq!(asked.len(), 1);
        let offset = asked[0].offset().unwrap_or(0);
        match how {
            // The kernel throws away what it held of a connection that is reset.
            How::Reset(_) => assert!(offset <= at, "broke at {at}, continued at {offset}"),
            _ => assert_eq!(offset, at),
        }
        assert!(asked[0].header("if-range").is_none(), "the tag of another mirror says nothing here");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_that_is_down_is_tried_in_full_once_and_not_for_every_file() {
    let files: Vec<Vec<u8>> = (0..20).map(|seed| bytes(seed, 10_000)).collect();
    let served = files.clone();
    let broken = Server::start(|_| Reply::new(500, "")).await;
    let good = Server::start(move |request| {
        let index: usize = request.path.trim_start_matches('/').parse().unwrap();
        file(request, &served[index], "\"t\"")
    })
    .await;
    let (_dir, store) = store();
    let client = client();
    for (index, body) in files.iter().enumerate() {
        let name = index.to_string();
        let candidates = [plain(broken.url(&name)), plain(good.url(&name))];
        client.fetch(&candidates, &want(body), &store, &quiet).await.unwrap();
    }
    assert_eq!(broken.requests().len(), 1 + options().retries, "only the first file was to learn it");
    assert_eq!(good.requests().len(), files.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_that_refuses_connections_does_not_hold_up_many_files_at_once() {
    // Nobody listens there, and nobody else is given the port.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = socket.local_addr().unwrap();
    let good = Server::start(|request| {
        let seed = request.path.trim_start_matches('/').parse().unwrap();
        file(request, &bytes(seed, 10_000), "\"t\"")
    })
    .await;
    // Waits that would be noticed.
    let hour = Duration::from_secs(3600);
    let client = client_of(HttpOptions { backoff_min: hour, backoff_max: hour, ..options() });
    let (_dir, store) = store();
    let all = (1..=12u64).map(|seed| {
        let (client, store, good) = (&client, &store, &good);
        async move {
            let candidates = [plain(format!("http://{nobody}/{seed}")), plain(good.url(&seed.to_string()))];
            client.fetch(&candidates, &want(&bytes(seed, 10_000)), store, &quiet).await.unwrap()
        }
    });
    soon(futures::future::join_all(all)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_only_origin_that_was_down_gets_one_try_a_file_and_is_trusted_again_when_it_answers() {
    let server = Server::start(|request| match request.number {
        // The tries of the first file, and the one of the second.
        0..=4 => Reply::new(503, ""),
        _ => file(request, &bytes(3, 10_000), "\"t\""),
    })
    .await;
    let (_dir, store) = store();
    let (client, body) = (client(), bytes(3, 10_000));
    let candidates = [plain(server.url("f"))];
    for tries in [4, 5] {
        client.fetch(&candidates, &want(&body), &store, &quiet).await.unwrap_err();
        assert_eq!(server.requests().len(), tries);
    }
    client.fetch(&candidates, &want(&body), &store, &quiet).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_that_crawls_is_left_for_one_that_does_not() {
    let body = bytes(4, 200_000);
    let (first, second) = (body.clone(), body.clone());
    let crawling =
        Server::start(move |request| file(request, &first, "\"a\"").how(How::Slowly(10, Duration::from_millis(50))))
            .await;
    let good = Server::start(move |request| file(request, &second, "\"b\"")).await;
    let (_dir, store) = store();
    let candidates = [plain(crawling.url("f")), plain(good.url("f"))];
    let client = client_of(impatient());
    let fetched = client.fetch(&candidates, &want(&body), &store, &quiet).await.unwrap();
    assert_eq!(fetched.url, Some(good.url("f")));
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_changed_between_two_tries_is_never_mixed() {
    // A server that takes no If-Range, and one that does; with a digest and without.
    for (honest, digest) in [(true, true), (true, false), (false, true)] {
        let (old, new) = (bytes(1, SIZE), bytes(2, SIZE));
        let (first, then) = (old.clone(), new.clone());
        let server = Server::start(move |request| match request.number {
            0 => file(request, &first, "\"old\"").how(How::Cut(SIZE / 2)),
            _ => file(request, &then, if honest { "\"new\"" } else { "\"old\"" }),
        })
        .await;
        let (_dir, store) = store();
        let want = if digest { want(&new) } else { Want { refuse_html: true, ..Want::default() } };
        let fetched = client().fetch(&[plain(server.url("f"))], &want, &store, &quiet).await.unwrap();
        assert_eq!(fetched.digest, kubexm_spec::Digest::of(&new), "honest: {honest}, digest known: {digest}");
    }
}
