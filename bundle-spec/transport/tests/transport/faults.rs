//! Every way we know that an origin goes wrong, and what must come of it.

use std::time::{Duration, Instant};

use kubexm_spec::{Digest, ExitCode};
use kubexm_transport::{FileCandidate, TransportError, Want};

use crate::server::{How, Reply, Request, Server, file};
use crate::support::{bytes, client, client_of, files, impatient, plain, quiet, store, want};

const SIZE: usize = 3 << 20;
const TAG: &str = "\"one\"";

fn body() -> Vec<u8> {
    bytes(1, SIZE)
}

/// One row: what the first answers are (after them the server behaves), and what must come of it.
struct Row {
    name: &'static str,
    fault: fn(&Request) -> Option<Reply>,
    wants: Outcome,
}

enum Outcome {
    /// The file, after so many requests, the last of them with or without a range.
    Comes { requests: usize, resumed: bool },
    /// An error with this code whose text has this.
    Fails(ExitCode, &'static str),
}

use Outcome::{Comes, Fails};

fn first(request: &Request, reply: impl FnOnce() -> Reply) -> Option<Reply> {
    (request.number == 0).then(reply)
}

const TABLE: &[Row] = &[
    Row { name: "nothing wrong", fault: |_| None, wants: Comes { requests: 1, resumed: false } },
    Row {
        name: "cut off in the middle",
        fault: |r| first(r, || file(r, &body(), TAG).how(How::Cut(SIZE / 2))),
        wants: Comes { requests: 2, resumed: true },
    },
    Row {
        name: "cut off more often than there are retries, but each time further",
        fault: |r| (r.number < 8).then(|| file(r, &body(), TAG).how(How::Cut(SIZE / 10))),
        wants: Comes { requests: 9, resumed: true },
    },
    Row {
        name: "connection reset",
        fault: |r| first(r, || file(r, &body(), TAG).how(How::Reset(SIZE / 2))),
        // What was in flight when the reset came is lost, maybe all of it.
        wants: Comes { requests: 2, resumed: true },
    },
    Row {
        name: "silence in the middle",
        fault: |r| r.offset().is_none().then(|| file(r, &body(), TAG).how(How::Stall(SIZE / 2))),
        wants: Comes { requests: 2, resumed: true },
    },
    Row {
        name: "silence from the first byte on, for ever",
        fault: |r| Some(file(r, &body(), TAG).how(How::Stall(0))),
        wants: Fails(ExitCode::OriginDown, "no bytes for 1 s"),
    },
    Row {
        name: "500 twice",
        fault: |r| (r.number < 2).then(|| Reply::new(500, "oops")),
        wants: Comes { requests: 3, resumed: false },
    },
    Row { name: "503 for ever", fault: |_| Some(Reply::new(503, "")), wants: Fails(ExitCode::OriginDown, "503") },
    Row {
        name: "range ignored: the whole file again",
        fault: |r| match r.number {
            0 => Some(file(r, &body(), TAG).how(How::Cut(SIZE / 2))),
            _ => Some(Reply::new(200, body())),
        },
        wants: Comes { requests: 2, resumed: true },
    },
    Row {
        name: "Content-Range of another place",
        fault: |r| match r.number {
            0 => Some(file(r, &body(), TAG).how(How::Cut(SIZE / 2))),
            1 => Some(
                Reply::new(206, &body()[1000..]).header("content-range", format!("bytes 1000-{}/{SIZE}", SIZE - 1)),
            ),
            _ => None,
        },
        wants: Comes { requests: 3, resumed: false },
    },
    Row {
        name: "another file since the first half: If-Range gives it whole",
        fault: |r| first(r, || file(r, &bytes(2, SIZE), "\"old\"").how(How::Cut(SIZE / 2))),
        wants: Comes { requests: 2, resumed: true },
    },
    Row {
        name: "first half of other bytes, and a server that resumes blindly",
        fault: |r| match r.number {
            0 => Some(Reply::new(200, bytes(2, SIZE)).how(How::Cut(SIZE / 2))),
            _ => None,
        },
        // The file may have been replaced between the two: once more from the first byte.
        wants: Comes { requests: 3, resumed: false },
    },
    Row {
        name: "the same again when it was begun anew",
        fault: |r| (r.number % 2 == 0).then(|| Reply::new(200, bytes(2, SIZE)).how(How::Cut(SIZE / 2))),
        wants: Fails(ExitCode::OriginMismatch, "sent other bytes than asked for"),
    },
    Row {
        name: "wrong bytes of the right length",
        fault: |r| Some(file(r, &bytes(2, SIZE), TAG)),
        wants: Fails(ExitCode::OriginMismatch, "sent other bytes than asked for"),
    },
    Row {
        name: "too long, announced",
        fault: |r| Some(file(r, &bytes(1, SIZE + 1), TAG)),
        wants: Fails(ExitCode::OriginMismatch, "sent another size"),
    },
    Row {
        name: "too short, announced",
        fault: |r| Some(file(r, &body()[..SIZE - 1], TAG)),
        wants: Fails(ExitCode::OriginMismatch, "sent another size"),
    },
    Row {
        name: "login page by its content type",
        fault: |_| Some(Reply::new(200, "welcome").header("content-type", "text/html; charset=utf-8")),
        wants: Fails(ExitCode::OriginMismatch, "an HTML page instead of the file"),
    },
    Row {
        name: "login page by its first bytes, of the right length",
        fault: |_| {
            let mut page = b"\r\n<!DOCTYPE html><html>".to_vec();
            page.resize(SIZE, b' ');
            Some(Reply::new(200, page))
        },
        wants: Fails(ExitCode::OriginMismatch, "an HTML page instead of the file"),
    },
    Row {
        name: "JSON error with status 200",
        fault: |_| Some(Reply::new(200, "{\"error\": 1}").header("content-type", "application/json")),
        wants: Fails(ExitCode::OriginMismatch, "JSON instead of the file"),
    },
    Row {
        name: "encoded body",
        fault: |r| Some(file(r, &body(), TAG).header("content-encoding", "gzip")),
        wants: Fails(ExitCode::OriginMismatch, "encoded with gzip"),
    },
    Row { name: "404", fault: |_| Some(Reply::new(404, "")), wants: Fails(ExitCode::OriginMissing, "404") },
    Row { name: "403", fault: |_| Some(Reply::new(403, "")), wants: Fails(ExitCode::OriginDenied, "403") },
    Row { name: "401", fault: |_| Some(Reply::new(401, "")), wants: Fails(ExitCode::OriginDenied, "401") },
    Row {
        name: "redirect",
        fault: |r| first(r, || Reply::new(302, "").header("location", "/elsewhere")),
        wants: Comes { requests: 2, resumed: false },
    },
    Row {
        name: "redirect without end",
        fault: |_| Some(Reply::new(302, "").header("location", "/again")),
        wants: Fails(ExitCode::OriginDown, "redirect"),
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_ends_in_the_file_or_in_an_error_that_names_it_and_nothing_wrong_stays() {
    for row in TABLE {
        let body = body();
        let server = {
            let body = body.clone();
            let fault = row.fault;
            Server::start(move |request| fault(request).unwrap_or_else(|| file(request, &body, TAG))).await
        };
        let (_dir, store) = store();
        let url = server.url("file");
        // Patience would take its time with these.
        let silent = row.name.starts_with("silence");
        let client = if silent { client_of(impatient()) } else { client() };
        let result = client.fetch(&[plain(&url)], &want(&body), &store, &quiet).await;
        let requests = server.requests();
        match &row.wants {
            Comes { requests: wanted, resumed } => {
                let fetched = result.unwrap_or_else(|e| panic!("{}: {e}", row.name));
                assert_eq!(fetched.url.as_deref(), Some(url.as_str()), "{}", row.name);
                assert_eq!(std::fs::read(store.path(&fetched.digest)).unwrap(), body, "{}", row.name);
                // On a busy machine, bytes that were sent may be late, too.
                let enough = if silent { requests.len() >= *wanted } else { requests.len() == *wanted };
                assert!(enough, "{}: {requests:?}", row.name);
                let last = requests.last().unwrap();
                // A reset may take with it everything that came before it.
                if !row.name.contains("reset") {
                    assert_eq!(last.offset().is_some(), *resumed, "{}: {last:?}", row.name);
                }
                assert!(files(&store, "partial").is_empty(), "{}", row.name);
            }
            Fails(code, text) => {
                let error = result.expect_err(row.name);
                assert_eq!(error.exit_code(), *code, "{}: {error}", row.name);
                let reported = error.to_string();
                assert!(reported.contains(text), "{}: {reported}", row.name);
                assert!(reported.contains(&url), "{}: the origin is not named: {reported}", row.name);
                assert!(!store.contains(&Digest::of(&body)), "{}", row.name);
                assert!(files(&store, "blobs/sha256").is_empty(), "{}", row.name);
                assert!(files(&store, "partial").is_empty(), "{}: {:?}", row.name, files(&store, "partial"));
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_origin_is_named_with_both_digests_and_the_next_one_serves() {
    let body = body();
    let (good, bad) = (body.clone(), bytes(2, SIZE));
    let found = Digest::of(&bad);
    let wrong = Server::start(move |request| file(request, &bad, TAG)).await;
    let right = Server::start(move |request| file(request, &good, TAG)).await;
    let (_dir, store) = store();
    let candidates = [plain(wrong.url("f")), plain(right.url("f"))];
    let fetched = client().fetch(&candidates, &want(&body), &store, &quiet).await.unwrap();
    assert_eq!(fetched.url, Some(right.url("f")));

    store_is_empty_again(&store, &fetched.digest);
    let error = client().fetch(&candidates[..1], &want(&body), &store, &quiet).await.unwrap_err();
    let reported = error.to_string();
    for part in [wrong.url("f"), Digest::of(&body).to_string(), found.to_string()] {
        assert!(reported.contains(&part), "{reported}");
    }
}

fn store_is_empty_again(store: &kubexm_transport::Store, digest: &Digest) {
    std::fs::remove_file(store.path(digest)).unwrap();
}

#[tokio::test]
async fn a_half_from_one_mirror_is_resumed_at_the_next() {
    let body = body();
    let (one, two) = (body.clone(), body.clone());
    let dying = Server::start(move |request| match request.number {
        0 => file(request, &one, "\"a\"").how(How::Cut(SIZE / 2)),
        _ => Reply::new(500, ""),
    })
    .await;
    let healthy = Server::start(move |request| file(request, &two, "\"b\"")).await;
    let (_dir, store) = store();
    let candidates = [plain(dying.url("f")), plain(healthy.url("f"))];
    client().fetch(&candidates, &want(&body), &store, &quiet).await.unwrap();
    let asked = healthy.requests();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].offset().is_some_and(|offset| offset > 0), "{asked:?}");
    assert_eq!(asked[0].header("if-range"), None, "the tag is another origin's");
}

#[tokio::test]
async fn a_wrong_half_from_one_mirror_does_not_put_the_blame_on_the_next() {
    let body = body();
    let good = body.clone();
    let lying = Server::start(move |request| match request.number {
        0 => file(request, &bytes(2, SIZE), "\"a\"").how(How::Cut(SIZE / 2)),
        _ => Reply::new(404, ""),
    })
    .await;
    let honest = Server::start(move |request| file(request, &good, "\"b\"")).await;
    let (_dir, store) = store();
    let candidates = [plain(lying.url("f")), plain(honest.url("f"))];
    let fetched = client().fetch(&candidates, &want(&body), &store, &quiet).await.unwrap();
    assert_eq!(fetched.url, Some(honest.url("f")));
    assert_eq!(honest.requests().len(), 2, "once to continue, once from the first byte");
}

#[tokio::test]
async fn retry_after_is_waited_for() {
    let body = body();
    let good = body.clone();
    let server = Server::start(move |request| match request.number {
        0 => Reply::new(429, "").header("retry-after", "1"),
        _ => file(request, &good, TAG),
    })
    .await;
    let (_dir, store) = store();
    let begun = Instant::now();
    client().fetch(&[plain(server.url("f"))], &want(&body), &store, &quiet).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn when_all_fail_each_is_named_with_its_own_reason() {
    let missing = Server::start(|_| Reply::new(404, "")).await;
    let broken = Server::start(|_| Reply::new(500, "")).await;
    let (_dir, store) = store();
    let candidates = [
        plain(missing.url("a")),
        plain(broken.url("b?token=secret")),
        FileCandidate::new(missing.url("c")),
        plain("ftp://host/d"),
    ];
    let error = client().fetch(&candidates, &want(&body()), &store, &quiet).await.unwrap_err();
    let reported = error.to_string();
    for part in ["404", "500", "plain http is not allowed", "ftp is not a scheme"] {
        assert!(reported.contains(part), "{part}: {reported}");
    }
    assert!(!reported.contains("secret"), "a query may carry a token: {reported}");
    let TransportError::AllFailed { tried, .. } = error else { panic!("{reported}") };
    assert_eq!(tried.len(), 4);
}

#[tokio::test]
async fn without_a_digest_a_transfer_is_resumed_only_with_an_etag() {
    for (tag, resumed) in [(Some("\"t\""), true), (Some("W/\"t\""), false), (None, false)] {
        let body = body();
        let good = body.clone();
        let server = Server::start(move |request| {
            let mut reply = file(request, &good, tag.unwrap_or("\"none\""));
            if tag.is_none() {
                reply.headers.retain(|(name, _)| name != "etag");
            }
            if request.number == 0 { reply.how(How::Cut(SIZE / 2)) } else { reply }
        })
        .await;
        let (_dir, store) = store();
        let any = Want { refuse_html: true, ..Want::default() };
        let fetched = client().fetch(&[plain(server.url("f"))], &any, &store, &quiet).await.unwrap();
        assert_eq!(fetched.digest, Digest::of(&body));
        assert_eq!(server.requests()[1].offset().is_some(), resumed, "{tag:?}");
    }
}

#[tokio::test]
async fn what_the_store_has_is_not_asked_for_and_a_cut_blob_is_fetched_anew() {
    let body = body();
    let good = body.clone();
    let server = Server::start(move |request| file(request, &good, TAG)).await;
    let (_dir, store) = store();
    let candidates = [plain(server.url("f"))];
    let (client, want) = (client(), want(&body));
    client.fetch(&candidates, &want, &store, &quiet).await.unwrap();
    assert_eq!(client.fetch(&candidates, &want, &store, &quiet).await.unwrap().url, None);
    assert_eq!(server.requests().len(), 1);

    std::fs::write(store.path(&Digest::of(&body)), &body[..1000]).unwrap();
    client.fetch(&candidates, &want, &store, &quiet).await.unwrap();
    assert_eq!(server.requests().len(), 2);
    assert_eq!(std::fs::read(store.path(&Digest::of(&body))).unwrap(), body);
}

#[tokio::test]
async fn small_bodies_have_a_limit_and_head_requests_return_size_and_etag() {
    let server = Server::start(|request| file(request, b"0123456789", TAG)).await;
    let candidate = plain(server.url("f"));
    let client = client();
    assert_eq!(client.get_small(&candidate, 10).await.unwrap(), b"0123456789");
    let error = client.get_small(&candidate, 9).await.unwrap_err();
    assert!(error.to_string().contains("more than 9 bytes"), "{error}");
    let head = client.head(&candidate).await.unwrap();
    assert_eq!((head.size, head.etag.as_deref()), (Some(10), Some(TAG)));
}

#[tokio::test]
async fn progress_ends_at_the_whole() {
    let body = body();
    let good = body.clone();
    let server = Server::start(move |request| file(request, &good, TAG)).await;
    let (_dir, store) = store();
    let last = std::sync::Mutex::new((0, None));
    let reported = |done, total| *last.lock().unwrap() = (done, total);
    client().fetch(&[plain(server.url("f"))], &want(&body), &store, &reported).await.unwrap();
    assert_eq!(*last.lock().unwrap(), (SIZE as u64, Some(SIZE as u64)));
}
