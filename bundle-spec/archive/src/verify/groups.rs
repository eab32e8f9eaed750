//! Groups on their way through a check: one thread decodes a group, piece by piece, and whoever has time hashes the pieces. A damaged
//! frame takes with it every member that cannot be decoded any more; each is reported.

use std::collections::VecDeque;
use std::io::Read;
use std::ops::Range;
use std::sync::PoisonError;

use super::{Check, Depth, PIECES, lock};
use crate::frame::{Decoded, Place};
use crate::member_hasher::Ready;
use crate::{group, members};

/// Bytes of a group that are hashed at a time.
pub(super) const PIECE: u64 = 2 << 20;

/// A piece of a member of a group: the member, the piece's number in it, and where the group is.
pub(super) struct Piece {
    member: usize,
    number: usize,
    place: Place,
    content: Vec<u8>,
}

/// What was decoded of a group.
#[derive(Default)]
pub(super) struct Todo {
    pieces: VecDeque<Piece>,
    /// Those included that are being hashed.
    in_memory: usize,
    /// A thread decodes a group.
    decoding: bool,
}

impl Check<'_> {
    /// Reads a whole group.
    pub(super) fn group(&self, number: usize, place: Place, input: Box<dyn Read + '_>) {
        let range = self.head.group_of(number);
        let size = self.head.members.get(range.start).and_then(|member| member.group).map_or(0, |group| group.len);
        // One at a time has its window in memory.
        self.begin_to_decode();
        let stored = match group::Reader::new(input, size) {
            Err(e) => {
                self.report("memory", 0, 0, format!("no decompressor: {e}"));
                u64::from(place.len)
            }
            Ok(reader) if self.depth == Depth::Frames => self.frame_of_group(number, place, range, reader),
            Ok(reader) => self.content_of_group(number, place, range, reader),
        };
        lock(&self.todo).decoding = false;
        self.changed.notify_all();
        self.count(stored);
    }

    fn frame_of_group<R: Read>(
        &self,
        number: usize,
        place: Place,
        range: Range<usize>,
        reader: group::Reader<R>,
    ) -> u64 {
        let read = reader.drain();
        let stored = read.as_ref().map_or(u64::from(place.len), |(_, stored)| *stored);
        if let Err(problem) = read.and_then(|(digest, _)| self.prove(number, digest)) {
            range.for_each(|at| self.report_in_group(at, place, &problem));
        }
        stored
    }

    /// Bytes of the frame.
    fn content_of_group<R: Read>(
        &self,
        number: usize,
        place: Place,
        range: Range<usize>,
        mut reader: group::Reader<R>,
    ) -> u64 {
        let failed = range.clone().find_map(|at| Some((at, self.member_of_group(at, place, &mut reader).err()?)));
        let (lost, problem, read) = match failed {
            None => (range, None, reader.end()),
            // That it is not the frame that was written says more.
            Some((at, problem)) => (at..range.end, Some(problem), reader.drain()),
        };
        let stored = read.as_ref().map_or(u64::from(place.len), |(_, stored)| *stored);
        let problem = read.and_then(|(digest, _)| self.prove(number, digest)).err().or(problem);
        if let Some(problem) = problem {
            lost.for_each(|at| self.report_in_group(at, place, &problem));
        }
        stored
    }

    fn member_of_group<R: Read>(&self, at: usize, place: Place, reader: &mut group::Reader<R>) -> Result<(), String> {
        let size = self.head.members.get(at).map_or(0, |member| member.size);
        let mut left = members::stream_len(size).unwrap_or_default();
        for number in 0.. {
            if left == 0 {
                break;
            }
            let mut content = lock(&self.spare).pop().unwrap_or_default();
            reader.next(left.min(PIECE), &mut content)?;
            left -= content.len() as u64;
            self.push(Piece { member: at, number, place, content });
        }
        Ok(())
    }

    /// Waits until no other group is being decoded, and helps with its pieces meanwhile.
    fn begin_to_decode(&self) {
        let mut todo = lock(&self.todo);
        while todo.decoding {
            if let Some(piece) = todo.pieces.pop_front() {
                drop(todo);
                self.deliver_piece(piece);
                todo = lock(&self.todo);
            } else {
                todo = self.changed.wait(todo).unwrap_or_else(PoisonError::into_inner);
            }
        }
        todo.decoding = true;
    }

    /// Leaves a piece to whoever has time; when enough are in memory, that is this thread.
    fn push(&self, piece: Piece) {
        let mut todo = lock(&self.todo);
        while todo.in_memory >= PIECES {
            if let Some(first) = todo.pieces.pop_front() {
                drop(todo);
                self.deliver_piece(first);
                todo = lock(&self.todo);
            } else {
                // All are being hashed.
                todo = self.changed.wait(todo).unwrap_or_else(PoisonError::into_inner);
            }
        }
        todo.in_memory += 1;
        todo.pieces.push_back(piece);
        drop(todo);
        self.changed.notify_all();
    }

    /// A piece that waits to be hashed. Whoever has nothing else to do waits for one as long as any may come.
    pub(super) fn piece(&self, wait: bool) -> Option<Piece> {
        let mut todo = lock(&self.todo);
        loop {
            match todo.pieces.pop_front() {
                None if wait && todo.decoding => {
                    todo = self.changed.wait(todo).unwrap_or_else(PoisonError::into_inner);
                }
                piece => return piece,
            }
        }
    }

    pub(super) fn deliver_piece(&self, Piece { member, number, place, content }: Piece) {
        let ready = Ready { decoded: Decoded::Zstd(content), stored: Vec::new(), unproved: false };
        self.deliver(member, self.head.members.get(member), number, place, Some(ready));
    }

    /// A piece was hashed.
    pub(super) fn piece_is_done(&self) {
        lock(&self.todo).in_memory -= 1;
        self.changed.notify_all();
    }

    /// Notes that a member of a group is damaged, once.
    fn report_in_group(&self, at: usize, place: Place, problem: &str) {
        let Some(member) = self.head.members.get(at) else { return };
        if lock(&self.found).of_groups.insert(member.name.clone()) {
            self.report(&member.name, place.offset, u64::from(place.len), problem.to_owned());
        }
    }
}
