//! What `scripts/bench archive` measures that is no verb: writing a folder of files with known digests, and what the machine
//! could do at best.
//!
//! ```text
//! measure write DIR OUT [BASE]   a bundle of the files in DIR; DIR.sums has their digests (sha256sum form); a delta with BASE
//! measure synthetic BYTES OUT    a bundle of that size, made of noise and text
//! measure verify FILE            every byte of a bundle, and nothing else that the verb does
//! measure limit FILE             read, decompress and sha256 every frame on all cores, and nothing else
//! ```
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a program for measurements only")]

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use kubexm_archive::{
    Bundle, Contents, Delta, Encoding, Group, Input, MAGIC_BYTES, Options, StoredMember, encoding_for, members,
    write_contents,
};
use kubexm_spec::manifest::{Manifest, Member};
use kubexm_spec::{Digest, Platform};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["write", dir, out] => write(files(Path::new(dir)), Path::new(out), None),
        ["write", dir, out, base] => write(files(Path::new(dir)), Path::new(out), Some(Path::new(base))),
        ["synthetic", bytes, out] => write((synthetic(bytes.parse().unwrap()), Vec::new()), Path::new(out), None),
        ["verify", file] => verify(Path::new(file)),
        ["limit", file] => limit(Path::new(file)),
        _ => panic!("see the head of measure.rs"),
    }
}

/// The files of a folder, each content once, digests from `DIR.sums`: as a cache knows them. Those that may be programs come first, by
/// name, and in groups.
fn files(dir: &Path) -> (Vec<Input<'static>>, Vec<Group>) {
    let mut sums = dir.as_os_str().to_owned();
    sums.push(".sums");
    let mut seen = HashSet::new();
    let mut named = Vec::new();
    for (sha256, name) in kubexm_archive::sums::read(Path::new(&sums)).unwrap() {
        if !seen.insert(sha256) {
            continue;
        }
        let path = dir.join(&name);
        let mut start = [0; MAGIC_BYTES];
        let file = File::open(&path).unwrap();
        let read = file.read_at(&mut start, 0).unwrap();
        let input = Input {
            name: members::blob_name(&sha256),
            size: file.metadata().unwrap().len(),
            sha256,
            encoding: encoding_for(&start[..read]),
            open: Box::new(move || Ok(Box::new(File::open(&path)?))),
        };
        let alone = input.encoding == Encoding::Raw || input.size < 1 << 20;
        named.push((alone, name, input));
    }
    named.sort_by(|(alone, name, _), (other_alone, other, _)| (alone, name).cmp(&(other_alone, other)));
    let members: Vec<Member> = named.iter().map(|(_, _, input)| member(input)).collect();
    let groups = Group::of(members.iter().zip(named.iter().map(|(alone, ..)| !alone)), Group::DEFAULT_LEVEL);
    (named.into_iter().map(|(_, _, input)| input).collect(), groups)
}

fn member(input: &Input<'_>) -> Member {
    Member { name: input.name.clone(), size: input.size, sha256: input.sha256 }
}

/// Blobs of 32 MiB, every second one of noise, made while they are read; in the middle of them one of noise and 1 MiB.
fn synthetic(bytes: u64) -> Vec<Input<'static>> {
    const BLOB: u64 = 32 << 20;
    let count = bytes.div_ceil(BLOB);
    let mut inputs: Vec<_> = (0..count).map(|number| made(number + 1, number % 2 == 0, BLOB)).collect();
    inputs.insert(inputs.len() / 2, made(count + 1, true, 1 << 20));
    inputs
}

