//! Changes that are running on the host. The controller may have given up a step that still runs here: it must not be
//! started a second time in parallel, and nothing may be rolled back while it runs.
//!
//! The order is that in which requests arrived, not that in which their threads start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use kubexm_plan::StepId;

/// Running changes by step, and the order of all requests for changes.
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
    /// Requested and not finished.
    places: BTreeSet<u64>,
    /// The last request to roll a step back.
    undo: Option<u64>,
}

/// The position of a request among the others. Taken by the reader of requests, before a thread is started.
#[derive(Debug)]
pub(super) struct Turn {
    number: u64,
    changes: Arc<Changes>,
}

impl InFlight {
    /// A change was requested: it counts as running until the returned value is dropped.
    pub(super) fn change(&self) -> Turn {
        let mut open = self.changes.lock();
        let number = open.next;
        open.next += 1;
        open.places.insert(number);
        Turn { number, changes: Arc::clone(&self.changes) }
    }

    /// Another request, which may have to wait for running changes.
    pub(super) fn other(&self) -> Turn {
        let mut open = self.changes.lock();
        let number = open.next;
        open.next += 1;
        Turn { number, changes: Arc::clone(&self.changes) }
    }

    /// A request to roll a step back: what was requested earlier and only fetches something ends.
    pub(super) fn undo(&self) -> Turn {
        let turn = self.other();
        self.changes.lock().undo = Some(turn.number);
        turn
    }

    /// Runs `work` while nothing else works on the step.
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
    /// Whether a step is to be rolled back since this was requested.
    pub(super) fn is_undone(&self) -> bool {
        self.changes.lock().undo.is_some_and(|undo| undo > self.number)
    }

    /// Blocks until every change that was requested earlier has finished.
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

#[cfg(test)]
mod tests {
    use super::InFlight;

    #[test]
    fn what_was_requested_before_a_rollback_ends_and_what_comes_after_it_does_not() {
        let changes = InFlight::default();
        let before = changes.change();
        assert!(!before.is_undone());
        let undo = changes.undo();
        let after = changes.change();
        assert!(before.is_undone() && !after.is_undone());
        drop(before);
        undo.wait_for_earlier();
    }
}
