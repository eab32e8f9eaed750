//! Whether every byte of the file is the one that manifest and format demand.
//!
//! Threads take frames in the order of the file, hash and decode them, and hand the content to its member's lane, which
//! hashes it in order: so one large member, too, keeps two cores busy, and the file is read once.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;

use crate::frame::{self, Decoded, Decoder};
use crate::members::{self, StoredAt};
use crate::read::Inner;
use crate::{Bundle, Damage, DamageReport, Encoding, Verified, signature_room, tar_header, trailer};

/// Frames in memory for each thread: at most 16 MiB each.
const FRAMES_PER_THREAD: usize = 3;

/// The most damages that a report lists one by one.
const LISTED: usize = 100;

/// Reads every byte of the bundle, once, with so many threads. `progress` gets bytes done and in all, of the file.
pub fn verify(bundle: &Bundle, threads: usize, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Verified, DamageReport> {
    let check = Check::new(&bundle.0, threads.clamp(1, 64), progress);
    thread::scope(|scope| {
        for _ in 0..check.threads {
            scope.spawn(|| check.work());
        }
    });
    check.tail();
    check.finish()
}

/// The state that the threads share.
struct Check<'a> {
    inner: &'a Inner,
    threads: usize,
    progress: &'a (dyn Fn(u64, u64) + Sync),
    /// One for each member, and one for the end of the archive.
    lanes: Vec<Mutex<Lane>>,
    turn: Mutex<Turn>,
    /// A frame has left the memory.
    room: Condvar,
    found: Mutex<Found>,
    /// Buffers to be used again.
    spare: Mutex<Vec<Vec<u8>>>,
}

/// Whose turn it is.
#[derive(Default)]
struct Turn {
    next: usize,
    in_memory: usize,
    bytes: u64,
}

#[derive(Default)]
struct Found {
    damages: Vec<Damage>,
    count: u64,
}

/// One member under way.
struct Lane {
    /// Number of the frame that comes next.
    next: usize,
    /// Frames that were ready before their turn; without content where they are damaged.
    early: BTreeMap<usize, Option<Decoded>>,
    /// Taken by the thread that hashes just now.
    content: Option<Content>,
}

/// What has passed of a member.
#[derive(Default)]
struct Content {
    hasher: Hasher,
    at: u64,
    /// A frame is damaged: that was reported, and the digest says nothing more.
    spoiled: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Check<'a> {
    fn new(inner: &'a Inner, threads: usize, progress: &'a (dyn Fn(u64, u64) + Sync)) -> Self {
        let lanes = inner.members.iter().map(|member| member.first_frame).chain([inner.frames.len() - 1]);
        let lanes = lanes
            .map(|next| Mutex::new(Lane { next, early: BTreeMap::new(), content: Some(Content::default()) }))
            .collect();
        Self {
            inner,
            threads,
            progress,
            lanes,
            turn: Mutex::default(),
            room: Condvar::new(),
            found: Mutex::default(),
            spare: Mutex::default(),
        }
    }

    /// Takes frames until there are none.
    fn work(&self) {
        let mut decoder = match Decoder::new() {
            Ok(decoder) => decoder,
            Err(e) => return self.report("memory", 0, 0, format!("no decompressor: {e}")),
        };
        while let Some(number) = self.take() {
            let lane = self.inner.members.partition_point(|member| member.first_frame <= number) - 1;
            let (lane, member) = match self.inner.members.get(lane) {
                Some(member) if number < member.end_frame() => (lane, Some(member)),
                _ => (self.inner.members.len(), None),
            };
            let decoded = self.frame(number, member, &mut decoder);
            self.deliver(lane, member, number, decoded);
        }
    }