fn made(seed: u64, noise: bool, size: u64) -> Input<'static> {
    let open = move || Pattern { seed, noise, left: size };
    let mut hasher = kubexm_spec::digest::Hasher::default();
    let (mut pattern, mut buffer) = (open(), vec![0; 1 << 20]);
    loop {
        match pattern.read(&mut buffer).unwrap() {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    let sha256 = hasher.finish();
    let encoding = if noise { Encoding::Raw } else { Encoding::Zstd };
    let open: kubexm_archive::Open<'static> = Box::new(move || Ok(Box::new(open())));
    Input { name: members::blob_name(&sha256), size, sha256, encoding, open }
}

struct Pattern {
    seed: u64,
    noise: bool,
    left: u64,
}

impl Read for Pattern {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX)) / 8 * 8;
        for word in buffer[..len].as_chunks_mut::<8>().0 {
            self.seed ^= self.seed << 13;
            self.seed ^= self.seed >> 7;
            self.seed ^= self.seed << 17;
            *word = if self.noise { self.seed } else { self.seed & 0x0707 | 0x2020_2020_2020_2020 }.to_le_bytes();
        }
        self.left -= len as u64;
        Ok(len)
    }
}

fn write((inputs, groups): (Vec<Input<'_>>, Vec<Group>), out: &Path, base: Option<&Path>) {
    let members = inputs.iter().map(member).collect();
    let manifest = Manifest {
        format: 2,
        name: "measure".into(),
        cluster: None,
        platforms: vec![Platform::LINUX_AMD64],
        zone: None,
        tool: "measure".into(),
        lock: Digest::of(""),
        artifacts: vec![],
        members,
    };
    let base = base.map(|path| Bundle::open(path).unwrap());
    let (mut delta, mut carried) = (Delta::default(), Vec::new());
    for input in inputs {
        match &base {
            Some(base) if base.has_blob(&input.sha256) => {
                delta.left_out.push(StoredMember { name: input.name, encoding: input.encoding });
            }
            _ => carried.push(input),
        }
    }
    delta.base = base.as_ref().map(Bundle::manifest_digest);
    let contents = Contents { manifest: &manifest, inputs: carried, delta, signatures: &[], groups, sources: None };
    let written = write_contents(out, contents, &Options::default(), &|_, _| {}).unwrap();
    println!("{}", written.size);
}

fn verify(file: &Path) {
    let threads = std::thread::available_parallelism().unwrap().get();
    kubexm_archive::verify(&Bundle::open(file).unwrap(), threads, &|_, _| {}).unwrap();
}

/// No order, no form, no trailer: what remains is what any program must do.
fn limit(path: &Path) {
    let bytes = fs::metadata(path).unwrap().len();
    let file = File::open(path).unwrap();
    let mut footer = [0; 9];
    file.read_exact_at(&mut footer, bytes - 9).unwrap();
    let count = u32::from_le_bytes(footer[..4].try_into().unwrap()) as usize;
    let mut table = vec![0; count * 8];
    let table_at = bytes - 9 - table.len() as u64;
    file.read_exact_at(&mut table, table_at).unwrap();
    let mut offset = 0;
    let places: Vec<(u64, usize, usize)> = table
        .chunks(8)
        .map(|entry| {
            let word = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap()) as usize;
            let place = (offset, word(0), word(4));
            offset += place.1 as u64;
            place
        })
        .collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                let mut decoder = zstd::bulk::Decompressor::new().unwrap();
                let (mut frame, mut content) = (Vec::new(), Vec::with_capacity(8 << 20));
                while let Some((offset, len, size)) = places.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
                    frame.resize(len, 0);
                    file.read_exact_at(&mut frame, offset).unwrap();
                    if size > 8 << 20 {
                        group(&frame, &mut content);
                    } else if size > 0 {
                        content.clear();
                        decoder.decompress_to_buffer(&frame, &mut content).unwrap();
                        std::hint::black_box(Digest::of(&content));
                    }
                }
            });
        }
    });
}

/// A group's frame, through one window.
fn group(frame: &[u8], content: &mut Vec<u8>) {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(frame).unwrap();
    let mut hasher = kubexm_spec::digest::Hasher::default();
    content.resize(2 << 20, 0);
    loop {
        match decoder.read(content).unwrap() {
            0 => break,
            read => hasher.update(&content[..read]),
        }
    }
    std::hint::black_box(hasher.finish());
}
