//! What the laws want of hosts.

use std::collections::BTreeSet;

use kubexm_engine::Links;
use kubexm_engine::sim::{Invariant, Snapshot};
use kubexm_plan::CheckedPlan;
use kubexm_plan::cluster_facts::Certificate;

use crate::samples::Sample;

/// Hosts on which a plan can be executed, as often as wanted.
/// Clones are the same hosts.
pub trait Fleet: Clone + Send + Sync + 'static {
    /// etcd has data that can be backed up.
    const HAS_DATA: bool = false;
    /// Hosts of a sample before anything was done. A registry that is not of the plan has the images of this one.
    fn fresh(sample: &Sample, plan: &CheckedPlan) -> Self;
    /// A registry that is not of the plan has its images, too.
    fn serve(&self, plan: &CheckedPlan);
    /// Other hosts that are as these are now, at rest.
    fn fork(&self) -> Self;
    /// As [`Self::fork`], in the middle of a run, when that is possible: what a crash at this moment leaves.
    fn crashed_copy(&self) -> Option<Self>;
    /// Links to its hosts, as one program has them.
    fn links(&self) -> Links;
    /// Everything that is so on the hosts, without logs, ledger times, /run and what is random by nature.
    fn snapshot(&self) -> Snapshot;
    /// Changes so far; a second run must make none.
    fn converges(&self) -> u64;
    /// Fails the n-th converge from now on, once: before it has changed anything, or after.
    fn fail_at(&mut self, before: bool, nth: u64);
    /// Fails the n-th undo of a step in a wave from now on, once; false where this kind of fleet cannot.
    fn fail_undo_at(&mut self, before: bool, nth: u64) -> bool;
    /// The certificates of kubeadm on a host, where its own cluster facts cannot have them.
    fn certificates(&self, host: &str) -> Vec<Certificate>;
    /// Removes stamps, and ledgers and stores where there are files, as if kubexm had not been there.
    fn forget_kubexm(&self);
    /// The folders of stores that whoever delivers blobs to a host makes: on an adopted host no step makes them, so a rollback leaves
    /// them, empty; and whether they are there when a step fails is a race.
    fn deliver_nothing(&self) {}
    /// What the services of a host in the cluster write beside what any plan knows.
    fn live(&self);
    /// Looks at what must hold at every point; asked at every record of a journal.
    fn look(&self);
    /// What did not hold at some point so far, or does not now that the fleet is at rest.
    fn broken(&self) -> BTreeSet<(Invariant, String)>;
}
