//! A seed that is stopped, and one that is killed: what the next one sends.

use std::sync::Arc;
use std::time::Duration;

use kubexm_seed::{SeedError, seed};
use kubexm_spec::event::EventKind;
use kubexm_spec::{Digest, Platform};
use tokio_util::sync::CancellationToken;

use crate::bundles::{Maker, noise};
use crate::proxy::{Fault, Proxy, Seen};
use crate::registry::{Registry, Setup};
use crate::site::{options, run};

/// Bytes of one layer, of several chunks.
const LAYER: usize = 30 << 20;
/// What a chunk takes longer than half a second: all chunks stay the smallest then, however fast the machine is.
const SLOW: Duration = Duration::from_millis(600);

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_that_is_stopped_again_and_again_sends_no_byte_twice() {
    let registry = Registry::start(Setup::default());
    let slow = |seen: &Seen, _| match seen.method.as_str() {
        "PATCH" => Fault::Late(SLOW),
        _ => Fault::None,
    };
    let proxy = Proxy::before(&registry.address, slow).await;
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&[Platform::LINUX_AMD64]);
    let one = maker.image("quay.io/team/app:1", &[noise(1, LAYER)], 0);
    maker.image("quay.io/team/app:2", &[noise(2, LAYER)], 0);
    let bundle = maker.bundle(folder.path());
    let options = options(folder.path(), &proxy.address);
    let mut stops = 0;
    loop {
        let stop = CancellationToken::new();
        let before = proxy.count("PATCH", "");
        let report = |kind: EventKind| {
            if matches!(kind, EventKind::Progress { .. }) && proxy.count("PATCH", "") >= before + 2 {
                stop.cancel();
            }
        };
        match seed(&bundle, &options, &stop, &report).await {
            Ok(_) => break,
            Err(SeedError::Stopped | SeedError::Partly { .. }) => stops += 1,
            Err(other) => panic!("{other:?}"),
        }
        assert!(stops < 40, "no progress");
    }
    assert!(stops > 2, "it was stopped {stops} times only");
    let wanted = 2 * LAYER;
    assert!(proxy.uploaded() < wanted + 10_000, "{} of {wanted} bytes", proxy.uploaded());
    assert_eq!(Digest::of(registry.raw("mirror/quay.io/team/app:1")), one.target.digest);
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_that_a_killed_seed_sent_are_not_sent_again() {
    let registry = Registry::start(Setup::default());
    let proxy = Proxy::before(&registry.address, |_: &Seen, _| Fault::None).await;
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&[Platform::LINUX_AMD64]);
    let layers: Vec<Vec<u8>> = (0..20).map(|n| noise(n + 1, 1 << 20)).collect();
    maker.image("quay.io/team/app:1", &layers, 0);
    let bundle = maker.bundle(folder.path());
    let options = options(folder.path(), &proxy.address);
    // Dropped in the middle, as a kill would: nothing is finished.
    let half = Arc::new(tokio::sync::Notify::new());
    let told = Arc::clone(&half);
    let report = move |kind: EventKind| {
        if let EventKind::Progress { done, .. } = kind
            && done > 10 << 20
        {
            told.notify_one();
        }
    };
    let never = CancellationToken::new();
    tokio::select! {
        ended = seed(&bundle, &options, &never, &report) => panic!("it ended: {ended:?}"),
        () = half.notified() => {}
    }
    run(&bundle, &options).await.unwrap();
    let wanted = 20 << 20;
    assert!(proxy.uploaded() < wanted + (5 << 20), "{} of {wanted} bytes", proxy.uploaded());
}
