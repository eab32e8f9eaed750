//! From inputs to frames: one thread reads and hashes, several compress, the caller's writes, in stable order.
//!
//! Buffers circulate in a fixed number of slots, so memory does not depend on the size of the bundle, and bytes do not
//! depend on the number of threads. A group, whose compressor has threads and a window of its own, waits until all slots are empty,
//! and goes to the writer in parts; the next one follows without a pause.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;

use crate::frame::{self, Encoder};
use crate::input::Input;
use crate::members::{self, StoredAt};
use crate::{ArchiveError, Encoding, group, tar_header};

/// The most slots, whatever the number of threads: with what a group needs they stay below 256 MiB.
const SLOTS: usize = 12;
/// Slots that carry the parts of a group, and bytes of a part.
const PARTS: usize = 4;
const PART: usize = 4 << 20;
/// Bytes of a group's content that are read at a time.
const PIECE: usize = 1 << 20;

/// The two buffers of one frame under way: at most 16 MiB.
#[derive(Default)]
struct Slot {
    input: Vec<u8>,
    frame: Vec<u8>,
}

/// A frame to be made.
struct Job {
    number: usize,
    encoding: Encoding,
    slot: Slot,
}

/// What is ready.
enum Done {
    /// A frame.
    Whole { number: usize, slot: Slot, digest: Digest },
    /// Of the frame of a group, before which all others were delivered.
    Part { slot: Slot },
    /// The end of that frame, its bytes of input and its digest.
    End { number: usize, slot: Slot, size: u32, digest: Digest },
}

