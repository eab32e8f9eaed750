//! Whether every byte is the one that manifest and format demand.
//!
//! Threads take frames in the order of the file, decode them, and hand the content to its member's hasher, which hashes it in
//! order: so one large member, too, keeps two cores busy, and every byte is read once. A compressed frame is hashed as it is
//! stored, too: in turns with its content, which takes less time than both apart, unless its hasher is behind. The bytes of a raw
//! frame follow from its content, so they are right when the content has its digest; hashing them again would prove the
//! trailer's entry only, which the trailer's own digest does.
//!
//! A group is decoded by one thread, piece by piece, and whoever has time hashes the pieces, and what was read of its frame. Another
//! group waits meanwhile, and the thread that found it goes on with the frames behind it. A damaged frame takes with it every member
//! that cannot be decoded any more; each is reported.

mod content;
mod groups;
mod report;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use kubexm_spec::Digest;

use crate::feed::{Feed, Next, Seekable, Taken, lock};
use crate::frame::{self, Decoder};
use crate::member_hasher::{Content, MemberHasher, Ready};
use crate::members::{self, StoredAt};
use crate::open::Head;
use crate::piece_queue::PieceQueue;
use crate::read::{Inner, seek_table_of};
use crate::{Bundle, Damage, DamageReport, Encoding, Verified};

/// Frames in memory for each thread, and in all: at most 16 MiB each.
const FRAMES_PER_THREAD: usize = 3;
const FRAMES: usize = 12;
/// The same in all where there are groups, of which one at a time is decoded, with a window of 128 MiB.
const FRAMES_BESIDE_GROUPS: usize = 4;

/// Bytes done and in all (0: not known).
pub(crate) type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// Reads every byte of the bundle, once, with so many threads. `progress` gets bytes done and in all, of the file.
pub fn verify(bundle: &Bundle, threads: usize, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Verified, DamageReport> {
    run(bundle, Depth::Content, threads, progress)
}

/// Holds the frames as they are stored against the trailer, without decompressing them, and the head against its own form:
/// what a bad stick or a cut copy did is found, what somebody changed on purpose, trailer included, is not.
pub fn verify_quick(
    bundle: &Bundle,
    threads: usize,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Verified, DamageReport> {
    run(bundle, Depth::Frames, threads, progress)
}

fn run(bundle: &Bundle, depth: Depth, threads: usize, progress: Progress<'_>) -> Result<Verified, DamageReport> {
    let inner = &*bundle.0;
    inner.cursor.clear();
    let feed = Seekable::new(inner);
    let check = Check::new(&inner.head, &feed, depth, threads, progress);
    check.frames();
    check.tail(inner);
    check.finish(bundle.path(), inner.origin.len())
}

/// How far a check goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Frames against the trailer.
    Frames,
    /// The content of members as well.
    Content,
}

/// The state that the threads share.
pub(crate) struct Check<'a> {
    head: &'a Head,
    feed: &'a dyn Feed,
    depth: Depth,
    threads: usize,
    /// The most frames in memory.
    frames_at_once: usize,
    progress: Progress<'a>,
    /// One for each member, and one for the end of the archive.
    hashers: Vec<Mutex<MemberHasher>>,
    turn: Mutex<Turn>,
    /// A frame has left the memory.
    room: Condvar,
    found: Mutex<Found>,
    /// Pieces of a group, to be hashed by whoever has time.
    pieces: PieceQueue,
    /// Buffers to be used again.
    spare: Mutex<Vec<Vec<u8>>>,
}

/// How much is under way.
#[derive(Default)]
struct Turn {
    in_memory: usize,
    bytes: u64,
}

#[derive(Default)]
struct Found {
    damages: Vec<(u64, Damage)>,
    count: u64,
    /// The bytes end too early.
    truncated: bool,
    /// Members of groups that were reported.
    of_groups: HashSet<String>,
}

