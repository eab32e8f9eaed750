//! Where the last reader of a group stopped. Whoever reads members one after the other, as extracting, merging and pushing do, goes on from
//! there: decoding a group from its start for each of its members would take a multiple of the time.

use std::sync::{Arc, Mutex, PoisonError};

use crate::group::Reader;
use crate::source::OriginRange;

/// At most one for each opened bundle, with its window. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Cursor(Arc<Mutex<Option<Kept>>>);

struct Kept {
    /// Number of the group's frame, and bytes of its content that were read.
    frame: usize,
    at: u64,
    reader: Reader<OriginRange>,
}

impl Cursor {
    /// A reader of this frame that has not read more than `at` bytes of its content, and how many it has. One of another frame is dropped,
    /// with its memory.
    pub(crate) fn take(&self, frame: usize, at: u64) -> Option<(Reader<OriginRange>, u64)> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        (kept.frame == frame && kept.at <= at).then_some((kept.reader, kept.at))
    }

    /// Keeps a reader for whoever comes next.
    pub(crate) fn keep(&self, frame: usize, at: u64, reader: Reader<OriginRange>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Kept { frame, at, reader });
    }

    /// Gives back its memory.
    pub(crate) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").finish_non_exhaustive()
    }
}
