//! The simulated fleet, as tests see it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubexm_plan::Invariant;

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

    /// Everything that is so now.
    pub fn snapshot(&self) -> Snapshot {
        self.lock().snapshot()
    }

    /// Fails once at this point from now on; the count starts anew.
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

    /// Looks at single steps so far, and probes.
    pub fn looks(&self) -> u64 {
        self.lock().looks
    }

    /// Sets one entry of a host's state, as a person or a foreign program would: `path:/etc/x` → `file 0644 …`. The
    /// host `(cluster)` is the cluster's own state.
    pub fn meddle(&self, host: &str, key: &str, value: &str) {
        self.lock().meddle(host, key, value);
    }

    /// A fleet of its own that is as this one is now. What happened until now was before all that will happen there.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut world = self.lock().clone();
        world.settle();
        (world.converges, world.undos, world.failure) = (0, 0, None);
        world.broken.clear();
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// A fleet of its own, as a crash at this moment would leave this one.
    #[must_use]
    pub fn photograph(&self) -> Self {
        Self { world: Arc::new(Mutex::new(self.lock().clone())) }
    }

    /// What must hold of a fleet at rest and does not.
    pub fn broken_invariants(&self) -> Vec<String> {
        self.lock().broken_at_rest().into_iter().map(|(_, text)| text).collect()
    }

    /// What did not hold at some point until now, and what does not hold now that the fleet is at rest.
    pub fn broken_so_far(&self) -> BTreeSet<(Invariant, String)> {
        let world = self.lock();
        world.broken.iter().cloned().chain(world.broken_at_rest()).collect()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
