//! The laws for `create`, over all samples: on the strict simulated fleet, and with the real ops on machines that are
//! rooted in a directory.

#![allow(clippy::expect_used, reason = "a test that cannot set itself up has failed")]

use std::sync::Arc;

use kubexm_engine::LocalLink;
use kubexm_engine::execute::Links;
use kubexm_engine::sim::{Failure, SimFleet, Snapshot};
use kubexm_ops::double::{RootedSystem, furnish};
use kubexm_ops::{FaultPoint, Faults, Machine};
use kubexm_plan::CheckedPlan;
use kubexm_tests::laws::{self, Case, Fleet, Pipeline};
use kubexm_tests::samples::{SAMPLES, Sample};
use kubexm_tests::tree;

/// One line a pipeline.
const PIPELINES: [Pipeline; 1] = [Pipeline { name: "create", plan: kubexm_recipes::create }];

struct Simulated(SimFleet);

impl Simulated {
    fn fresh(sample: &Sample, _: &CheckedPlan) -> Self {
        Self(SimFleet::new(sample.hosts().iter().map(String::as_str)))
    }
}

impl Fleet for Simulated {
    fn links(&self) -> Links {
        self.0.links()
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    fn converges(&self) -> u64 {
        self.0.converges()
    }

    fn fail_at(&mut self, before: bool, nth: u64) {
        self.0.fail_at(if before { Failure::Before(nth) } else { Failure::After(nth) });
    }

    fn broken_invariants(&self) -> Vec<String> {
        self.0.broken_invariants()
    }
}

/// Machines rooted in a directory, with the real ops and the double of a system behind them.
struct Rooted {
    host: String,
    folder: tempfile::TempDir,
    machine: Machine,
    faults: Arc<Faults>,
}

impl Rooted {
    fn fresh(sample: &Sample, plan: &CheckedPlan) -> Self {
        let folder = laws::scratch();
        let machine = furnish(folder.path()).expect("a host");
        // A link puts the agent there before any step.
        std::fs::write(machine.path("/usr/local/bin/kubexm-install"), "agent").expect("written");
        RootedSystem::new(folder.path()).serve_images_of(plan.plan()).expect("a registry");
        let faults = Arc::new(Faults::counting());
        Self { host: sample.hosts().remove(0), folder, machine, faults }
    }
}

impl Fleet for Rooted {
    fn links(&self) -> Links {
        let link = LocalLink::new(self.host.clone(), self.machine.with_faults(self.faults.clone()));
        Links::from([(self.host.clone(), Arc::new(link) as _)])
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::from([(self.host.clone(), tree::state_of(self.folder.path()).expect("a tree"))])
    }

    fn converges(&self) -> u64 {
        self.faults.count()
    }

    fn fail_at(&mut self, before: bool, nth: u64) {
        let point = if before { FaultPoint::Before(nth) } else { FaultPoint::After(nth) };
        self.faults = Arc::new(Faults::at(point));
    }

    fn broken_invariants(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Runs a law over every pipeline and sample, on one kind of fleet.
macro_rules! law {
    ($law:ident, $fleet:ident) => {
        for pipeline in PIPELINES {
            for sample in SAMPLES {
                println!("{} of {}", pipeline.name, sample.name);
                let (bundle, plan) = sample.plan(pipeline);
                let controller = laws::scratch();
                let case = Case { bundle: &bundle, plan: &plan, controller: &controller };
                case.$law(|| $fleet::fresh(&sample, &plan)).await;
            }
        }
    };
}

#[tokio::test]
async fn law_2_a_crash_at_any_record_resumes_to_the_same_end_on_the_simulated_fleet() {
    law!(a_crash_at_any_record_resumes_to_the_same_end, Simulated);
}

#[tokio::test]
async fn law_2_a_failure_of_any_converge_resumes_to_the_same_end_on_the_simulated_fleet() {
    law!(a_failure_of_any_converge_resumes_to_the_same_end, Simulated);
}

#[tokio::test]
async fn law_4_a_second_run_changes_nothing_on_the_simulated_fleet() {
    law!(a_second_run_changes_nothing, Simulated);
}

#[tokio::test]
async fn law_2_a_crash_at_any_record_resumes_to_the_same_end_with_the_real_ops() {
    law!(a_crash_at_any_record_resumes_to_the_same_end, Rooted);
}

#[tokio::test]
async fn law_2_a_failure_of_any_converge_resumes_to_the_same_end_with_the_real_ops() {
    law!(a_failure_of_any_converge_resumes_to_the_same_end, Rooted);
}

#[tokio::test]
async fn law_2_a_kill_inside_kubeadm_init_resumes_to_the_same_end() {
    for sample in SAMPLES {
        let (bundle, plan) = sample.plan(PIPELINES[0]);
        let controller = laws::scratch();
        let case = Case { bundle: &bundle, plan: &plan, controller: &controller };
        let broken = Rooted::fresh(&sample, &plan);
        RootedSystem::new(broken.folder.path()).put("kill-kubeadm-init", b"").expect("written");
        case.a_half_done_act_resumes_to_the_same_end(|| Rooted::fresh(&sample, &plan), broken).await;
    }
}

#[tokio::test]
async fn law_4_a_second_run_changes_nothing_with_the_real_ops() {
    law!(a_second_run_changes_nothing, Rooted);
}
