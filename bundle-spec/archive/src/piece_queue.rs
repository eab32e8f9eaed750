//! What is left to hash of a group, between the thread that decodes it and those that have time: whoever has, takes some.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;
use zstd::stream::raw::Decoder;

use crate::feed::lock;
use crate::frame::Place;
use crate::group;

/// Bytes of a piece, but for the last of a member, and the most pieces in memory.
pub(crate) const PIECE: u64 = 2 << 20;
const PIECES: usize = 8;
/// The most chunks of a frame in memory.
const CHUNKS: usize = 4;

/// A piece of a member of a group: the member, the piece's number in it, and where the group is.
pub(crate) struct Piece {
    pub(crate) member: usize,
    pub(crate) number: usize,
    pub(crate) place: Place,
    pub(crate) content: Vec<u8>,
}

/// What is to be hashed.
pub(crate) enum Work {
    /// Content.
    Piece(Piece),
    /// The next bytes of this frame.
    Stored(Arc<Stored>),
}

/// What was decoded and not hashed yet.
#[derive(Default)]
pub(crate) struct PieceQueue {
    state: Mutex<State>,
    changed: Condvar,
    /// Buffers to be used again, of pieces and of chunks: not those of frames, which are larger.
    spare: Mutex<[Vec<Vec<u8>>; 2]>,
}

#[derive(Default)]
struct State {
    work: VecDeque<Work>,
    /// Pieces and chunks in memory, those included that are being hashed.
    pieces: usize,
    chunks: usize,
    /// A thread decodes a group: one at a time has its window in memory.
    decoding: bool,
    /// Groups that came meanwhile.
    later: VecDeque<(usize, Place)>,
    /// Of the group before.
    decoder: Option<Decoder<'static>>,
}

/// The bytes of a group's frame, as far as they are not hashed yet.
pub(crate) struct Stored(Mutex<Hashing>);

struct Hashing {
    waiting: VecDeque<Arc<Vec<u8>>>,
    /// Taken by the thread that hashes just now.
    hasher: Option<Hasher>,
}

impl Default for Stored {
    fn default() -> Self {
        Self(Mutex::new(Hashing { waiting: VecDeque::new(), hasher: Some(Hasher::default()) }))
    }
}

impl PieceQueue {
    /// Waits until no other group is being decoded, and helps with what is to be hashed of it meanwhile.
    pub(crate) fn begin(&self, help: &dyn Fn(Work)) {
        self.help_while(help, |state| state.decoding, |state| state.decoding = true);
    }

    /// Notes a group that may be decoded when no other is.
    pub(crate) fn later(&self, number: usize, place: Place) {
        lock(&self.state).later.push_back((number, place));
        self.changed.notify_all();
    }

    /// A noted group whose turn it is; whoever gets it decodes it.
    pub(crate) fn begin_noted(&self) -> Option<(usize, Place)> {
        let mut state = lock(&self.state);
        if state.decoding {
            return None;
        }
        let noted = state.later.pop_front()?;
        state.decoding = true;
        Some(noted)
    }

    /// The decompressor, with the window that it has.
    pub(crate) fn decoder(&self) -> io::Result<Decoder<'static>> {
        let kept = lock(&self.state).decoder.take();
        kept.map_or_else(group::decoder, Ok)
    }

    /// The group was decoded.
    pub(crate) fn end(&self, decoder: Option<Decoder<'static>>) {
        let mut state = lock(&self.state);
        (state.decoding, state.decoder) = (false, decoder);
        self.changed.notify_all();
    }

    /// Leaves a piece to whoever has time; when enough are in memory, that is this thread.
    pub(crate) fn push(&self, piece: Piece, help: &dyn Fn(Work)) {
        let full = |state: &State| state.pieces >= PIECES;
        self.help_while(help, full, |state| {
            state.pieces += 1;
            state.work.push_back(Work::Piece(piece));
        });
        self.changed.notify_all();
    }

    /// The same with a chunk of a frame.
    pub(crate) fn push_chunk(&self, stored: &Arc<Stored>, chunk: Arc<Vec<u8>>, help: &dyn Fn(Work)) {
        let full = |state: &State| state.chunks >= CHUNKS;
        self.help_while(help, full, |state| {
            state.chunks += 1;
            lock(&stored.0).waiting.push_back(chunk);
            state.work.push_back(Work::Stored(Arc::clone(stored)));
        });
        self.changed.notify_all();
    }

    fn help_while(&self, help: &dyn Fn(Work), wait: impl Fn(&State) -> bool, then: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        while wait(&state) {
            if let Some(work) = state.work.pop_front() {
                drop(state);
                help(work);
                state = lock(&self.state);
            } else {
                // All is being hashed.
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        then(&mut state);
    }

    /// What waits to be hashed.
    pub(crate) fn take(&self) -> Option<Work> {
        lock(&self.state).work.pop_front()
    }

    /// Waits until there is work, or a noted group that may begin; false when no group is being decoded that could bring any.
    pub(crate) fn wait(&self) -> bool {
        let mut state = lock(&self.state);
        loop {
            if !state.work.is_empty() || !state.decoding && !state.later.is_empty() {
                return true;
            }
            if !state.decoding {
                return false;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A buffer for a piece that was used before, or an empty one.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        lock(&self.spare)[0].pop().unwrap_or_default()
    }

    /// Keeps the buffer of a piece.
    pub(crate) fn put_back(&self, buffer: Vec<u8>) {
        lock(&self.spare)[0].push(buffer);
    }

    /// The same for a chunk.
    pub(crate) fn chunk_buffer(&self) -> Vec<u8> {
        lock(&self.spare)[1].pop().unwrap_or_default()
    }

    /// Keeps the buffer of a chunk when nobody else has it any more.
    pub(crate) fn put_back_chunk(&self, chunk: Arc<Vec<u8>>) {
        if let Some(buffer) = Arc::into_inner(chunk).filter(|buffer| buffer.capacity() > 0) {
            lock(&self.spare)[1].push(buffer);
        }
    }

    /// A piece was hashed.
    pub(crate) fn done(&self) {
        lock(&self.state).pieces -= 1;
        self.changed.notify_all();
    }

    /// Hashes what waits of a frame, in order, unless another thread is at it, which then hashes that, too.
    pub(crate) fn hash(&self, stored: &Stored) {
        let mut hashing = lock(&stored.0);
        let Some(mut hasher) = hashing.hasher.take() else { return };
        while let Some(chunk) = hashing.waiting.pop_front() {
            drop(hashing);
            hasher.update(&chunk);
            self.put_back_chunk(chunk);
            lock(&self.state).chunks -= 1;
            self.changed.notify_all();
            hashing = lock(&stored.0);
        }
        hashing.hasher = Some(hasher);
    }

    /// The digest of a frame that has been read, when all of it is hashed.
    pub(crate) fn digest(&self, stored: &Stored, help: &dyn Fn(Work)) -> Digest {
        self.help_while(help, |state| state.chunks > 0, |_| {});
        loop {
            // Whoever hashed the last chunk is about to put it back.
            if let Some(hasher) = lock(&stored.0).hasher.take() {
                return hasher.finish();
            }
            std::thread::yield_now();
        }
    }
}
