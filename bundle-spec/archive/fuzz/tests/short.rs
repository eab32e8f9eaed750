//! A short run of every target: the corpus, then mutations of it for about a second each, in the same order every time.
//! `scripts/fuzz` runs it for longer (`KUBEXM_FUZZ_SECONDS` for each, `KUBEXM_FUZZ_ONLY` with names), with other mutations each
//! time. No input may panic, take five seconds, or make the program hold memory that it does not pay for.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test tells what it found, and dies of it"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kubexm_fuzz::{TARGETS, Target, large, seeds};

/// For each target, after its corpus.
const SLICE: Duration = Duration::from_millis(1100);
/// The most processor time that one input may take, in a debug build. On a busy machine, waiting for a processor can take as long.
const SLOW: Duration = Duration::from_secs(5);
/// The most bytes held at once for one input of some kilobytes: a frame's content of 8 MiB may be there three times, and
/// its compressed form.
const MOST_HELD: usize = 40 << 20;

/// Counts what Rust code holds.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait; this one hands everything to the system's")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(HELD.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// xorshift64*: the same inputs in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.next() % end as u64) as usize }
    }
}

const WORDS: &[&[u8]] = &[
    b"../",
    b"/etc/passwd",
    b"\0",
    b"-1",
    b"18446744073709551615",
    b"9223372036854775808",
    b"1e9",
    b"{}",
    b"[]",
    b"null",
    b"\"",
    b"\\u0000",
    b"[[[[[[[[",
    b"{\"a\":",
    b"blobs/sha256/",
    b"\xff\xfe",
    b"sha256:",
    b"zstd",
    b"raw",
    b"recoded",
    b"leftOut",
    b"\xc2\x80",
];
const NUMBERS: &[u32] =
    &[0, 1, 7, 0x7f, 0x80, 0xff, 0x8000, 0xffff, 0x7f_ffff, 0x80_0000, 0x7fff_ffff, 0x8000_0000, u32::MAX];

fn mutate(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = corpus[random.below(corpus.len())].clone();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = (at + 1 + random.below(64)).min(bytes.len());
        match random.below(11) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.next() as u8,
            2 => drop(bytes.drain(at..end)),
            3 => bytes.truncate(at),
            4 => {
                let piece = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            5 => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            6 => drop(bytes.splice(at..at, WORDS[random.below(WORDS.len())].iter().copied())),
            7 if at + 4 <= bytes.len() => {
                let number = NUMBERS[random.below(NUMBERS.len())];
                bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
            }
            8 => {
                // A number in a text becomes another one.
                if let Some(digit) = bytes[at..].iter().position(u8::is_ascii_digit) {
                    let word = WORDS[3 + random.below(4)];
                    bytes.splice(at + digit..at + digit + 1, word.iter().copied());
                }
            }
            9 => bytes.extend((0..random.below(600)).map(|_| 0)),
            _ => {
                let last = bytes.len().saturating_sub(random.below(40));
                if let Some(byte) = bytes.get_mut(last) {
                    *byte = byte.wrapping_add(1);
                }
            }
        }
    }
    bytes.truncate(128 << 10);
    bytes
}

/// Runs one input; the input is kept when the target dies of it.
fn feed(target: &Target, bytes: &[u8]) {
    let kept = std::env::temp_dir().join(format!("kubexm-fuzz-{}-{}", target.name, std::process::id()));
    let died = Died { target: target.name, bytes, kept };
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    let start = processor_time();
    (target.run)(bytes);
    let (took, held) = (processor_time().saturating_sub(start), PEAK.load(Relaxed).saturating_sub(before));
    assert!(took < SLOW, "{}: {took:?} for {} bytes", target.name, bytes.len());
    assert!(held < MOST_HELD, "{}: {held} bytes held for {} bytes", target.name, bytes.len());
    std::mem::forget(died);
}

/// Of all threads of the process.
fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap(), u32::try_from(now.tv_nsec).unwrap())
}

