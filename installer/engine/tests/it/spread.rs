//! Hosts of a run that take content from each other, on the simulated fleet.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{OneBlob, Site, StopAt, checked, fleet};
use async_trait::async_trait;
use kubexm_engine::events::{Recorder, Silent};
use kubexm_engine::link::BlobSource;
use kubexm_engine::{EngineError, Outcome, execute};
use kubexm_plan::{CheckedPlan, Op};
use kubexm_spec::Digest;
use kubexm_spec::event::EventKind;
use tokio::time::{Duration, Instant};

const WORKERS: [&str; 5] = ["w1", "w2", "w3", "w4", "w5"];

/// Each host serves what it has.
fn plan() -> CheckedPlan {
    let mut plan = fleet::plan(&WORKERS);
    for step in &mut plan.steps {
        let number = WORKERS.iter().position(|name| **name == step.host).map_or(9, |at| at as u8);
        for op in &mut step.ops {
            if let Op::Blobs(blobs) = op {
                blobs.shared_at = Some(SocketAddr::from(([10, 0, 0, number], 5444)));
            }
        }
        if step.ops.iter().any(|op| matches!(op, Op::Blobs(_))) {
            // As recipes plan it.
            step.timeout_s = 450;
        }
    }
    checked(plan)
}

fn site() -> Site {
    Site::with(["cp"].into_iter().chain(WORKERS))
}

/// Counts how often the bundle is read.
#[derive(Default)]
struct Counted(AtomicUsize);

#[async_trait]
impl BlobSource for Counted {
    async fn open(&self, digest: Digest, offset: u64) -> std::io::Result<Box<dyn tokio::io::AsyncRead + Send + Unpin>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        OneBlob.open(digest, offset).await
    }
}

#[tokio::test]
async fn the_controller_sends_a_blob_once_and_hosts_take_it_from_each_other() {
    let (site, plan, blobs) = (site(), plan(), Counted::default());
    let (mut run, links) = (site.create(&plan), site.fleet.links());
    let outcome = execute(&plan, &links, &mut run, &site.pki, &blobs, &Silent, site.options.clone()).await.unwrap();
    assert_eq!(outcome, Outcome::Succeeded);
    assert_eq!(blobs.0.into_inner(), 1);
    let taken = site.fleet.taken();
    assert_eq!(taken.len(), WORKERS.len());
    for (_, source) in &taken {
        let most = taken.iter().filter(|(_, other)| other == source).count();
        assert!(most < WORKERS.len(), "all took from {source}: {taken:?}");
    }
}

#[tokio::test]
async fn without_fan_out_every_host_gets_it_from_the_controller() {
    let (mut site, plan, blobs) = (site(), plan(), Counted::default());
    site.options.fan_out = false;
    let (mut run, links) = (site.create(&plan), site.fleet.links());
    let outcome = execute(&plan, &links, &mut run, &site.pki, &blobs, &Silent, site.options.clone()).await.unwrap();
    assert_eq!(outcome, Outcome::Succeeded);
    assert_eq!((blobs.0.into_inner(), site.fleet.taken()), (WORKERS.len() + 1, Vec::new()));
}

#[tokio::test]
async fn hosts_that_serve_nothing_right_are_left_and_reported_and_the_controller_sends_instead() {
    let (site, plan, events) = (site(), plan(), Recorder::default());
    for host in WORKERS.into_iter().chain(["cp"]) {
        site.fleet.serves_wrong_bytes(host);
    }
    let mut run = site.create(&plan);
    assert_eq!(site.execute(&plan, &mut run, &events).await.unwrap(), Outcome::Succeeded);
    assert_eq!(site.fleet.taken(), []);
    let warned = events.events().into_iter().filter_map(|event| match event.kind {
        EventKind::Warning { text } => Some(text),
        _ => None,
    });
    let warned: Vec<String> = warned.collect();
    assert!(warned.iter().any(|text| text.contains("it is left for a while")), "{warned:?}");
}

#[tokio::test]
async fn a_host_that_says_that_others_have_nothing_takes_nothing_from_them_and_the_rest_do() {
    let (site, plan, blobs) = (site(), plan(), Counted::default());
    site.fleet.lies_about_others("w1");
    let (mut run, links) = (site.create(&plan), site.fleet.links());
    let outcome = execute(&plan, &links, &mut run, &site.pki, &blobs, &Silent, site.options.clone()).await.unwrap();
    assert_eq!(outcome, Outcome::Succeeded);
    let taken = site.fleet.taken();
    assert_eq!(taken.len(), WORKERS.len() - 1, "{taken:?}");
    assert!(taken.iter().all(|(to, _)| to != "w1"), "{taken:?}");
    assert_eq!(blobs.0.into_inner(), 2);
}

#[tokio::test]
async fn a_run_that_dies_anywhere_is_continued() {
    let plan = plan();
    for nth in 1.. {
        let mut site = site();
        site.options.hook = Some(StopAt::new(false, nth));
        let mut run = site.create(&plan);
        match site.execute(&plan, &mut run, &Silent).await {
            Err(EngineError::Stopped { .. }) => {}
            Ok(Outcome::Succeeded) => {
                assert!(nth > 10, "only {nth} records");
                return;
            }
            other => panic!("{nth}: {other:?}"),
        }
        drop(run);
        site.options.hook = None;
        assert_eq!(site.resume(&Silent).await.unwrap(), Outcome::Succeeded, "from record {nth}");
    }
}

/// Runs a plan on hosts that take requests for what they serve and never answer; returns what was taken, and how long it took.
async fn among_silent_hosts(plan: CheckedPlan) -> (Vec<(String, String)>, Duration) {
    let site = site();
    for host in WORKERS.into_iter().chain(["cp"]) {
        site.fleet.serves_for_ever(host);
    }
    let (mut run, begun) = (site.create(&plan), Instant::now());
    assert_eq!(site.execute(&plan, &mut run, &Silent).await.unwrap(), Outcome::Succeeded);
    (site.fleet.taken(), begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn transfers_that_never_end_are_given_up_and_the_controller_sends_instead() {
    let (taken, within) = among_silent_hosts(plan()).await;
    assert_eq!(taken, []);
    assert!(within < Duration::from_secs(120), "{within:?}");
}

#[tokio::test(start_paused = true)]
async fn what_others_do_not_send_in_their_part_of_the_time_comes_without_them() {
    let mut plan = plan().plan().clone();
    for step in plan.steps.iter_mut().filter(|step| step.timeout_s == 450) {
        step.timeout_s = 304;
    }
    let (taken, within) = among_silent_hosts(checked(plan)).await;
    assert_eq!(taken, []);
    assert!(within < Duration::from_secs(10), "{within:?}");
}
