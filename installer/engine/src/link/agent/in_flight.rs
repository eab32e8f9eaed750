//! What changes the host at this moment. The controller may have given a step up that still runs here: it is not begun a
//! second time beside itself, and nothing is rolled back under it.
//!
//! The order is that in which requests came, not that in which their threads happen to start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use kubexm_plan::StepId;

/// Changes by step, and all of them in the order they were asked for.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    changes: Arc<Changes>,
    steps: Mutex<BTreeMap<StepId, Arc<Mutex<()>>>>,
}

#[derive(Debug, Default)]
struct Changes {
    open: Mutex<Open>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// Asked for and not ended.
    places: BTreeSet<u64>,
}

/// The place of a request among the others. Taken where requests are read, before a thread is started.
#[derive(Debug)]
pub(super) struct Turn {
    number: u64,
    changes: Arc<Changes>,
}

impl InFlight {
    /// A change was asked for: it is under way until the place is dropped.
    pub(super) fn change(&self) -> Turn {
        let mut open = self.changes.lock();
        let number = open.next;
        open.next += 1;
        open.places.insert(number);
        Turn { number, changes: Arc::clone(&self.changes) }
    }

    /// Something else was asked for, which may have to wait for what is under way.
    pub(super) fn other(&self) -> Turn {
        let mut open = self.changes.lock();
        let number = open.next;
        open.next += 1;
        Turn { number, changes: Arc::clone(&self.changes) }
    }

    /// Works on a step while nobody else does.
    pub(super) fn alone<T>(&self, step: &StepId, work: impl FnOnce() -> T) -> T {
        let own = {
            let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(steps.entry(step.clone()).or_default())
        };
        let _alone = own.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }
}

impl Turn {
    /// Blocks until every change that was asked for before this has ended.
    pub(super) fn wait_for_earlier(&self) {
        let mut open = self.changes.lock();
        while open.places.range(..self.number).next().is_some() {
            open = self.changes.ended.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.changes.lock().places.remove(&self.number);
        self.changes.ended.notify_all();
    }
}

impl Changes {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
