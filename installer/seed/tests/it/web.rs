//! Bundles on a web server: read in place by ranges, in one file or in volumes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kubexm_seed::{Spool, State, open};
use kubexm_spec::{ExitError, Platform};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::bundles::{Maker, noise};
use crate::registry::{Registry, Setup};
use crate::site::{options, run};

/// Serves the files of a folder by ranges; its address, and the bytes that it sent.
async fn serve(folder: PathBuf) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (folder, count) = (folder.clone(), Arc::clone(&count));
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { return };
                    head.push(byte);
                }
                let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
                let name = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
                let answer = match std::fs::read(folder.join(name)) {
                    Err(_) => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
                    Ok(bytes) => {
                        let range = head.lines().find_map(|line| line.strip_prefix("range: bytes=")).unwrap();
                        let (first, last) = range.split_once('-').unwrap();
                        let (first, last): (usize, usize) = (first.parse().unwrap(), last.trim().parse().unwrap());
                        let last = last.min(bytes.len() - 1);
                        count.fetch_add(last + 1 - first, Ordering::Relaxed);
                        let mut answer = format!(
                            "HTTP/1.1 206 x\r\netag: \"1\"\r\nconnection: close\r\ncontent-length: {}\r\ncontent-range: bytes {first}-{last}/{}\r\n\r\n",
                            last + 1 - first,
                            bytes.len()
                        )
                        .into_bytes();
                        answer.extend_from_slice(&bytes[first..=last]);
                        answer
                    }
                };
                let _ = stream.write_all(&answer).await;
            });
        }
    });
    (address, sent)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_on_a_web_server_is_seeded_and_only_what_is_missing_is_read_of_it() {
    let registry = Registry::start(Setup::default());
    let folder = tempfile::tempdir().unwrap();
    let make = || {
        let mut maker = Maker::new(&[Platform::LINUX_AMD64]);
        maker.image("quay.io/a/app:1", &[noise(1, 12 << 20)], 0);
        maker
    };
    let file = make().write(folder.path());
    let (address, sent) = serve(folder.path().to_owned()).await;
    let url = format!("{address}/{}", file.file_name().unwrap().to_str().unwrap());
    let options = options(folder.path(), &registry.address);
    let opened = |url: String, plain_http: bool| {
        let connection = kubexm_seed::Connection { plain_http, ..options.connection.clone() };
        tokio::task::spawn_blocking(move || {
            open(&[url.into()], &[], false, &connection, Spool { folder: "/nonexistent".as_ref(), report: &|_| () })
        })
    };
    let refused = opened(url.clone(), false).await.unwrap().unwrap_err();
    assert_eq!(refused.exit_code().code(), 20, "http was not allowed: {refused}");
    let bundle = opened(url.clone(), true).await.unwrap().unwrap();
    assert_eq!(run(&bundle, &options).await.unwrap().count(State::Pushed), 1);
    let first = sent.swap(0, Ordering::Relaxed);
    assert!(first > 12 << 20, "{first}");
    let again = opened(url, true).await.unwrap().unwrap();
    assert_eq!(run(&again, &options).await.unwrap().count(State::Present), 1);
    let second = sent.load(Ordering::Relaxed);
    assert!(second < 1 << 20, "{second} bytes were read for nothing");
    // In volumes, by the name that the bundle was built with.
    let volumes = make().write_split(folder.path(), 10 << 20);
    assert!(volumes > 1, "{volumes} volumes");
    let split = opened(format!("{address}/split.tar.zst"), true).await.unwrap().unwrap();
    assert_eq!(run(&split, &options).await.unwrap().count(State::Present), 1);
}
