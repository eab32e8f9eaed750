//! Changes that are running on the host. The controller may have given up a step that still runs here: it must not be
//! started a second time in parallel, and nothing may be rolled back while it runs.
//!
//! The order is that in which requests arrived, not that in which their threads start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use kubexm_plan::StepId;
use kubexm_spec::Digest;

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
    /// Those that only fetch something.
    fetches: BTreeMap<u64, Fetching>,
}

#[derive(Debug)]
struct Fetching {
    step: StepId,
    blobs: BTreeSet<Digest>,
    /// Nobody waits for it any more.
    ended: bool,
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

    /// A request that fetches these for a step: a change that can be ended.
    pub(super) fn fetch(&self, step: StepId, blobs: BTreeSet<Digest>) -> Turn {
        let turn = self.change();
        self.changes.lock().fetches.insert(turn.number, Fetching { step, blobs, ended: false });
        turn
    }

    /// A request to roll a step back: what was requested for it earlier and only fetches something ends.
    pub(super) fn undo(&self, step: &StepId) -> Turn {
        self.end(|fetching| fetching.step == *step)
    }

    /// A request to end whatever fetches one of these.
    pub(super) fn end_fetches(&self, blobs: &BTreeSet<Digest>) -> Turn {
        self.end(|fetching| !fetching.blobs.is_disjoint(blobs))
    }

    fn end(&self, which: impl Fn(&Fetching) -> bool) -> Turn {
        let turn = self.other();
        self.changes.lock().fetches.values_mut().for_each(|fetching| fetching.ended |= which(fetching));
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
    /// Whether this fetches something that nobody waits for any more.
    pub(super) fn is_ended(&self) -> bool {
        self.changes.lock().fetches.get(&self.number).is_some_and(|fetching| fetching.ended)
    }

    /// Blocks until everything that was to be ended has ended.
    pub(super) fn wait_for_ended(&self) {
        let mut open = self.changes.lock();
        while open.fetches.range(..self.number).any(|(_, fetching)| fetching.ended) {
            open = self.changes.ended.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
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
        {
            let mut open = self.changes.lock();
            open.places.remove(&self.number);
            open.fetches.remove(&self.number);
        }
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
    use std::collections::BTreeSet;

    use kubexm_plan::StepId;
    use kubexm_spec::Digest;

    use super::InFlight;

    fn step(name: &str) -> StepId {
        StepId(name.to_owned())
    }

    fn blobs(names: &[&str]) -> BTreeSet<Digest> {
        names.iter().map(Digest::of).collect()
    }

    #[test]
    fn what_a_step_fetches_ends_with_its_rollback_and_what_others_fetch_or_comes_later_does_not() {
        let changes = InFlight::default();
        let of = |name: &str| changes.fetch(step(name), blobs(&["a"]));
        let (before, other) = (of("n/fill"), of("n/images"));
        let undo = changes.undo(&step("n/fill"));
        let after = of("n/fill");
        assert_eq!([&before, &other, &after].map(|turn| turn.is_ended()), [true, false, false]);
        drop((before, other));
        undo.wait_for_earlier();
    }

    #[test]
    fn whatever_fetches_a_blob_is_ended_and_waited_for_and_nothing_else_is() {
        let changes = InFlight::default();
        let of = |names: &[&str]| changes.fetch(step("n/fill"), blobs(names));
        let (both, other, change) = (of(&["a", "b"]), of(&["c"]), changes.change());
        let end = changes.end_fetches(&blobs(&["b"]));
        assert_eq!([&both, &other, &change].map(|turn| turn.is_ended()), [true, false, false]);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                end.wait_for_ended();
                sender.send(()).unwrap();
            });
            assert!(receiver.recv_timeout(std::time::Duration::from_millis(100)).is_err(), "it did not wait");
            drop(both);
            receiver.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
        });
    }
}
