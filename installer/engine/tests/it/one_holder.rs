//! An address that exactly one of several hosts has: the controller asks each of them.

use std::time::Duration;

use kubexm_engine::events::{Recorder, Silent};
use kubexm_engine::{Outcome, run};
use kubexm_plan::balancer::MovedBy;
use kubexm_plan::{CheckedPlan, Probe, Step, Undo};
use kubexm_spec::event::EventKind;

use crate::common::{Site, checked, plan};

const LOOKS: u32 = 6;

/// The usual plan, and at its end the check that a or b has 10.0.0.100.
fn with_check(within_s: u64) -> CheckedPlan {
    let mut plan = plan().plan().clone();
    let hosts = vec!["a".to_owned(), "b".to_owned()];
    let probe =
        Probe::OneHasAddress { address: [10, 0, 0, 100].into(), hosts, moved_by: MovedBy::Keepalived, looks: LOOKS };
    let mut check = Step::on("a", "check.holder", "Check who has the address").probe(probe, within_s);
    for step in &plan.steps {
        check = check.after(&step.id);
    }
    plan.steps.push(check.undo(Undo::Nothing).build());
    checked(plan)
}

/// keepalived runs on both, so that a has the address; b has it too, if `both`.
fn site(both: bool) -> Site {
    let site = Site::new();
    for host in ["a", "b"] {
        site.fleet.set_state(host, "path:/etc/systemd/system/kubexm-keepalived.service", "file 0644 unit");
        site.fleet.set_state(host, "unit:kubexm-keepalived.service", "enabled running");
    }
    set(&site, both);
    site
}

fn set(site: &Site, both: bool) {
    site.fleet.set_state("b", "address:10.0.0.100", if both { "here" } else { "gone" });
}

#[tokio::test]
async fn a_run_fails_when_two_hosts_keep_the_address_and_says_what_drops_it() {
    let (site, plan) = (site(true), with_check(0));
    let mut run = site.create(&plan);
    assert_eq!(site.execute(&plan, &mut run, &Silent).await.expect("a run"), Outcome::Failed);
    let report = site.report();
    assert!(report.contains("2 hosts have 10.0.0.100, a and b") && report.contains("protocol 112"), "{report}");
}

#[tokio::test]
async fn two_hosts_may_have_it_for_a_while() {
    let (site, plan, events) = (site(true), with_check(60), Recorder::default());
    let mut run = site.create(&plan);
    let asked = async {
        // Some looks of the check, whatever the steps before it take.
        let before = loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let is_check =
                |kind: &EventKind| matches!(kind, EventKind::StepStarted { step, .. } if step == "a/check.holder");
            if events.events().iter().any(|event| is_check(&event.kind)) {
                break site.fleet.observations();
            }
        };
        while site.fleet.observations() < before + 6 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        set(&site, false);
        site.fleet.observations()
    };
    let (ended, when_gone) = tokio::join!(site.execute(&plan, &mut run, &events), asked);
    assert_eq!(ended.expect("a run"), Outcome::Succeeded);
    let looks = site.fleet.observations() - when_gone;
    assert!(
        looks >= u64::from(LOOKS - 1) * 2,
        "it is asked {LOOKS} times in a row, and was {looks} times with two hosts"
    );
}

#[tokio::test]
async fn a_host_that_does_not_answer_may_have_it() {
    let (site, plan) = (site(false), with_check(0));
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
    site.fleet.disconnect("b");
    let mut second = run::Run::create(&site.runs(), run::RunId::named("two"), &plan).expect("a run folder");
    assert_ne!(site.execute(&plan, &mut second, &Silent).await.expect("a run"), Outcome::Succeeded);
}

#[tokio::test]
async fn a_second_run_asks_all_hosts_in_its_survey() {
    let (site, plan) = (site(false), with_check(60));
    assert_eq!(site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run"), Outcome::Succeeded);
    let again = |name: &str| run::Run::create(&site.runs(), run::RunId::named(name), &plan).expect("a run folder");
    let before = site.fleet.observations();
    assert_eq!(site.execute(&plan, &mut again("two"), &Silent).await.expect("a run"), Outcome::Succeeded);
    assert_eq!(site.fleet.observations(), before + 2, "each host once");
    set(&site, true);
    let failing = with_check(0);
    let mut third = run::Run::create(&site.runs(), run::RunId::named("three"), &failing).expect("a run folder");
    assert_eq!(site.execute(&failing, &mut third, &Silent).await.expect("a run"), Outcome::Failed);
}
