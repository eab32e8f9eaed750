//! From inputs to frames: one thread reads and hashes, several compress, the caller's writes, in stable order.
//!
//! Buffers circulate in a fixed number of slots, so memory does not depend on the size of the bundle, and bytes do not
//! depend on the number of threads.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;

use crate::frame::{self, Encoder};
use crate::input::Input;
use crate::members::{self, StoredAt};
use crate::{ArchiveError, Encoding, tar_header};

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

/// A frame that is ready.
struct Done {
    number: usize,
    slot: Slot,
    digest: Digest,
}

/// Calls `sink` with every frame, in order: its bytes, its number of bytes of input, its digest.
/// The last frame holds the two blocks that end a tar archive.
pub(crate) fn run(
    inputs: &[Input<'_>],
    level: i32,
    threads: usize,
    mut sink: impl FnMut(&[u8], u32, Digest) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let threads = threads.clamp(1, 64);
    let (give_back, free) = mpsc::channel();
    for _ in 0..2 * threads + 2 {
        // The receiver lives in this function.
        let _ = give_back.send(Slot::default());
    }
    // As many places as slots: the reading thread never waits here, also not for workers that are gone.
    let (to_workers, jobs) = mpsc::sync_channel(2 * threads + 2);
    let (to_writer, results) = mpsc::channel();
    let jobs = Mutex::new(jobs);
    thread::scope(|scope| {
        let failed = to_writer.clone();
        scope.spawn(move || {
            if let Err(Stop::Failed(error)) = produce(inputs, &free, &to_workers) {
                let _ = failed.send(Err(error));
            }
        });
        for _ in 0..threads {
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

fn produce(inputs: &[Input<'_>], free: &Receiver<Slot>, jobs: &SyncSender<Job>) -> Result<(), Stop> {
    let mut number = 0;
    for input in inputs {
        read_member(input, |encoding, fill| {
            let mut slot = free.recv().map_err(|_| Stop::Unwanted)?;
            slot.input.clear();
            fill(&mut slot.input)?;
            jobs.send(Job { number, encoding, slot }).map_err(|_| Stop::Unwanted)?;
            number += 1;
            Ok(())
        })?;
    }
    let mut slot = free.recv().map_err(|_| Stop::Unwanted)?;
    slot.input.clear();
    slot.input.resize(members::END as usize, 0);
    jobs.send(Job { number, encoding: Encoding::Raw, slot }).map_err(|_| Stop::Unwanted)
}

/// A function that puts the input of one frame into an empty buffer.
type Fill<'f> = &'f mut dyn FnMut(&mut Vec<u8>) -> Result<(), ArchiveError>;

/// Cuts header, content and padding of one member into frames, and demands that the content is what was promised.
fn read_member(input: &Input<'_>, mut emit: impl FnMut(Encoding, Fill<'_>) -> Result<(), Stop>) -> Result<(), Stop> {
    let unreadable = |source| ArchiveError::InputUnreadable { name: input.name.clone(), source };
    let mismatch = |problem| ArchiveError::InputMismatch { name: input.name.clone(), problem };
    let stored = StoredAt::new(&input.name, input.size, None, input.encoding, 0)
        .ok_or_else(|| mismatch("its size is out of range".into()))?;
    let mut reader = (input.open)().map_err(unreadable)?;
    let mut hasher = Hasher::default();
    let mut left = input.size;
    for number in 0..stored.frames {
        let whole = stored.input_of(number) as usize;
        emit(input.encoding, &mut |buffer| {
            buffer.reserve(whole);
            if number == 0 {
                buffer.extend_from_slice(&tar_header::encode(&input.name, input.size));
            }
            let content = buffer.len();
            let wanted = left.min((whole - content) as u64);
            let found = reader.by_ref().take(wanted).read_to_end(buffer).map_err(unreadable)? as u64;
            if found < wanted {
                return Err(mismatch(format!("it ends after {} of {} bytes", input.size - left + found, input.size)));
            }
            hasher.update(&buffer[content..]);
            left -= wanted;
            buffer.resize(whole, 0);
            Ok(())
        })?;
    }
    if reader.read(&mut [0]).map_err(unreadable)? != 0 {
        return Err(mismatch(format!("it has more than {} bytes", input.size)).into());
    }
    let digest = hasher.finish();
    // Where blobs are from is known when the last one has come: no digest of it could be determined before.
    if digest != input.sha256 && input.name != members::SOURCES {
        return Err(mismatch(format!("its digest is {digest}, not {}", input.sha256)).into());
    }
    Ok(())
}

fn encode(level: i32, jobs: &Mutex<Receiver<Job>>, done: &Sender<Result<Done, ArchiveError>>) {
    let failed = |number: usize, source: io::Error| ArchiveError::InputUnreadable {
        name: format!("frame {number} (compression)"),
        source,
    };
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
            .map(|digest| Done { number, slot, digest })
            .map_err(|source| failed(number, source));
        if done.send(result).is_err() {
            return;
        }
    }
}

fn deliver(
    results: Receiver<Result<Done, ArchiveError>>,
    give_back: Sender<Slot>,
    sink: &mut impl FnMut(&[u8], u32, Digest) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    for result in results {
        let done = result?;
        early.insert(done.number, done);
        while let Some(done) = early.remove(&next) {
            sink(&done.slot.frame, done.slot.input.len() as u32, done.digest)?;
            // The reading thread may have ended already.
            let _ = give_back.send(done.slot);
            next += 1;
        }
    }
    Ok(())
}
