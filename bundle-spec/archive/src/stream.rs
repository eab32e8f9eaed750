//! A bundle read once, from start to end, from an input that cannot seek: standard input.

use std::collections::HashMap;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use kubexm_spec::{Digest, Manifest};

use crate::feed::{Feed, Next, Taken, lock};
use crate::frame::{Decoded, Place};
use crate::frame_reader::{FrameReader, Seen, State, ends_as_a_bundle};
use crate::group_frame::GroupFrame;
use crate::members::StoredAt;
use crate::open::{self, Head};
use crate::verify::{Check, Depth};
use crate::volume_header::{self, VolumeHeader};
use crate::{ArchiveError, DamageReport, Documents, Encoding, Layout, Signature, Verified, tar_header};

const BUFFER: usize = 1 << 20;
/// The most bytes of documents (index.json, manifests, texts) that are kept for questions asked after the last byte.
const KEPT: usize = 64 << 20;
/// The most bytes of a blob that is kept because it may be a key.
const PEM_LIMIT: u64 = 64 << 10;

/// What was learnt of a bundle that has passed.
#[derive(Debug)]
pub struct Streamed {
    head: Head,
    name: PathBuf,
    bundle_id: Digest,
    documents: HashMap<String, Vec<u8>>,
    /// How the bytes were found.
    pub bytes: Result<Verified, DamageReport>,
}

/// Reads every byte of a bundle once, with so many threads. `name` is what messages call it; `progress` gets bytes done, and 0
/// for those in all. What cannot be opened at all is an error; damage behind the head is in the answer.
pub fn verify_stream(
    name: &Path,
    reader: impl Read + Send,
    threads: usize,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Streamed, ArchiveError> {
    let mut frames =
        FrameReader { reader: BufReader::with_capacity(BUFFER, reader), name, offset: 0, seen: Seen::default() };
    frames.demand_bundle()?;
    let head = open::head_of_stream(name, &mut frames)?;
    let bundle_id = crate::write::bundle_id(&head.manifest_json, &head.layout_json);
    let feed = Stream {
        name,
        total: head.frames(),
        signature_frame: head.signature_frame,
        format: head.manifest.format,
        groups: head.members.iter().filter_map(|member| Some((member.first_frame, member.group?.len))).collect(),
        state: Mutex::new(State { frames, failed: None }),
        in_group: Mutex::new(false),
        digests: Mutex::default(),
        documents: Mutex::default(),
    };
    let check = Check::new(&head, &feed, Depth::Content, threads, progress);
    check.count(lock(&feed.state).frames.offset);
    check.frames();
    let bytes = feed.finish(check, bundle_id);
    let Stream { documents, .. } = feed;
    let documents = documents.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).0;
    Ok(Streamed { head, name: name.to_owned(), bundle_id, documents, bytes })
}

impl Streamed {
    /// Of the exact bytes of manifest.json.
    pub fn manifest_digest(&self) -> Digest {
        Digest::of(&self.head.manifest_json)
    }

    /// The exact bytes of manifest.json: what signatures sign.
    pub fn manifest_json(&self) -> &[u8] {
        &self.head.manifest_json
    }

    /// Names the bytes of the file, but for the signatures.
    pub fn bundle_id(&self) -> Digest {
        self.bundle_id
    }

    /// The signatures it carries, unchecked.
    pub fn signatures(&self) -> &[Signature] {
        &self.head.signatures
    }

    /// How it stores its members.
    pub fn layout(&self) -> &Layout {
        &self.head.layout
    }
}

impl Documents for Streamed {
    fn path(&self) -> &Path {
        &self.name
    }

    fn manifest(&self) -> &Manifest {
        &self.head.manifest
    }

    fn size_of(&self, name: &str) -> Option<u64> {
        self.head.members.iter().find(|member| member.name == name).map(|member| member.size)
    }

    fn document(&self, name: &str, limit: u64) -> Result<Vec<u8>, ArchiveError> {
        let (path, named) = (self.name.clone(), name.to_owned());
        match (self.size_of(name), self.documents.get(name)) {
            (None, _) => Err(ArchiveError::NoSuchMember { path, name: named }),
            (Some(size), _) if size > limit => Err(ArchiveError::TooLarge { path, name: named, size, limit }),
            (Some(_), Some(content)) => Ok(content.clone()),
            (Some(size), None) => Err(ArchiveError::NotKept { path, name: named, size, kept: KEPT as u64 }),
        }
    }
}

/// What the threads of a check take frames from.
struct Stream<'a, R> {
    name: &'a Path,
    total: usize,
    signature_frame: usize,
    format: u32,
    /// The frames that are groups, and bytes of their content.
    groups: HashMap<usize, u32>,
    state: Mutex<State<'a, R>>,
    /// A thread reads a group, and holds the state until it has.
    in_group: Mutex<bool>,
    /// Of the frames behind the head.
    digests: Mutex<HashMap<usize, Digest>>,
    documents: Mutex<(HashMap<String, Vec<u8>>, usize)>,
}

