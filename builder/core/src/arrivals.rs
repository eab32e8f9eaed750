//! Blobs that are fetched while others are packed: whoever packs waits for the one that comes next.

use std::collections::HashSet;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use kubexm_spec::Digest;

/// Which blobs are in the store by now.
#[derive(Debug, Default)]
pub struct Arrivals {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    here: HashSet<Digest>,
    given_up: bool,
}

impl Arrivals {
    /// These are in the store, whole.
    pub fn arrived(&self, blobs: impl IntoIterator<Item = Digest>) {
        self.lock().here.extend(blobs);
        self.changed.notify_all();
    }

    /// Nothing more will come.
    pub fn give_up(&self) {
        self.lock().given_up = true;
        self.changed.notify_all();
    }

    /// Blocks until the blob is there; an error when it will not come.
    pub fn wait(&self, blob: &Digest) -> io::Result<()> {
        let mut state = self.lock();
        loop {
            if state.here.contains(blob) {
                return Ok(());
            }
            if state.given_up {
                return Err(io::Error::other("it was not fetched"));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