impl<'a> Check<'a> {
    pub(crate) fn new(
        head: &'a Head,
        feed: &'a dyn Feed,
        depth: Depth,
        threads: usize,
        progress: Progress<'a>,
    ) -> Self {
        let first = |member: &StoredAt| if member.group.is_some() { 0 } else { member.first_frame };
        let hashers = head.members.iter().map(first).chain([head.frames() - 1]);
        let hashers = hashers
            .map(|next| Mutex::new(MemberHasher { next, early: BTreeMap::new(), content: Some(Content::default()) }))
            .collect();
        let threads = threads.clamp(1, 64);
        let limit =
            if head.members.iter().any(|member| member.group.is_some()) { FRAMES_BESIDE_GROUPS } else { FRAMES };
        Self {
            head,
            feed,
            depth,
            threads,
            frames_at_once: (threads * FRAMES_PER_THREAD).min(limit),
            progress,
            hashers,
            turn: Mutex::default(),
            room: Condvar::new(),
            found: Mutex::default(),
            pieces: PieceQueue::default(),
            spare: Mutex::default(),
        }
    }

    /// Takes all frames that the feed has.
    pub(crate) fn frames(&self) {
        thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| self.work());
            }
        });
    }

    /// Takes frames until there are none.
    fn work(&self) {
        let mut decoder = match Decoder::new() {
            Ok(decoder) => decoder,
            Err(e) => return self.report("memory", 0, 0, format!("no decompressor: {e}")),
        };
        loop {
            if let Some(work) = self.pieces.take() {
                self.hash(work);
                continue;
            }
            if let Some((number, place)) = self.pieces.begin_noted() {
                self.group(number, place, self.feed.open(place));
                continue;
            }
            self.enter();
            let mut spare = lock(&self.spare).pop().unwrap_or_default();
            let next = self.feed.next(&mut spare);
            self.put_back([spare, Vec::new()]);
            let taken = match next {
                Next::Frame(taken) => taken,
                other => {
                    self.leave();
                    match other {
                        Next::Group { number, place } if self.depth == Depth::Frames => self.group_alone(number, place),
                        Next::Group { number, place } => self.pieces.later(number, place),
                        Next::Streamed { number, place, input } => {
                            self.pieces.begin(&|work| self.hash(work));
                            self.group(number, place, input);
                        }
                        Next::Busy if !self.pieces.wait() => thread::yield_now(),
                        Next::End if !self.pieces.wait() => return,
                        Next::Busy | Next::End | Next::Frame(_) => {}
                    }
                    continue;
                }
            };
            let Taken { number, place, .. } = taken;
            let at = self.head.member_of(number);
            let member = at.and_then(|at| self.head.members.get(at));
            match self.depth {
                Depth::Frames => {
                    self.frame_alone(taken, member, &mut decoder);
                    self.leave();
                }
                Depth::Content => {
                    let ready = self.frame(taken, member, &mut decoder);
                    self.deliver(at.unwrap_or(self.head.members.len()), member, number, place, ready);
                }
            }
        }
    }

    /// Waits until there is room for one more frame.
    fn enter(&self) {
        let mut turn = lock(&self.turn);
        while turn.in_memory >= self.frames_at_once {
            turn = self.room.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        turn.in_memory += 1;
    }

    /// Decodes one frame; gives nothing when it is damaged, which is reported.
    fn frame(&self, taken: Taken, member: Option<&StoredAt>, decoder: &mut Decoder) -> Option<Ready> {
        let Taken { number, place, bytes, .. } = taken;
        let result = bytes.and_then(|mut bytes| {
            let mut spare = match encoding_of(member) {
                Encoding::Raw => Vec::new(),
                Encoding::Zstd => lock(&self.spare).pop().unwrap_or_default(),
            };
            match decoder.decode(encoding_of(member), &mut bytes, size_of(member, number), &mut spare) {
                Ok(decoded) => {
                    let unproved = self.feed.wants_digest(encoding_of(member));
                    Ok(Ready { decoded, stored: bytes, unproved })
                }
                Err(problem) => {
                    // That it is not the frame that was written says more.
                    let other = self.prove(number, frame::digest(&bytes)).err();
                    self.put_back([bytes, spare]);
                    Err(other.unwrap_or(problem))
                }
            }
        });
        self.count(u64::from(place.len));
        result.map_err(|problem| self.report_frame(member, place, problem)).ok()
    }

    /// Compares one frame with the trailer, without decoding it, except the signature's, which the trailer does not
    /// cover.
    fn frame_alone(&self, taken: Taken, member: Option<&StoredAt>, decoder: &mut Decoder) {
        let Taken { number, place, bytes, .. } = taken;
        let result = bytes.and_then(|mut bytes| {
            let mut result = self.prove(number, frame::digest(&bytes));
            if result.is_ok() && number == self.head.signature_frame {
                let size = size_of(member, number);
                result = decoder.decode(Encoding::Raw, &mut bytes, size, &mut Vec::new()).map(drop);
            }
            self.put_back([bytes, Vec::new()]);
            result
        });
        self.count(u64::from(place.len));
        if let Err(problem) = result {
            self.report_frame(member, place, problem);
        }
    }

    /// Holds the digest of a frame against the trailer.
    fn prove(&self, number: usize, digest: Digest) -> Result<(), String> {
        if self.feed.known(number).is_some_and(|known| known != *digest.as_bytes()) {
            return Err("the frame does not have the digest that the trailer states".to_owned());
        }
        self.feed.tell(number, digest);
        Ok(())
    }

    /// Headers of volumes, trailer and seek table, read again and compared with what the frames make them.
    fn tail(&self, inner: &Inner) {
        let trailer = inner.trailer.encode();
        let table = seek_table_of(&inner.frames, &inner.volumes, trailer.len());
        let table_at = inner.origin.len().saturating_sub(table.len() as u64);
        let trailer_at = table_at.saturating_sub(trailer.len() as u64);
        let headers = inner.volume_headers().map(|(offset, header)| ("volume header", offset, header.to_vec()));
        for (part, offset, wanted) in
            headers.chain([("trailer", trailer_at, trailer), ("seek table", table_at, table.clone())])
        {
            let mut found = vec![0; wanted.len()];
            let right = inner.origin.fill(&mut found, offset).is_ok() && found == wanted;
            if !right {
                self.report(part, offset, wanted.len() as u64, "is not the one of these frames".into());
            }
            self.count(wanted.len() as u64);
        }
        if inner.origin.source.has_changed() {
            let problem = "the file has changed its length while it was read".to_owned();
            self.report("end of file", inner.origin.len(), 0, problem);
        }
    }

    /// Bytes of the file that have been looked at.
    pub(crate) fn count(&self, bytes: u64) {
        let done = {
            let mut turn = lock(&self.turn);
            turn.bytes += bytes;
            turn.bytes
        };
        (self.progress)(done, self.feed.total());
    }

    /// Keeps what became of buffers that were lent or taken apart.
    fn put_back(&self, buffers: [Vec<u8>; 2]) {
        lock(&self.spare).extend(buffers.into_iter().filter(|buffer| buffer.capacity() > 0));
    }

    fn leave(&self) {
        lock(&self.turn).in_memory -= 1;
        self.room.notify_one();
    }
}

fn encoding_of(member: Option<&StoredAt>) -> Encoding {
    member.map_or(Encoding::Raw, |member| member.encoding)
}

/// Bytes of content that a frame has.
fn size_of(member: Option<&StoredAt>, number: usize) -> u32 {
    member.map_or(members::END, |member| member.input_of(number - member.first_frame))
}

fn part(member: Option<&StoredAt>) -> &str {
    member.map_or(members::END_PART, |member| &member.name)
}

fn number_in(member: Option<&StoredAt>, number: usize) -> usize {
    member.map_or(0, |member| number - member.first_frame)
}
