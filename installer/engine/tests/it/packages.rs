//! Packages on a simulated fleet: they come, are there, and go with everything else; what the op builds on must be there.

#![allow(clippy::expect_used, reason = "a test that cannot set itself up has failed")]

use std::collections::BTreeMap;

use crate::common::{BLOB, Site, checked, fleet};
use fleet::id;
use kubexm_engine::events::Silent;
use kubexm_engine::sim::Failure;
use kubexm_engine::{OnFailure, Outcome};
use kubexm_plan::op::{Content, File, Packages, WantedPackage};
use kubexm_plan::{Plan, Step, Undo};
use kubexm_spec::{Digest, Family};

const REPOSITORY: &str = "/var/lib/kubexm/repos/debian-12-amd64";

/// The fleet's plan with a package on its control plane; its source file is written by a step before, or by nobody.
fn plan(sourced: bool) -> Plan {
    let mut plan = fleet::plan(&["w1"]);
    let (digest, source) = (plan.text("deb file:x ./\n"), format!("{REPOSITORY}/kubexm.list"));
    let mut before = id("cp/os.runtime");
    if sourced {
        let step = Step::on("cp", "packages.source", "Write the source")
            .ensure(File { path: source.clone(), content: Content::Text { digest }, mode: 0o644 })
            .after(&before)
            .undo(Undo::RestoreBefore)
            .build();
        before = step.id.clone();
        plan.steps.push(step);
    } else {
        plan.texts.remove(&digest);
    }
    let package = WantedPackage {
        version: "1.7".to_owned(),
        arch: "amd64".to_owned(),
        file: "socat_1.7_amd64.deb".to_owned(),
        blob: Digest::of(BLOB),
        upgrade: false,
    };
    let packages = Packages {
        family: Family::Deb,
        repository: REPOSITORY.to_owned(),
        source,
        packages: BTreeMap::from([("socat".to_owned(), package)]),
        replaced: BTreeMap::new(),
    };
    let step = Step::on("cp", "packages.install", "Install").ensure(packages).after(&before);
    plan.steps.push(step.undo(Undo::RestoreBefore).build());
    plan
}

fn site() -> Site {
    let mut site = Site::with(["cp", "w1"]);
    site.options.on_failure = OnFailure::Rollback;
    site
}

#[tokio::test]
async fn after_a_failure_at_any_converge_packages_are_removed_again() {
    let plan = checked(plan(true));
    let counted = site();
    counted.execute(&plan, &mut counted.create(&plan), &Silent).await.expect("a run");
    let state = format!("{:?}", counted.fleet.snapshot());
    assert!(state.contains("package:socat") && state.contains("socat_1.7_amd64.deb"), "{state}");
    for nth in 1..=counted.fleet.converges() {
        for failure in [Failure::Before(nth), Failure::After(nth)] {
            let site = site();
            let before = site.fleet.snapshot();
            site.fleet.fail_at(failure);
            let outcome = site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
            assert_eq!(outcome, Outcome::RolledBack, "{failure:?}\n{}", site.report());
            assert_eq!(site.fleet.snapshot(), before, "{failure:?}");
        }
    }
}

#[tokio::test]
async fn packages_without_their_source_file_are_refused() {
    let (site, plan) = (site(), checked(plan(false)));
    let outcome = site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
    assert_ne!(outcome, Outcome::Succeeded);
    assert!(site.report().contains("kubexm.list is missing"), "{}", site.report());
}
