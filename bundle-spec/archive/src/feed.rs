//! Where a check gets its frames from.

use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kubexm_spec::Digest;

use crate::Encoding;
use crate::frame::{Decoded, Place};
use crate::members::StoredAt;
use crate::read::Inner;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A frame on its way.
pub(crate) struct Taken {
    pub(crate) number: usize,
    pub(crate) place: Place,
    /// The frame, or why it cannot be read.
    pub(crate) bytes: Result<Vec<u8>, String>,
}

/// What a feed has next.
pub(crate) enum Next<'f> {
    /// A frame.
    Frame(Taken),
    /// That of a group, which is too large to be in memory: it is read at its place, at any time.
    Group { number: usize, place: Place },
    /// The same in a stream, which nobody else can read meanwhile. Its length is not known yet.
    Streamed { number: usize, place: Place, input: Box<dyn Read + 'f> },
    /// Nothing before the group was read that another thread reads.
    Busy,
    /// Nothing any more.
    End,
}

/// Where frames come from, in the order of the file.
pub(crate) trait Feed: Sync {
    /// The next frame, read into `spare` unless it is a group's.
    fn next(&self, spare: &mut Vec<u8>) -> Next<'_>;
    /// Reads a group's frame at its place.
    fn open(&self, place: Place) -> Box<dyn Read + '_>;
    /// The digest that the frame must have, where it is known; and where to report the actual one.
    fn known(&self, number: usize) -> Option<[u8; 32]>;
    /// Whether the digest of a frame of this encoding is wanted although its content is checked.
    fn wants_digest(&self, encoding: Encoding) -> bool;
    /// The digest of a frame that was read.
    fn tell(&self, number: usize, digest: Digest);
    /// Content of a member that lies in one frame, found right as far as its form goes.
    fn keep(&self, member: &StoredAt, decoded: &Decoded);
    /// A byte of the whole in words.
    fn at(&self, offset: u64) -> (PathBuf, u64);
    /// Bytes in all; 0 when that is not known.
    fn total(&self) -> u64;
}

/// Frames at places that are known.
pub(crate) struct Seekable<'a> {
    inner: &'a Inner,
    next: AtomicUsize,
}

impl<'a> Seekable<'a> {
    pub(crate) fn new(inner: &'a Inner) -> Self {
        Self { inner, next: AtomicUsize::new(0) }
    }
}

impl Feed for Seekable<'_> {
    fn next(&self, spare: &mut Vec<u8>) -> Next<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(place) = self.inner.frames.get(number).copied() else { return Next::End };
        if !self.inner.head.group_of(number).is_empty() {
            return Next::Group { number, place };
        }
        let mut frame = std::mem::take(spare);
        frame.resize(place.len as usize, 0);
        let read = self.inner.origin.fill(&mut frame, place.offset);
        let bytes = read.map(|()| frame).map_err(|e| format!("cannot be read: {e}"));
        Next::Frame(Taken { number, place, bytes })
    }

    fn open(&self, place: Place) -> Box<dyn Read + '_> {
        Box::new(self.inner.origin.range(place.offset, u64::from(place.len)))
    }

    fn known(&self, number: usize) -> Option<[u8; 32]> {
        self.inner.frame_digest(number).copied()
    }

    fn wants_digest(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Zstd
    }

    fn tell(&self, _: usize, _: Digest) {}

    fn keep(&self, _: &StoredAt, _: &Decoded) {}

    fn at(&self, offset: u64) -> (PathBuf, u64) {
        self.inner.origin.at(offset)
    }

    fn total(&self) -> u64 {
        self.inner.origin.len()
    }
}
