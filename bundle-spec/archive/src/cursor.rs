//! The open readers of groups, each of which has a window of up to 128 MiB, and where the last one stopped.
//!
//! Whoever reads members one after the other, as extracting, merging and pushing do, goes on from there: decoding a group from its
//! start for each of its members would take a multiple of the time. Whoever reads more of them at a time than there is memory for
//! waits for one of the others to end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::group::Reader;
use crate::source::OriginRange;

/// The most readers of groups at a time for each opened bundle: 512 MiB of windows.
const OPEN: usize = 4;
/// The most of them when those that are open stand still.
const MOST: usize = 16;
/// So long nobody reads on, and one more is opened: who holds the others may be the one who waits, or waits for a host that has
/// stopped.
const STALLED: Duration = Duration::from_secs(5);

/// Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Cursor(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// A window is free, or one is kept that may be taken.
    changed: Condvar,
    /// Counts pieces that were read.
    pieces: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Windows in memory, that of the kept reader among them.
    open: usize,
    kept: Option<Kept>,
}

struct Kept {
    /// Number of the group's frame, and bytes of its content that were read.
    frame: usize,
    at: u64,
    reader: Reader<OriginRange, ()>,
}

/// The leave to have one window in memory; nothing when it was given to a kept reader.
pub(crate) struct Window(Option<Arc<Shared>>);

impl Window {
    /// A piece was read.
    pub(crate) fn used(&self) {
        if let Some(shared) = &self.0 {
            shared.pieces.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.lock().open -= 1;
            shared.changed.notify_one();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What [`Cursor::take`] gives.
pub(crate) enum Taken {
    /// A reader, and how many bytes of content it has read.
    Reader(Reader<OriginRange, ()>, u64, Window),
    /// A new one may be opened.
    Leave(Window),
}

impl Cursor {
    /// A kept reader of this frame that has not read more than `at` bytes of its content (none: any reader is too far), or the leave to
    /// open one; waits until there is one of them.
    pub(crate) fn take(&self, frame: usize, at: Option<u64>) -> Taken {
        let shared = &self.0;
        let mut state = shared.lock();
        loop {
            if let Some(kept) = state.kept.take_if(|kept| kept.frame == frame && at.is_some_and(|at| kept.at <= at)) {
                return Taken::Reader(kept.reader, kept.at, Window(Some(Arc::clone(shared))));
            }
            // One that is of no use here goes, with its memory.
            if state.kept.take().is_some() {
                state.open -= 1;
            }
            let before = shared.pieces.load(Ordering::Relaxed);
            let mut stalled = false;
            if state.open >= OPEN {
                let (woken, timeout) =
                    shared.changed.wait_timeout(state, STALLED).unwrap_or_else(PoisonError::into_inner);
                state = woken;
                stalled = timeout.timed_out() && before == shared.pieces.load(Ordering::Relaxed);
            }
            if state.kept.is_none() && state.open < if stalled { MOST } else { OPEN } {
                state.open += 1;
                return Taken::Leave(Window(Some(Arc::clone(shared))));
            }
        }
    }

    /// Keeps a reader for whoever comes next.
    pub(crate) fn keep(&self, frame: usize, at: u64, reader: Reader<OriginRange, ()>, mut window: Window) {
        // Kept in what it counts in, it would never end.
        window.0 = None;
        let mut state = self.0.lock();
        if state.kept.replace(Kept { frame, at, reader }).is_some() {
            state.open -= 1;
        }
        self.0.changed.notify_one();
    }

    /// Gives back its memory.
    pub(crate) fn clear(&self) {
        let mut state = self.0.lock();
        if state.kept.take().is_some() {
            state.open -= 1;
            self.0.changed.notify_one();
        }
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").finish_non_exhaustive()
    }
}