impl<R: Read + Send> Feed for Stream<'_, R> {
    fn next(&self, spare: &mut Vec<u8>) -> Next<'_> {
        let mut in_group = lock(&self.in_group);
        if *in_group {
            return Next::Busy;
        }
        // Nobody has it who does not hold the other.
        let mut state = lock(&self.state);
        let number = state.frames.seen.frames.len();
        if number >= self.total || state.failed.is_some() {
            return Next::End;
        }
        if let Some(size) = self.groups.get(&number) {
            if let Err(error) = state.frames.headers() {
                state.failed = Some(error);
                return Next::End;
            }
            let place = Place { offset: state.frames.offset, len: 0, size: *size };
            *in_group = true;
            let input = Box::new(GroupFrame::new(state, &self.in_group, *size));
            return Next::Streamed { number, place, input };
        }
        match state.frames.next(std::mem::take(spare)) {
            Ok((place, bytes)) => Next::Frame(Taken { number, place, bytes: Ok(bytes) }),
            Err(error) => {
                state.failed = Some(error);
                Next::End
            }
        }
    }

    /// No group of a stream is at a place that can be read again.
    fn open(&self, _: Place) -> Box<dyn Read + '_> {
        Box::new(io::empty())
    }

    fn known(&self, _: usize) -> Option<[u8; 32]> {
        None
    }

    /// The trailer comes last, and is made of all of them.
    fn wants_digest(&self, _: Encoding) -> bool {
        true
    }

    fn tell(&self, number: usize, digest: Digest) {
        lock(&self.digests).insert(number, digest);
    }

    fn keep(&self, member: &StoredAt, decoded: &Decoded) {
        let blob = member.name.starts_with(crate::members::BLOBS);
        let mut content = decoded.pieces().flatten().skip(tar_header::BLOCK as usize);
        // White space may stand before a JSON text (RFC 8259, 2). A key that images are checked with is PEM, and small.
        let is_document = |first: Option<&u8>| match first {
            Some(b'{') => true,
            Some(b'-') => member.size <= PEM_LIMIT,
            _ => false,
        };
        if blob && !is_document(content.find(|byte| !b" \t\r\n".contains(byte))) {
            return;
        }
        let size = member.size as usize;
        let mut documents = lock(&self.documents);
        if documents.1 + size > KEPT {
            return;
        }
        let mut content = decoded.pieces().collect::<Vec<_>>().concat();
        content.drain(..tar_header::BLOCK as usize);
        content.truncate(size);
        documents.1 += size;
        documents.0.insert(member.name.clone(), content);
    }

    fn at(&self, offset: u64) -> (PathBuf, u64) {
        (self.name.to_owned(), offset)
    }

    fn total(&self) -> u64 {
        0
    }
}

impl<R: Read + Send> Stream<'_, R> {
    /// Reads what is behind the frames, and holds it against what they make it.
    fn finish(&self, check: Check<'_>, bundle_id: Digest) -> Result<Verified, DamageReport> {
        let mut state = lock(&self.state);
        let name = self.name;
        if let Some(error) = state.failed.take() {
            let at = state.frames.offset;
            drop(state);
            match error {
                ArchiveError::Truncated { .. } => check.report_cut("frames", at, error.to_string()),
                _ => check.report("frames", at, 0, error.to_string()),
            }
            return check.finish(name, at);
        }
        let (trailer, table) = state.expected(self.signature_frame, self.format, &lock(&self.digests));
        let mut wrong = Vec::new();
        for ((place, found), number) in state.frames.seen.volumes.iter().zip(1..) {
            let wanted = VolumeHeader { format: self.format, bundle_id, number, offset: place.offset };
            if number > volume_header::MAX || wanted.encode() != found[..] {
                wrong.push(("volume header", place.offset, place.len as usize));
            }
        }
        if state.frames.seen.volumes.first().is_some_and(|(place, _)| place.offset != 0) {
            wrong.push(("volume header", 0, volume_header::LEN));
        }
        let mut found = Vec::new();
        let wanted = trailer.len() + table.len();
        let at = state.frames.offset;
        // One byte more: nothing may follow. A volume that holds nothing but the tail begins with its header.
        let read = (&mut state.frames.reader).take(wanted as u64 + 1).read_to_end(&mut found);
        drop(state);
        match read {
            Err(e) => return self.failed(check, name, at, &e),
            Ok(_) if found.len() < wanted && ends_as_a_bundle(&found) => {
                wrong.push(("trailer", at, found.len()));
            }
            Ok(_) if found.len() < wanted => {
                let problem = "it is truncated: it ends before its seek table; copy it again".to_owned();
                check.report_cut("end of file", at + found.len() as u64, problem);
            }
            Ok(_) => {
                if found[..trailer.len()] != trailer {
                    wrong.push(("trailer", at, trailer.len()));
                }
                if found[trailer.len()..] != table {
                    wrong.push(("seek table", at + trailer.len() as u64, table.len()));
                }
            }
        }
        for (part, offset, len) in wrong {
            check.report(part, offset, len as u64, "is not the one of these frames".to_owned());
        }
        check.count(found.len() as u64);
        check.finish(name, at + found.len() as u64)
    }

    fn failed(&self, check: Check<'_>, name: &Path, at: u64, error: &io::Error) -> Result<Verified, DamageReport> {
        check.report("end of file", at, 0, format!("cannot be read: {error}"));
        check.finish(name, at)
    }
}
