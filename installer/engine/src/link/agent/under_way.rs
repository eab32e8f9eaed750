//! What changes the host at this moment. The controller may have given a step up that still runs here: it is not begun a
//! second time beside itself, and nothing is taken back under it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use kubexm_plan::StepId;

/// Changes by step.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    all: RwLock<()>,
    steps: Mutex<BTreeMap<StepId, Arc<Mutex<()>>>>,
}

impl UnderWay {
    /// Makes a step's change, after one of the same step has ended.
    pub(super) fn change<T>(&self, step: &StepId, work: impl FnOnce() -> T) -> T {
        let _some = self.some();
        self.alone(step, work)
    }

    /// Takes a step back, after everything that was under way when this was asked.
    pub(super) fn undo<T>(&self, step: &StepId, work: impl FnOnce() -> T) -> T {
        drop(self.all.write().unwrap_or_else(PoisonError::into_inner));
        self.alone(step, work)
    }

    /// Something is under way as long as this lives.
    pub(super) fn some(&self) -> RwLockReadGuard<'_, ()> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone<T>(&self, step: &StepId, work: impl FnOnce() -> T) -> T {
        let own = {
            let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(steps.entry(step.clone()).or_default())
        };
        let _alone = own.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }
}