/// What a writer gets.
pub(crate) enum Ready<'a> {
    /// A frame: its bytes, its number of bytes of input, its digest.
    Whole(&'a [u8], u32, Digest),
    /// The next bytes of a frame that is too large to be in memory.
    Part(&'a [u8]),
    /// Its last bytes, its number of bytes of input, its digest.
    End(&'a [u8], u32, Digest),
}

/// What the frames are made of, in the order of the file.
pub(crate) enum Unit {
    /// One input, cut into frames.
    Single(usize),
    /// Several, in one frame of so many bytes of input.
    Group {
        /// Of the inputs.
        inputs: Range<usize>,
        /// Bytes of their tar streams.
        size: u32,
        /// Of the compression.
        level: i32,
    },
}

/// Calls `sink` with every frame, in order. The last frame holds the two blocks that end a tar archive.
pub(crate) fn run(
    inputs: &[Input<'_>],
    units: &[Unit],
    level: i32,
    threads: usize,
    mut sink: impl FnMut(Ready<'_>) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let threads = threads.clamp(1, 64);
    let slots = (2 * threads + 2).min(SLOTS);
    let (give_back, free) = mpsc::channel();
    for _ in 0..slots {
        // The receiver lives in this function.
        let _ = give_back.send(Slot::default());
    }
    // As many places as slots: the reading thread never waits here, also not for workers that are gone.
    let (to_workers, jobs) = mpsc::sync_channel(slots);
    let (to_writer, results) = mpsc::channel();
    let jobs = Mutex::new(jobs);
    thread::scope(|scope| {
        let of_producer = to_writer.clone();
        scope.spawn(move || {
            let slots = Slots { free, all: slots, spare: Vec::new() };
            let (jobs, done) = (to_workers, of_producer);
            let mut producer =
                Producer { inputs, slots, jobs, done, threads, number: 0, compressor: None, kept: Vec::new() };
            if let Err(Stop::Failed(error)) = producer.produce(units) {
                let _ = producer.done.send(Err(error));
            }
        });
        for _ in 0..threads.min(slots) {
            let (jobs, to_writer) = (&jobs, to_writer.clone());
            scope.spawn(move || encode(level, jobs, &to_writer));
        }
        drop(to_writer);
        // Dropping `results` and `give_back` on an error lets the other threads run out.
        deliver(results, give_back, &mut sink)
    })
}

/// Why the reading thread stops early.
enum Stop {
    Failed(ArchiveError),
    /// The writer has gone, with an error of its own.
    Unwanted,
}

impl From<ArchiveError> for Stop {
    fn from(error: ArchiveError) -> Self {
        Self::Failed(error)
    }
}

/// The buffers that are not under way.
struct Slots {
    free: Receiver<Slot>,
    /// How many there are.
    all: usize,
    /// Taken from `free` and not used yet.
    spare: Vec<Slot>,
}

impl Slots {
    fn take(&mut self) -> Result<Slot, Stop> {
        match self.spare.pop() {
            Some(slot) => Ok(slot),
            None => self.free.recv().map_err(|_| Stop::Unwanted),
        }
    }

    /// Waits until nothing is under way, and gives back the memory of the buffers.
    fn drain(&mut self) -> Result<(), Stop> {
        while self.spare.len() < self.all {
            self.spare.push(self.free.recv().map_err(|_| Stop::Unwanted)?);
        }
        self.spare.fill_with(Slot::default);
        Ok(())
    }
}

/// The reading thread.
struct Producer<'i> {
    inputs: &'i [Input<'i>],
    slots: Slots,
    jobs: SyncSender<Job>,
    done: Sender<Result<Done, ArchiveError>>,
    threads: usize,
    /// Of the next frame.
    number: usize,
    /// That of the group before, with its level, and the slots that it leaves no memory for.
    compressor: Option<(i32, group::Compressor)>,
    kept: Vec<Slot>,
}

impl Producer<'_> {
    fn produce(&mut self, units: &[Unit]) -> Result<(), Stop> {
        for unit in units {
            match unit {
                Unit::Single(at) => {
                    let Some(input) = self.inputs.get(*at) else { continue };
                    self.single(input)?;
                }
                Unit::Group { inputs, size, level } => {
                    let inputs = self.inputs.get(inputs.clone()).unwrap_or_default();
                    self.group(inputs, *size, *level)?;
                }
            }
        }
        self.job(Encoding::Raw, |buffer| {
            buffer.resize(members::END as usize, 0);
            Ok(())
        })
    }

    /// Has the workers make a frame of what `fill` puts into an empty buffer.
    fn job(
        &mut self,
        encoding: Encoding,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), ArchiveError>,
    ) -> Result<(), Stop> {
        let mut slot = self.slots.take()?;
        slot.input.clear();
        fill(&mut slot.input)?;
        self.jobs.send(Job { number: self.number, encoding, slot }).map_err(|_| Stop::Unwanted)?;
        self.number += 1;
        Ok(())
    }

    fn single(&mut self, input: &Input<'_>) -> Result<(), Stop> {
        // A group's memory is that of many frames.
        self.compressor = None;
        self.slots.spare.append(&mut self.kept);
        let mut member = Reading::open(input)?;
        let stored = StoredAt::new(&input.name, input.size, None, input.encoding, 0)
            .ok_or_else(|| member.mismatch("its size is out of range".into()))?;
        for number in 0..stored.frames {
            self.job(input.encoding, |buffer| member.fill(buffer, stored.input_of(number) as usize))?;
        }
        Ok(member.end()?)
    }

    fn group(&mut self, inputs: &[Input<'_>], size: u32, level: i32) -> Result<(), Stop> {
        let first = inputs.first().map(|input| input.name.clone()).unwrap_or_default();
        let failed = |source| compression(&first, source);
        let mut compressor = match self.compressor.take().filter(|(of, _)| *of == level) {
            Some((_, compressor)) => compressor,
            None => {
                self.slots.spare.append(&mut self.kept);
                self.slots.drain()?;
                self.kept = self.slots.spare.split_off(PARTS.min(self.slots.spare.len()));
                group::Compressor::new(level, self.threads).map_err(failed)?
            }
        };
        compressor.begin(size).map_err(failed)?;
        let mut parts = Parts { slots: &mut self.slots, done: &self.done, hasher: Hasher::default() };
        let mut part = parts.next()?;
        let mut buffer = Vec::with_capacity(PIECE);
        for input in inputs {
            let mut member = Reading::open(input)?;
            let mut left =
                members::stream_len(input.size).ok_or_else(|| member.mismatch("its size is out of range".into()))?;
            while left > 0 {
                let len = left.min(PIECE as u64);
                buffer.clear();
                member.fill(&mut buffer, len as usize)?;
                compressor.take(&buffer, &mut part.frame, |full| parts.exchange(full)).map_err(failed)?;
                left -= len;
            }
            member.end()?;
        }
        compressor.end(&mut part.frame, |full| parts.exchange(full)).map_err(failed)?;
        let Parts { mut hasher, .. } = parts;
        hasher.update(&part.frame);
        let digest = hasher.finish();
        let end = Done::End { number: self.number, slot: part, size, digest };
        self.done.send(Ok(end)).map_err(|_| Stop::Unwanted)?;
        self.number += 1;
        self.compressor = Some((level, compressor));
        Ok(())
    }
}

/// Parts of the frame of a group on their way to the writer.
struct Parts<'a> {
    slots: &'a mut Slots,
    done: &'a Sender<Result<Done, ArchiveError>>,
    hasher: Hasher,
}

