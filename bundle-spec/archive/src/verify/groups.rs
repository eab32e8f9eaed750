//! A group of members in one frame: decoded by one thread, piece by piece.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use super::Check;
use crate::feed::lock;
use crate::frame::{Decoded, Place};
use crate::member_hasher::Ready;
use crate::piece_queue::{PIECE, Piece, Stored, Work};
use crate::{group, members};

impl Check<'_> {
    /// Reads a whole group. Whoever comes here has its turn, and gives it back.
    pub(super) fn group(&self, number: usize, place: Place, input: Box<dyn Read + '_>) {
        let range = self.head.group_of(number);
        let size = self.head.members.get(range.start).and_then(|member| member.group).map_or(0, |group| group.len);
        let watch = Watching { check: self, stored: Arc::default() };
        let reader = self.pieces.decoder().and_then(|decoder| group::Reader::new(input, size, decoder, watch));
        let stored = match reader {
            Err(e) => {
                self.report("memory", 0, 0, format!("no decompressor: {e}"));
                self.pieces.end(None);
                u64::from(place.len)
            }
            Ok(mut reader) => {
                let stored = self.frame_of_group(number, place, range, &mut reader);
                self.pieces.end(Some(reader.into_decoder()));
                stored
            }
        };
        self.count(stored);
    }

    /// Compares the frame of a group with the trailer, without decoding it.
    pub(super) fn group_alone(&self, number: usize, place: Place) {
        let read = group::digest(self.feed.open(place)).map_err(|e| format!("cannot be read: {e}"));
        if let Err(problem) = read.and_then(|digest| self.prove(number, digest)) {
            self.head.group_of(number).for_each(|at| self.report_in_group(at, place, &problem));
        }
        self.count(u64::from(place.len));
    }

    /// Decodes the frame of a group, and compares it with the trailer. Its bytes.
    fn frame_of_group<R: Read>(
        &self,
        number: usize,
        place: Place,
        range: Range<usize>,
        reader: &mut group::Reader<R, Watching<'_>>,
    ) -> u64 {
        let failed = range.clone().find_map(|at| Some((at, self.member_of_group(at, place, reader).err()?)));
        let (lost, problem, read) = match failed {
            None => (range, None, reader.end()),
            // That it is not the frame that was written says more.
            Some((at, problem)) => (at..range.end, Some(problem), reader.drain()),
        };
        let stored = read.as_ref().map_or(u64::from(place.len), |stored| *stored);
        let digest = self.pieces.digest(&reader.watch().stored, &|work| self.hash(work));
        let problem = read.and_then(|_| self.prove(number, digest)).err().or(problem);
        if let Some(problem) = problem {
            lost.for_each(|at| self.report_in_group(at, place, &problem));
        }
        stored
    }

    fn member_of_group<R: Read>(
        &self,
        at: usize,
        place: Place,
        reader: &mut group::Reader<R, Watching<'_>>,
    ) -> Result<(), String> {
        let size = self.head.members.get(at).map_or(0, |member| member.size);
        let (mut left, mut number) = (members::stream_len(size).unwrap_or_default(), 0);
        while left > 0 {
            let mut content = self.pieces.buffer();
            reader.next(left.min(PIECE), &mut content)?;
            left -= content.len() as u64;
            let piece = Piece { member: at, number, place, content };
            self.pieces.push(piece, &|work| self.hash(work));
            number += 1;
        }
        Ok(())
    }

    /// Hashes what another thread read or decoded of a group.
    pub(super) fn hash(&self, work: Work) {
        match work {
            Work::Stored(stored) => self.pieces.hash(&stored),
            Work::Piece(Piece { member, number, place, content }) => {
                let ready = Ready { decoded: Decoded::Zstd(content), stored: Vec::new(), unproved: false };
                self.deliver(member, self.head.members.get(member), number, place, Some(ready));
            }
        }
    }

    /// Notes that a member of a group is damaged, once.
    pub(super) fn report_in_group(&self, at: usize, place: Place, problem: &str) {
        let Some(member) = self.head.members.get(at) else { return };
        if lock(&self.found).of_groups.insert(member.name.clone()) {
            self.report(&member.name, place.offset, u64::from(place.len), problem.to_owned());
        }
    }
}

/// Leaves the bytes of a group's frame to whoever has time to hash them.
struct Watching<'a> {
    check: &'a Check<'a>,
    stored: Arc<Stored>,
}

impl group::Watch for Watching<'_> {
    fn buffer(&mut self) -> Vec<u8> {
        self.check.pieces.chunk_buffer()
    }

    fn chunk(&mut self, chunk: &Arc<Vec<u8>>) {
        self.check.pieces.push_chunk(&self.stored, Arc::clone(chunk), &|work| self.check.hash(work));
    }

    fn done(&mut self, chunk: Arc<Vec<u8>>) {
        self.check.pieces.put_back_chunk(chunk);
    }
}
