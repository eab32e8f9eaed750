//! Requests for blobs whose answer nobody waits for any more.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kubexm_spec::Digest;

/// Blobs of requests whose answer nobody waited for: the host may still fetch them.
#[derive(Debug, Default)]
pub(super) struct Unwanted(Mutex<BTreeSet<Digest>>);

impl Unwanted {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeSet<Digest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request until its answer is here.
pub(super) struct Waiting<'l> {
    unwanted: &'l Unwanted,
    blobs: &'l [(Digest, u64)],
    pub(super) answered: bool,
}

impl<'l> Waiting<'l> {
    pub(super) fn for_these(blobs: &'l [(Digest, u64)], unwanted: &'l Unwanted) -> Self {
        Self { unwanted, blobs, answered: false }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.unwanted.lock().extend(self.blobs.iter().map(|(digest, _)| *digest));
        }
    }
}
