//! Blobs that are fetched while others are packed: the packer waits for the one that it needs next.

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

    /// Nothing more will come once this is dropped: however fetching ends, all who wait are woken.
    pub fn until_dropped(&self) -> UntilDropped<'_> {
        UntilDropped(self)
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

/// Of [`Arrivals::until_dropped`].
#[derive(Debug)]
pub struct UntilDropped<'a>(&'a Arrivals);

impl Drop for UntilDropped<'_> {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use kubexm_spec::Digest;

    use super::Arrivals;

    #[test]
    fn waiters_for_a_blob_get_an_error_when_its_fetch_panics() {
        let arrivals = std::sync::Arc::new(Arrivals::default());
        let (here, lost) = (Digest::of(b"here"), Digest::of(b"lost"));
        let (tell, reported) = mpsc::channel();
        let waiting = std::sync::Arc::clone(&arrivals);
        std::thread::spawn(move || tell.send((waiting.wait(&here).is_ok(), waiting.wait(&lost).is_ok())));
        let fetching = std::thread::spawn(move || {
            let _ending = arrivals.until_dropped();
            arrivals.arrived([here]);
            std::panic::resume_unwind(Box::new("a fault of fetching"));
        });
        assert!(fetching.join().is_err());
        assert_eq!(reported.recv_timeout(Duration::from_secs(60)), Ok((true, false)));
    }
}
