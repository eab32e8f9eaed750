//! A run that continues while a host that it may leave out is gone.

#![allow(clippy::expect_used, reason = "a test that cannot set itself up has failed")]

use std::sync::Arc;

use crate::common::fleet;
use crate::common::{OneBlob, Site, checked};
use kubexm_engine::events::Silent;
use kubexm_engine::link::{LinkError, LinkLost};
use kubexm_engine::{Drill, EngineError, Outcome, execute};

fn unreachable(host: &str) -> LinkError {
    let (address, reason) = (format!("{host}:22"), "no route to host".to_owned());
    LinkError::Unreachable { host: host.to_owned(), address, reason }
}

#[tokio::test]
async fn a_resumed_run_leaves_out_a_lost_worker_and_a_later_resume_adds_it() {
    let plan = checked(fleet::plan(&["w1", "w2"]));
    let whole = Site::with(["cp", "w1", "w2"]);
    whole.execute(&plan, &mut whole.create(&plan), &Silent).await.expect("a run");
    for nth in 1..whole.records().len() {
        let mut site = Site::with(["cp", "w1", "w2"]);
        site.options.drill = Some(Drill::DieAtRecord(nth));
        let died = site.execute(&plan, &mut site.create(&plan), &Silent).await;
        assert!(matches!(died, Err(EngineError::Stopped { .. })), "{died:?}");

        site.options.drill = None;
        site.options.max_failed_hosts = 1;
        let mut links = site.fleet.links();
        links.insert("w2".to_owned(), Arc::new(LinkLost::of(&unreachable("w2")).expect("it is gone")));
        let (mut run, plan) = site.load().expect("the run");
        let outcome = execute(&plan, &links, &mut run, &site.pki, &OneBlob, &Silent, site.options.clone()).await;
        assert_eq!(outcome.expect("the run"), Outcome::Partial, "record {nth}");
        drop(run);
        let left = site.status().left_out.remove(0);
        assert!(left.host == "w2" && left.why.contains("cannot reach w2"), "{left:?}");
        assert_eq!(site.fleet.snapshot()["(cluster)"]["label:cp:checked"], "yes", "the others are not held up");

        assert_eq!(site.resume(&Silent).await.expect("the resumed run"), Outcome::Succeeded, "record {nth}");
        assert_eq!(site.fleet.snapshot(), whole.fleet.snapshot(), "record {nth}");
    }
}

#[test]
fn a_host_that_refuses_the_login_does_not_count_as_lost() {
    let (host, address) = ("w2".to_owned(), "w2:22".to_owned());
    assert!(LinkLost::of(&LinkError::Denied { host, address, reason: "its key changed".to_owned() }).is_none());
}