/// Dropped by a panic only.
struct Died<'a> {
    target: &'static str,
    bytes: &'a [u8],
    kept: PathBuf,
}

impl Drop for Died<'_> {
    fn drop(&mut self) {
        std::fs::write(&self.kept, self.bytes).unwrap();
        eprintln!("{}: died of the input in {}; put it into corpus/{}", self.target, self.kept.display(), self.target);
    }
}

fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).map(|all| all.map(|entry| entry.unwrap().path()).collect()).unwrap_or_default();
    files.sort();
    let mut all: Vec<Vec<u8>> = files.iter().map(|path| std::fs::read(path).unwrap()).collect();
    all.extend(seeds(target.name));
    assert!(!all.is_empty(), "{} has nothing to begin with", target.name);
    all
}

#[test]
fn no_input_makes_a_parser_panic_hang_or_hold_what_it_was_not_given() {
    let seconds = std::env::var("KUBEXM_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let only = std::env::var("KUBEXM_FUZZ_ONLY").unwrap_or_default();
    let only: Vec<&str> = only.split_whitespace().collect();
    assert!(only.iter().all(|name| TARGETS.iter().any(|target| target.name == *name)), "no such target in {only:?}");
    let slice = seconds.unwrap_or(SLICE);
    // Of the clock in a long run: otherwise each would try the same.
    let seed = seconds.and_then(|_| std::time::UNIX_EPOCH.elapsed().ok()).map_or(0, |now| now.as_nanos() as u64);
    let seed = 0x9e37_79b9_7f4a_7c15 ^ seed;
    // A hang inside a target is no slow input: somebody must still be there to say so.
    let patience = Duration::from_secs(600) + slice * u32::try_from(TARGETS.len()).unwrap();
    std::thread::spawn(move || {
        std::thread::sleep(patience);
        eprintln!("a target hangs");
        std::process::abort();
    });
    for target in TARGETS.iter().filter(|target| only.is_empty() || only.contains(&target.name)) {
        let corpus = corpus(target);
        for bytes in corpus.iter().chain(&large(target.name)) {
            feed(target, bytes);
        }
        let (mut random, mut runs, start) = (Random(seed | 1), 0, Instant::now());
        while start.elapsed() < slice || runs < 10 {
            feed(target, &mutate(&mut random, &corpus));
            runs += 1;
        }
        eprintln!("{}: {} in the corpus, {runs} mutations", target.name, corpus.len());
    }
}

/// Otherwise only what is refused at once would be tried.
#[test]
fn what_hosts_send_begins_with_what_is_understood() {
    use kubexm_engine::kubeconfig::AdminKubeconfig;
    use kubexm_engine::link::wire::frame::parse;
    use kubexm_engine::link::wire::{RequestMessage, ResponseMessage, frame};
    let of = |name: &str| corpus(TARGETS.iter().find(|target| target.name == name).unwrap());
    for answer in of("agent_answer") {
        parse::<ResponseMessage>(&answer).unwrap();
    }
    let mut messages = 0;
    for channel in of("agent_wire").iter().filter(|bytes| !bytes.starts_with(b"motd")) {
        let mut rest = channel.as_slice();
        while let Some(found) = frame::read_frame(&mut rest).unwrap() {
            let frame::Frame::Message(body) = found else { continue };
            // More than one answer in a message is none.
            messages += usize::from(parse::<RequestMessage>(&body).is_ok() || parse::<ResponseMessage>(&body).is_ok());
        }
    }
    assert!(messages >= 3, "{messages}");
    for sealed in of("sealed_authorities") {
        kubexm_engine::SealedAuthorities::parse(std::str::from_utf8(&sealed).unwrap()).unwrap();
    }
    let cluster = kubexm_spec::Cluster::named("demo");
    assert!(of("kubeconfig").iter().any(|file| AdminKubeconfig::read(file, &cluster, "10.0.0.5").is_ok()));
    assert!(of("harbor").iter().any(|file| kubexm_builder::harbor::images(file.as_slice()).is_ok()));
}
