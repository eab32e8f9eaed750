//! The strict simulated fleet.

use std::collections::BTreeSet;

use kubexm_engine::Links;
use kubexm_engine::sim::{Failure, Invariant, SimFleet, Snapshot};
use kubexm_plan::cluster_facts::Certificate;
use kubexm_plan::{CONTROLLER, CheckedPlan};

use super::{Fleet, foreign};
use crate::samples::Sample;

/// The fleet of a sample.
#[derive(Clone, Debug)]
pub struct Simulated(pub SimFleet);

impl Fleet for Simulated {
    fn fresh(sample: &Sample, plan: &CheckedPlan) -> Self {
        let fleet = SimFleet::new(sample.hosts().iter().map(String::as_str).chain([CONTROLLER]));
        for (host, path) in
            sample.hosts().iter().flat_map(|host| foreign::files(plan.plan()).into_iter().map(move |path| (host, path)))
        {
            fleet.set_state(host, &format!("path:{path}"), "file 0640 theirs");
        }
        Self(fleet)
    }

    fn serve(&self, _: &CheckedPlan) {}

    fn fork(&self) -> Self {
        Self(self.0.fork())
    }

    fn crashed_copy(&self) -> Option<Self> {
        Some(Self(self.0.crashed_copy()))
    }

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

    fn fail_undo_at(&mut self, before: bool, nth: u64) -> bool {
        self.0.fail_at(if before { Failure::Undo(nth) } else { Failure::AfterUndo(nth) });
        true
    }

    fn certificates(&self, _: &str) -> Vec<Certificate> {
        Vec::new()
    }

    fn forget_kubexm(&self) {
        self.0.remove_state("stamp");
    }

    fn live(&self) {}

    /// It looks after every change by itself.
    fn look(&self) {}

    fn broken(&self) -> BTreeSet<(Invariant, String)> {
        self.0.broken_so_far()
    }
}
