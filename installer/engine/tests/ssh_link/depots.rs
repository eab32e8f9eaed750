//! Blobs that a node takes from depots when the controller asks it to, and what the controller sends after all.

#[path = "../it/common/depots.rs"]
mod real;

use std::collections::BTreeMap;
use std::sync::Mutex;

use kubexm_plan::StepId;

use super::*;
use real::Site;

fn fill() -> StepId {
    StepId("n1/store.fill".to_owned())
}

fn no_progress(_: Digest, _: u64, _: u64) {}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_takes_from_a_depot_what_the_depot_has_and_the_controller_sends_the_rest() {
    let server = Server::start(&Setup::default());
    let link = server.connect().await.unwrap();
    let source = Pattern::new(&[300_000, 3_000_000], u64::MAX, &|| {});
    let (site, depot) = tokio::task::spawn_blocking(|| {
        let site = Site::new();
        let depot = site.depot("one", &[&content(2, 3_000_000)]);
        (site, depot)
    })
    .await
    .unwrap();
    let came = Mutex::new(BTreeMap::new());
    let progress = |digest: Digest, done: u64, _: u64| {
        came.lock().unwrap().insert(digest, done);
    };
    let fetched = link.fetch(&fill(), &source.list(), &site.depots(&[depot]), &progress).await.unwrap();
    let [missing, there] = source.list()[..] else { panic!("two blobs") };
    assert_eq!((fetched.missing, fetched.reasons), (vec![missing], Vec::new()));
    assert_eq!(stored(&server, &there.0), Some(there.0));
    assert_eq!(came.into_inner().unwrap(), [there].into());
    assert!(source.offsets.lock().unwrap().is_empty(), "a byte of it passed the controller");

    link.deliver(&[missing], &source, &no_progress).await.unwrap();
    assert_eq!(stored(&server, &missing.0), Some(missing.0));
    tokio::task::spawn_blocking(|| drop(site)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_depot_that_is_down_is_reported_and_a_host_without_depots_asks_nobody() {
    let server = Server::start(&Setup::default());
    let link = server.connect().await.unwrap();
    let source = Pattern::new(&[1_000], u64::MAX, &|| {});
    let (site, nobody) = tokio::task::spawn_blocking(|| {
        // It is held until the program ends: let go, the next server of another test could get it.
        let socket = std::mem::ManuallyDrop::new(tokio::net::TcpSocket::new_v4().unwrap());
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        (Site::new(), socket.local_addr().unwrap())
    })
    .await
    .unwrap();
    let fetched = link.fetch(&fill(), &source.list(), &site.depots(&[nobody]), &no_progress).await.unwrap();
    assert_eq!(fetched.missing, source.list());
    assert!(fetched.reasons[0].starts_with(&format!("depot https://{nobody}: ")), "{:?}", fetched.reasons);
    let fetched = link.fetch(&fill(), &source.list(), &site.depots(&[]), &no_progress).await.unwrap();
    assert_eq!((fetched.missing, fetched.reasons), (source.list(), Vec::new()));
    tokio::task::spawn_blocking(|| drop(site)).await.unwrap();
}
