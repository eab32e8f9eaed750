//! Injected faults: the laws let every converge fail once before and once after it has changed the machine.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::OpError;

/// Where to inject a fault. Converges of ops are counted from 1 over the life of a [`Faults`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPoint {
    /// The n-th converge fails without having changed anything.
    Before(u64),
    /// The n-th converge fails after it has changed everything.
    After(u64),
}

/// Counts converges, and lets at most one fail. Shared by the clones of a machine.
#[derive(Debug, Default)]
pub struct Faults {
    point: Option<FaultPoint>,
    count: AtomicU64,
}

impl Faults {
    /// Fails once, at this point.
    pub fn at(point: FaultPoint) -> Self {
        Self { point: Some(point), count: AtomicU64::new(0) }
    }

    /// Never fails; [`Self::count`] then returns the number of converges.
    pub fn counting() -> Self {
        Self::default()
    }

    /// Number of converges so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    pub(crate) fn next(&self) -> u64 {
        self.count.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn strike(&self, here: FaultPoint) -> Result<(), OpError> {
        if self.point == Some(here) { Err(OpError::Injected(format!("{here:?}"))) } else { Ok(()) }
    }
}
