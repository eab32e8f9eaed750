//! The simulated fleet, as tests see it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubexm_plan::{ClusterFacts, Facts, Invariant, SEALED_AUTHORITIES};
use kubexm_spec::Digest;

use super::failure::Failure;
use super::world::{Snapshot, World};

/// The fleet. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SimFleet {
    world: Arc<Mutex<World>>,
}

impl SimFleet {
    /// Fresh hosts: swap on, SELinux enforcing, nothing installed.
    pub fn new<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Self {
        let fleet = Self::default();
        for host in hosts {
            fleet.lock().add_host(host);
        }
        fleet
    }

    /// The current state of everything.
    pub fn snapshot(&self) -> Snapshot {
        self.lock().snapshot()
    }

    /// Injects one failure; counts start at this call.
    pub fn fail_at(&self, failure: Failure) {
        let mut world = self.lock();
        world.converges = 0;
        world.undos = 0;
        world.failure = Some(failure);
    }

    /// Converges of ops so far.
    pub fn converges(&self) -> u64 {
        self.lock().converges
    }

    /// Observations of single steps and probes so far, without surveys.
    pub fn observations(&self) -> u64 {
        self.lock().observations
    }

    /// Sets one entry of a host's state, as a person or a foreign program would: `path:/etc/x` → `file 0644 …`. The
    /// host `(cluster)` is the cluster's own state.
    pub fn set_state(&self, host: &str, key: &str, value: &str) {
        self.lock().set_state(host, key, value);
    }

    /// Lets all hosts be those of a cluster that others have made.
    pub fn show_cluster(&self, seen: ClusterFacts) {
        self.lock().seen = Some(Arc::new(seen));
    }

    /// Lets every host say something else of itself.
    pub fn bend_facts(&self, bend: fn(&mut Facts)) {
        self.lock().bend = Some(bend);
    }

    /// Removes an entry of the state of every host.
    pub fn remove_state(&self, key: &str) {
        self.lock().remove_state(key);
    }

    /// Sets the sealed authorities of a host, as somebody who damages the file would.
    pub fn set_sealed_authorities(&self, host: &str, text: &str) {
        let mut world = self.lock();
        world.keep_sealed(text);
        world.set_state(host, &format!("path:{SEALED_AUTHORITIES}"), &format!("file 0600 {}", Digest::of(text)));
    }

    /// A separate copy of the current state. Its steps may change everything that was written before, in any order.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut world = self.lock().clone();
        world.forget_writers();
        world.shared.clear();
        (world.converges, world.undos, world.failure) = (0, 0, None);
        world.broken.clear();
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// A separate copy in the state that a crash would leave at this moment.
    #[must_use]
    pub fn crashed_copy(&self) -> Self {
        let mut world = self.lock().clone();
        // Agents end with their controller.
        world.shared.clear();
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// The invariants that are violated now, with nothing running.
    pub fn broken_invariants(&self) -> Vec<String> {
        self.lock().broken_at_rest().into_iter().map(|(_, text)| text).collect()
    }

    /// The invariants that were violated at any point, and those that are violated now with nothing running.
    pub fn broken_so_far(&self) -> BTreeSet<(Invariant, String)> {
        let world = self.lock();
        world.broken.iter().cloned().chain(world.broken_at_rest()).collect()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
