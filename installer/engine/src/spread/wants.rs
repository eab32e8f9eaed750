//! Which hosts of a plan want which blobs, and which of them are filled at the same time. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use kubexm_plan::op::Blobs;
use kubexm_plan::{Op, Plan, Step, StepId};
use kubexm_spec::Digest;

/// A step that fills a host which serves what it has.
#[derive(Debug)]
pub(super) struct Filling<'a> {
    pub step: &'a StepId,
    pub host: &'a str,
    pub address: SocketAddr,
    pub blobs: BTreeSet<Digest>,
}

/// All such steps of a plan.
#[derive(Debug, Default)]
pub(super) struct Wants<'a> {
    steps: &'a [Step],
    pub fillings: Vec<Filling<'a>>,
    /// What each host wants at some time, and how many hosts want a blob.
    of_hosts: BTreeMap<SocketAddr, BTreeSet<Digest>>,
    hosts: BTreeMap<Digest, usize>,
}

impl<'a> Wants<'a> {
    pub(super) fn of(plan: &'a Plan) -> Self {
        let fillings = plan.steps.iter().filter_map(|step| {
            let shared: Vec<&Blobs> = shared_blobs(step).collect();
            let blobs = shared.iter().flat_map(|op| op.blobs.keys().copied()).collect();
            Some(Filling { step: &step.id, host: &step.host, address: shared.first()?.shared_at?, blobs })
        });
        let fillings: Vec<Filling<'_>> = fillings.collect();
        let mut of_hosts: BTreeMap<SocketAddr, BTreeSet<Digest>> = BTreeMap::new();
        for filling in &fillings {
            of_hosts.entry(filling.address).or_default().extend(&filling.blobs);
        }
        let mut hosts = BTreeMap::new();
        for digest in of_hosts.values().flatten() {
            *hosts.entry(*digest).or_default() += 1;
        }
        Self { steps: &plan.steps, fillings, of_hosts, hosts }
    }

    /// Blobs that other hosts want while this step runs: not those of steps that come before it or after it.
    pub(super) fn beside(&self, step: &StepId) -> BTreeSet<Digest> {
        let (before, after) = (self.before(step), self.after(step));
        let beside = self
            .fillings
            .iter()
            .filter(|filling| filling.step != step && !before.contains(filling.step) && !after.contains(filling.step));
        beside.flat_map(|filling| filling.blobs.iter().copied()).collect()
    }

    /// Whether another host than this one wants a blob at some time.
    pub(super) fn is_of_others(&self, address: SocketAddr, digest: &Digest) -> bool {
        let own = self.of_hosts.get(&address).is_some_and(|blobs| blobs.contains(digest));
        self.hosts.get(digest).copied().unwrap_or(0) > usize::from(own)
    }

    /// The steps of a plan are in an order in which each comes after those it waits for.
    fn after(&self, step: &StepId) -> BTreeSet<&'a StepId> {
        let mut found: BTreeSet<&StepId> = BTreeSet::new();
        for other in self.steps {
            if waits_for(other).any(|id| id == step || found.contains(id)) {
                found.insert(&other.id);
            }
        }
        found
    }

    fn before(&self, step: &StepId) -> BTreeSet<&'a StepId> {
        let mut found: BTreeSet<&StepId> = BTreeSet::new();
        for other in self.steps.iter().rev() {
            if other.id == *step || found.contains(&other.id) {
                found.extend(waits_for(other));
            }
        }
        found
    }
}

/// Blobs of a step that its host serves to others.
pub(super) fn shared_blobs(step: &Step) -> impl Iterator<Item = &Blobs> {
    step.ops.iter().filter_map(|op| match op {
        Op::Blobs(blobs) if blobs.shared_at.is_some() => Some(blobs),
        _ => None,
    })
}

fn waits_for(step: &Step) -> impl Iterator<Item = &StepId> {
    step.after.iter().chain(&step.after_end)
}
