//! A group of members in one frame: decoded by one thread, piece by piece.

use std::io::Read;
use std::ops::Range;

use super::{Check, Depth};
use crate::feed::lock;
use crate::frame::{Decoded, Place};
use crate::member_hasher::Ready;
use crate::piece_queue::{PIECE, Piece};
use crate::{group, members};

impl Check<'_> {
    /// Reads a whole group.
    pub(super) fn group(&self, number: usize, place: Place, input: Box<dyn Read + '_>) {
        let range = self.head.group_of(number);
        let size = self.head.members.get(range.start).and_then(|member| member.group).map_or(0, |group| group.len);
        // One at a time has its window in memory.
        self.pieces.begin(&|piece| self.deliver_piece(piece));
        let stored = match group::Reader::new(input, size) {
            Err(e) => {
                self.report("memory", 0, 0, format!("no decompressor: {e}"));
                u64::from(place.len)
            }
            Ok(reader) => self.frame_of_group(number, place, range, reader),
        };
        self.pieces.end();
        self.count(stored);
    }

    /// Decodes the frame of a group, unless only frames are checked, and compares it with the trailer. Its bytes.
    pub(super) fn frame_of_group<R: Read>(
        &self,
        number: usize,
        place: Place,
        range: Range<usize>,
        mut reader: group::Reader<R>,
    ) -> u64 {
        let mut members = if self.depth == Depth::Content { range.clone() } else { 0..0 };
        let failed = members.find_map(|at| Some((at, self.member_of_group(at, place, &mut reader).err()?)));
        let (lost, problem, read) = match failed {
            None if self.depth == Depth::Content => (range, None, reader.end()),
            None => (range, None, reader.drain()),
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

    pub(super) fn member_of_group<R: Read>(
        &self,
        at: usize,
        place: Place,
        reader: &mut group::Reader<R>,
    ) -> Result<(), String> {
        let size = self.head.members.get(at).map_or(0, |member| member.size);
        let (mut left, mut number) = (members::stream_len(size).unwrap_or_default(), 0);
        while left > 0 {
            let mut content = self.pieces.buffer();
            reader.next(left.min(PIECE), &mut content)?;
            left -= content.len() as u64;
            let piece = Piece { member: at, number, place, content };
            self.pieces.push(piece, &|piece| self.deliver_piece(piece));
            number += 1;
        }
        Ok(())
    }

    pub(super) fn deliver_piece(&self, Piece { member, number, place, content }: Piece) {
        let ready = Ready { decoded: Decoded::Zstd(content), stored: Vec::new(), unproved: false };
        self.deliver(member, self.head.members.get(member), number, place, Some(ready));
    }

    /// Notes that a member of a group is damaged, once.
    pub(super) fn report_in_group(&self, at: usize, place: Place, problem: &str) {
        let Some(member) = self.head.members.get(at) else { return };
        if lock(&self.found).of_groups.insert(member.name.clone()) {
            self.report(&member.name, place.offset, u64::from(place.len), problem.to_owned());
        }
    }
}
