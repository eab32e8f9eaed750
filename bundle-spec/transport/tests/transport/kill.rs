//! SIGKILL at any moment: the store holds whole blobs under final names, and the next run continues.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use kubexm_spec::Digest;
use kubexm_transport::Store;

use crate::server::{How, Server, file};
use crate::support::{LONG, bytes, client, files, plain, quiet, want};

const CHILD: &str = "KUBEXM_TRANSPORT_TEST_CHILD";
const BLOBS: u64 = 8;
const SIZE: usize = 6 << 20;
const KILLS: u32 = 10;
/// The longest time a run is left to work, in milliseconds.
const LONGEST: u64 = 250;
const PIECE: usize = 128 << 10;
/// The other blobs come to their end in the midst of the kills.
const PAUSE: Duration = Duration::from_millis(25);

/// Run by the test below in a process of its own; without its variable there is nothing to do.
async fn child(arguments: &str) {
    let (root, base) = arguments.split_once(' ').unwrap();
    let store = Store::open(root).unwrap();
    let client = client();
    let (client, store) = (&client, &store);
    let fetches = (1..=BLOBS).map(|index| async move {
        let url = format!("{base}{index}");
        client.fetch(&[plain(url)], &want(&bytes(index, SIZE)), store, &quiet).await.unwrap();
    });
    futures::future::join_all(fetches).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_killed_at_random_moments_resumes_and_leaves_only_complete_blobs() {
    if let Ok(arguments) = std::env::var(CHILD) {
        return child(&arguments).await;
    }
    let bodies: Vec<Vec<u8>> = (1..=BLOBS).map(|index| bytes(index, SIZE)).collect();
    let served = bodies.clone();
    let last = Arc::new(AtomicBool::new(false));
    let is_last = Arc::clone(&last);
    let server = Server::start(move |request| {
        let index: usize = request.path.trim_start_matches('/').parse().unwrap();
        let reply = file(request, &served[index - 1], "\"t\"");
        // No run comes to its end before it is killed, however late that is: one blob never does.
        let never = index == 1 && !is_last.load(Ordering::Relaxed);
        reply.how(if never { How::Stall(PIECE) } else { How::Slowly(PIECE, PAUSE) })
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::a_fetch_killed_at_random_moments_resumes_and_leaves_only_complete_blobs"])
            .env(CHILD, format!("{} {}", store.root().display(), server.url("")))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut unfinished = 0;
    let endless = Digest::of(&bodies[0]);
    for round in 0..KILLS {
        let before = server.requests().len();
        let mut child = start();
        // Once it is running, a random moment later.
        let deadline = tokio::time::Instant::now() + 2 * LONG;
        while server.requests().len() == before && child.try_wait().unwrap().is_none() {
            assert!(tokio::time::Instant::now() < deadline, "the child never asked for anything");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // The last of them leaves something to continue with, whatever the others did.
        while round + 1 == KILLS && store.partial_size(&endless) == 0 {
            assert!(tokio::time::Instant::now() < deadline, "nothing came");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos();
        tokio::time::sleep(Duration::from_millis(u64::from(nanos) % LONGEST)).await;
        child.kill().unwrap();
        unfinished += u32::from(!child.wait().unwrap().success());
        for name in files(&store, "blobs/sha256") {
            let body = std::fs::read(store.root().join("blobs/sha256").join(&name)).unwrap();
            assert_eq!(Digest::of(&body).hex(), name, "a blob that is not whole has a final name");
        }
    }
    assert_eq!(unfinished, KILLS, "runs came to their end before they were killed");
    last.store(true, Ordering::Relaxed);
    let status = tokio::task::spawn_blocking({
        let mut child = start();
        move || child.wait().unwrap()
    })
    .await
    .unwrap();
    assert!(status.success());
    for body in &bodies {
        assert!(store.verify(&Digest::of(body)).unwrap());
    }
    // A kill may leave a small temporary file; opening the store sweeps it when it is old.
    let left: Vec<String> = files(&store, "partial").into_iter().filter(|name| !name.starts_with("insert-")).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(server.requests().iter().any(|request| request.offset().is_some()), "nothing was ever resumed");
}