impl Parts<'_> {
    /// An empty one.
    fn next(&mut self) -> Result<Slot, Stop> {
        let mut slot = self.slots.take()?;
        slot.frame.clear();
        slot.frame.reserve_exact(PART);
        Ok(slot)
    }

    /// Sends a part that is full, and puts an empty one in its place.
    fn exchange(&mut self, frame: &mut Vec<u8>) -> io::Result<()> {
        let gone = || io::Error::other("the writer has ended");
        let next = self.next().map_err(|_| gone())?;
        let part = Slot { input: next.input, frame: std::mem::replace(frame, next.frame) };
        self.hasher.update(&part.frame);
        self.done.send(Ok(Done::Part { slot: part })).map_err(|_| gone())
    }
}

/// One member on its way from its input: header, content and padding, and the demand that the content is what was promised.
struct Reading<'i> {
    input: &'i Input<'i>,
    reader: Box<dyn Read + Send>,
    hasher: Hasher,
    begun: bool,
    left: u64,
}

impl<'i> Reading<'i> {
    fn open(input: &'i Input<'i>) -> Result<Self, ArchiveError> {
        let unreadable = |source| ArchiveError::InputUnreadable { name: input.name.clone(), source };
        let reader = (input.open)().map_err(unreadable)?;
        Ok(Self { input, reader, hasher: Hasher::default(), begun: false, left: input.size })
    }

    /// Appends the next `len` bytes of the member's tar stream.
    fn fill(&mut self, buffer: &mut Vec<u8>, len: usize) -> Result<(), ArchiveError> {
        let Input { name, size, .. } = self.input;
        let end = buffer.len() + len;
        buffer.reserve(len);
        if !std::mem::replace(&mut self.begun, true) {
            buffer.extend_from_slice(&tar_header::encode(name, *size));
        }
        let content = buffer.len();
        let wanted = self.left.min((end - content) as u64);
        let found = self.reader.by_ref().take(wanted).read_to_end(buffer);
        let found = found.map_err(|source| ArchiveError::InputUnreadable { name: name.clone(), source })? as u64;
        if found < wanted {
            return Err(self.mismatch(format!("it ends after {} of {size} bytes", size - self.left + found)));
        }
        self.hasher.update(&buffer[content..]);
        self.left -= wanted;
        buffer.resize(end, 0);
        Ok(())
    }

    fn end(mut self) -> Result<(), ArchiveError> {
        let Input { name, size, sha256, .. } = self.input;
        let more = self.reader.read(&mut [0]);
        if more.map_err(|source| ArchiveError::InputUnreadable { name: name.clone(), source })? != 0 {
            return Err(self.mismatch(format!("it has more than {size} bytes")));
        }
        let digest = std::mem::take(&mut self.hasher).finish();
        // Where blobs are from is known when the last one has come: no digest of it could be determined before.
        if digest != *sha256 && name != members::SOURCES {
            return Err(self.mismatch(format!("its digest is {digest}, not {sha256}")));
        }
        Ok(())
    }

    fn mismatch(&self, problem: String) -> ArchiveError {
        ArchiveError::InputMismatch { name: self.input.name.clone(), problem }
    }
}

fn compression(what: &str, source: io::Error) -> ArchiveError {
    ArchiveError::InputUnreadable { name: format!("{what} (compression)"), source }
}

fn encode(level: i32, jobs: &Mutex<Receiver<Job>>, done: &Sender<Result<Done, ArchiveError>>) {
    let failed = |number: usize, source| compression(&format!("frame {number}"), source);
    let mut encoder = match Encoder::new(level) {
        Ok(encoder) => encoder,
        Err(source) => {
            let _ = done.send(Err(failed(0, source)));
            return;
        }
    };
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { number, encoding, mut slot }) = job else { return };
        let result = encoder
            .encode(encoding, &slot.input, &mut slot.frame)
            .map(|()| frame::digest(&slot.frame))
            .map(|digest| Done::Whole { number, slot, digest })
            .map_err(|source| failed(number, source));
        if done.send(result).is_err() {
            return;
        }
    }
}

fn deliver(
    results: Receiver<Result<Done, ArchiveError>>,
    give_back: Sender<Slot>,
    sink: &mut impl FnMut(Ready<'_>) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    for result in results {
        let slot = match result? {
            Done::Whole { number, slot, digest } => {
                early.insert(number, (slot, digest));
                None
            }
            Done::Part { slot } => {
                sink(Ready::Part(&slot.frame))?;
                Some(slot)
            }
            Done::End { number, slot, size, digest } => {
                sink(Ready::End(&slot.frame, size, digest))?;
                next = number + 1;
                Some(slot)
            }
        };
        // The reading thread may have ended already.
        slot.map(|slot| give_back.send(slot));
        while let Some((slot, digest)) = early.remove(&next) {
            sink(Ready::Whole(&slot.frame, slot.input.len() as u32, digest))?;
            let _ = give_back.send(slot);
            next += 1;
        }
    }
    Ok(())
}