    /// The next frame, once there is room for it.
    fn take(&self) -> Option<usize> {
        let mut turn = lock(&self.turn);
        while turn.in_memory >= self.threads * FRAMES_PER_THREAD {
            turn = self.room.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        let number = turn.next;
        (number < self.inner.frames.len()).then(|| {
            turn.next += 1;
            turn.in_memory += 1;
            number
        })
    }

    /// Reads, hashes and decodes one frame; reports it and gives nothing when it is damaged.
    fn frame(&self, number: usize, member: Option<&StoredAt>, decoder: &mut Decoder) -> Option<Decoded> {
        let place = self.inner.frames[number];
        let mut bytes = lock(&self.spare).pop().unwrap_or_default();
        bytes.resize(place.len as usize, 0);
        let result = self
            .inner
            .file
            .read_exact_at(&mut bytes, place.offset)
            .map_err(|e| format!("cannot be read: {e}"))
            .and_then(|()| match self.inner.frame_digest(number) {
                Some(known) if frame::digest(&bytes).as_bytes() != known => {
                    Err("the frame does not have the digest that the trailer says".to_owned())
                }
                _ => Ok(()),
            })
            .and_then(|()| {
                let encoding = member.map_or(Encoding::Raw, |member| member.encoding);
                let spare = match encoding {
                    Encoding::Raw => Vec::new(),
                    Encoding::Zstd => lock(&self.spare).pop().unwrap_or_default(),
                };
                decoder.decode(encoding, bytes, place.size, spare)
            });
        self.count(place.len);
        result.map_err(|problem| self.report(part(member), place.offset, u64::from(place.len), problem)).ok()
    }

    /// Hashes the frame when it is its turn, and those after it that waited for it.
    fn deliver(&self, lane: usize, member: Option<&StoredAt>, number: usize, decoded: Option<Decoded>) {
        let Some(mutex) = self.lanes.get(lane) else { return };
        let mut lane = lock(mutex);
        lane.early.insert(number, decoded);
        // Another thread is at it, and looks for more when it is done with its frame.
        let Some(mut content) = lane.content.take() else { return };
        loop {
            let next = lane.next;
            let Some(decoded) = lane.early.remove(&next) else { break };
            lane.next += 1;
            drop(lane);
            self.pass(member, number_in(member, next), next, &mut content, decoded);
            self.leave();
            lane = lock(mutex);
        }
        lane.content = Some(content);
    }

    /// Holds the content of one frame against what the member must have there.
    fn pass(
        &self,
        member: Option<&StoredAt>,
        index: usize,
        number: usize,
        content: &mut Content,
        decoded: Option<Decoded>,
    ) {
        let Some(decoded) = decoded else {
            content.spoiled = true;
            return;
        };
        let place = self.inner.frames[number];
        let right = match member {
            None => decoded.pieces().flatten().all(|byte| *byte == 0),
            Some(member) => content.take(member, &decoded),
        };
        if !right {
            content.spoiled = true;
            let problem = "tar header or padding is not the one that belongs here".to_owned();
            self.report(part(member), place.offset, u64::from(place.len), problem);
        }
        if let Some(member) = member.filter(|member| index + 1 == member.frames && !content.spoiled) {
            self.end(member, std::mem::take(content), &decoded);
        }
        lock(&self.spare).push(decoded.into_buffer());
    }

    /// All frames of a member have passed.
    fn end(&self, member: &StoredAt, content: Content, last: &Decoded) {
        let first = self.inner.frames[member.first_frame].offset;
        let length = self.inner.frames[member.first_frame..member.end_frame()].iter().map(|p| u64::from(p.len)).sum();
        let found: Digest = content.hasher.finish();
        match member.sha256 {
            Some(wanted) if wanted != found => {
                self.report(&member.name, first, length, format!("its content has the digest {found}, not {wanted}"));
            }
            Some(_) => {}
            None => {
                let stream = last.pieces().collect::<Vec<_>>().concat();
                let room = stream.get(tar_header::BLOCK as usize..).unwrap_or_default();
                if let Err(problem) = signature_room::decode(room) {
                    self.report(&member.name, first, length, problem);
                }
            }
        }
    }

    /// Seek table and trailer, read again and held against what the frames make them.
    fn tail(&self) {
        let trailer = self.inner.trailer.encode();
        let table = self.inner.seek_table(trailer.len());
        let table_at = self.inner.size.saturating_sub(table.len() as u64);
        let trailer_at = table_at.saturating_sub(trailer::len(self.inner.trailer.digests.len()) as u64);
        for (part, offset, wanted) in [("trailer", trailer_at, trailer), ("seek table", table_at, table)] {
            let mut found = vec![0; wanted.len()];
            let right = self.inner.file.read_exact_at(&mut found, offset).is_ok() && found == wanted;
            if !right {
                self.report(part, offset, wanted.len() as u64, "is not the one of these frames".into());
            }
            self.count(wanted.len() as u32);
        }
        if self.inner.file.metadata().is_ok_and(|m| m.len() != self.inner.size) {
            self.report("end of file", self.inner.size, 0, "the file has changed its length while it was read".into());
        }
    }

    fn count(&self, bytes: u32) {
        let done = {
            let mut turn = lock(&self.turn);
            turn.bytes += u64::from(bytes);
            turn.bytes
        };
        (self.progress)(done, self.inner.size);
    }

    fn leave(&self) {
        lock(&self.turn).in_memory -= 1;
        self.room.notify_one();
    }

    fn report(&self, part: &str, offset: u64, length: u64, problem: String) {
        let mut found = lock(&self.found);
        found.count += 1;
        if found.damages.len() < LISTED {
            found.damages.push(Damage { part: part.to_owned(), offset, length, problem });
        }
    }

    fn finish(self) -> Result<Verified, DamageReport> {
        let Found { mut damages, count } = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        if count == 0 {
            let members = self.inner.members.iter().filter(|m| m.sha256.is_some()).count();
            return Ok(Verified { bytes: self.inner.size, members });
        }
        damages.sort_by_key(|damage| damage.offset);
        Err(DamageReport { path: self.inner.path.clone(), damages, count })
    }
}

impl Content {
    /// Takes the next frame's part of header, content and padding; false when header or padding is wrong.
    fn take(&mut self, member: &StoredAt, decoded: &Decoded) -> bool {
        let content_end = tar_header::BLOCK + member.size;
        for mut piece in decoded.pieces() {
            if self.at == 0 {
                let header = tar_header::encode(&member.name, member.size);
                let Some(rest) = piece.strip_prefix(&header) else { return false };
                piece = rest;
                self.at = tar_header::BLOCK;
            }
            let left = usize::try_from(content_end.saturating_sub(self.at)).unwrap_or(usize::MAX);
            let (content, padding) = piece.split_at(left.min(piece.len()));
            self.hasher.update(content);
            if padding.iter().any(|byte| *byte != 0) {
                return false;
            }
            self.at += piece.len() as u64;
        }
        true
    }
}

fn part(member: Option<&StoredAt>) -> &str {
    member.map_or(members::END_PART, |member| &member.name)
}

fn number_in(member: Option<&StoredAt>, number: usize) -> usize {
    member.map_or(0, |member| number - member.first_frame)
}
