//! A file read over HTTP from many threads, and from where nothing may block. What verbs do with it:
//! `builder/cli/tests/bundle/http.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kubexm_archive::ReadAt;
use kubexm_spec::ExitCode;
use kubexm_transport::HttpFile;

use crate::server::{How, Reply, Request, Server};
use crate::support::{bytes, options, plain, provider};

/// The part that was asked for, of a file that has a date and no entity tag.
fn part(request: &Request, body: &[u8], date: &str) -> Reply {
    let range = request.header("range").and_then(|text| text.strip_prefix("bytes=")?.split_once('-'));
    let (first, last) = range.map(|(first, last)| (first.parse().unwrap(), last.parse::<usize>().unwrap())).unwrap();
    if request.header("if-range").is_some_and(|held| held != date) {
        return Reply::new(200, body).header("last-modified", date);
    }
    let last = last.min(body.len() - 1);
    Reply::new(206, &body[first..=last])
        .header("content-range", format!("bytes {first}-{last}/{}", body.len()))
        .header("last-modified", date)
}

const DATE: &str = "Sat, 21 Nov 2026 12:00:00 GMT";

async fn served(body: Vec<u8>) -> (Server, HttpFile) {
    provider();
    let server = Server::start(move |request| part(request, &body, DATE)).await;
    // Opened and read where the test's own runtime is running: a read waits, and nothing panics.
    let file = HttpFile::open(&plain(server.url("site.tar.zst")), options()).unwrap();
    (server, file)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_that_read_at_once_each_get_their_own_bytes() {
    let body = bytes(1, 3 << 20);
    let (server, file) = served(body.clone()).await;
    assert_eq!(file.len(), body.len() as u64);
    let (file, body) = (Arc::new(file), Arc::new(body));
    let threads: Vec<_> = (0..8)
        .map(|n| {
            let (file, body) = (Arc::clone(&file), Arc::clone(&body));
            std::thread::spawn(move || {
                for (offset, length) in [(n * 1000, 10), (n * 200_000, 300_000), (body.len() - 10, 100), (n, 1)] {
                    let (mut buffer, mut filled) = (vec![0; length], 0);
                    while filled < length {
                        match file.read_at(&mut buffer[filled..], (offset + filled) as u64).unwrap() {
                            0 => break,
                            count => filled += count,
                        }
                    }
                    let end = body.len().min(offset + length);
                    assert!(buffer[..filled] == body[offset..end], "{length} bytes from {offset} on");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(file.read_at(&mut [0; 4], body.len() as u64).unwrap(), 0, "something behind the end");
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_may_be_read_and_dropped_where_nothing_may_block() {
    let (_server, file) = served(bytes(2, 1000)).await;
    let mut buffer = [0; 10];
    assert_eq!(file.read_at(&mut buffer, 990).unwrap(), 10);
    assert_eq!(file.moved(), 1000, "a small file is there after the first request");
    tokio::task::yield_now().await;
    drop(file);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_without_an_etag_is_identified_by_its_date() {
    provider();
    let body = bytes(3, 1 << 20);
    let server = Server::start(move |request| {
        let date = if request.number == 0 { DATE } else { "Sat, 21 Nov 2026 12:00:05 GMT" };
        part(request, &body, date)
    })
    .await;
    let file = HttpFile::open(&plain(server.url("site.tar.zst")), options()).unwrap();
    let error = file.read_at(&mut [0; 10], 500_000).unwrap_err();
    assert!(error.to_string().contains("was changed"), "{error}");
    assert!(file.has_changed() && file.failure().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_in_the_middle_is_given_up_by_name_and_may_be_read_again_when_it_is_back() {
    provider();
    let body = bytes(4, 1 << 20);
    let (served, dead) = (body.clone(), Arc::new(AtomicBool::new(false)));
    let is_dead = Arc::clone(&dead);
    let server = Server::start(move |request| {
        let reply = part(request, &served, DATE);
        if is_dead.load(Ordering::Relaxed) { reply.how(How::Reset(0)) } else { reply }
    })
    .await;
    let file = HttpFile::open(&plain(server.url("site.tar.zst")), options()).unwrap();
    dead.store(true, Ordering::Relaxed);
    let mut buffer = vec![0; 1000];
    let error = file.read_at(&mut buffer, 900_000).unwrap_err();
    assert!(error.to_string().contains(server.address()), "{error}");
    assert_eq!(file.failure().unwrap().0, ExitCode::OriginDown);
    dead.store(false, Ordering::Relaxed);
    assert!(file.read_at(&mut buffer, 900_000).unwrap() == 1000 && buffer == body[900_000..901_000]);
}
