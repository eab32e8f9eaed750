//! Pieces of a group between the thread that decodes it and those that hash them: whoever has time takes one.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::feed::lock;
use crate::frame::Place;

/// Bytes of a piece, but for the last of a member, and the most pieces in memory.
pub(crate) const PIECE: u64 = 2 << 20;
const PIECES: usize = 8;

/// A piece of a member of a group: the member, the piece's number in it, and where the group is.
pub(crate) struct Piece {
    pub(crate) member: usize,
    pub(crate) number: usize,
    pub(crate) place: Place,
    pub(crate) content: Vec<u8>,
}

/// What was decoded and not hashed yet.
#[derive(Default)]
pub(crate) struct PieceQueue {
    state: Mutex<State>,
    changed: Condvar,
    /// Buffers to be used again: not those of frames, which are four times as large.
    spare: Mutex<Vec<Vec<u8>>>,
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Piece>,
    /// Those included that are being hashed.
    in_memory: usize,
    /// A thread decodes a group.
    decoding: bool,
}

impl PieceQueue {
    /// Waits until no other group is being decoded, and helps with its pieces meanwhile.
    pub(crate) fn begin(&self, help: &dyn Fn(Piece)) {
        self.help_while(help, |state| state.decoding, |state| state.decoding = true);
    }

    /// Leaves a piece to whoever has time; when enough are in memory, that is this thread.
    pub(crate) fn push(&self, piece: Piece, help: &dyn Fn(Piece)) {
        let full = |state: &State| state.in_memory >= PIECES;
        self.help_while(help, full, |state| {
            state.in_memory += 1;
            state.pieces.push_back(piece);
        });
        self.changed.notify_all();
    }

    fn help_while(&self, help: &dyn Fn(Piece), wait: impl Fn(&State) -> bool, then: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        while wait(&state) {
            if let Some(piece) = state.pieces.pop_front() {
                drop(state);
                help(piece);
                state = lock(&self.state);
            } else {
                // All are being hashed.
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        then(&mut state);
    }

    /// The group was decoded.
    pub(crate) fn end(&self) {
        lock(&self.state).decoding = false;
        self.changed.notify_all();
    }

    /// A piece that waits to be hashed. Whoever has nothing else to do waits for one as long as any may come.
    pub(crate) fn take(&self, wait: bool) -> Option<Piece> {
        let mut state = lock(&self.state);
        loop {
            match state.pieces.pop_front() {
                None if wait && state.decoding => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                piece => return piece,
            }
        }
    }

    /// A buffer that was used before, or an empty one.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        lock(&self.spare).pop().unwrap_or_default()
    }

    /// Keeps the buffer of a piece.
    pub(crate) fn put_back(&self, buffer: Vec<u8>) {
        lock(&self.spare).push(buffer);
    }

    /// A piece was hashed.
    pub(crate) fn done(&self) {
        lock(&self.state).in_memory -= 1;
        self.changed.notify_all();
    }
}
