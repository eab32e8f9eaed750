//! A bundle read once, from start to end, from an input that cannot seek: standard input.

mod group_frame;

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use kubexm_spec::{Digest, Manifest};

use self::group_frame::GroupFrame;
use crate::frame::{self, Decoded, Place};
use crate::members::StoredAt;
use crate::open::{self, Head, HeadFrames};
use crate::read::seek_table_of;
use crate::source::io_error;
use crate::trailer::Trailer;
use crate::verify::{Check, Depth, Feed, Taken, lock};
use crate::volume_header::{self, VolumeHeader};
use crate::{
    ArchiveError, DamageReport, Documents, Encoding, Layout, Signature, Verified, seek_table, tar_header, walk,
};

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

/// Whether the last bytes are those of a seek table.
fn ends_as_a_bundle(bytes: &[u8]) -> bool {
    bytes.last_chunk::<{ seek_table::FOOTER }>().is_some_and(|footer| seek_table::frames_in(footer).is_some())
}

/// Frames in the order they come.
struct FrameReader<'a, R> {
    reader: BufReader<R>,
    name: &'a Path,
    offset: u64,
    seen: Seen,
}

/// Where everything was that has passed.
#[derive(Default)]
struct Seen {
    frames: Vec<Place>,
    volumes: Vec<(Place, Vec<u8>)>,
    head_digests: Vec<Digest>,
}

impl<R: Read> FrameReader<'_, R> {
    /// Looks at the first bytes without taking them.
    fn demand_bundle(&mut self) -> Result<(), ArchiveError> {
        let start = self.reader.fill_buf().map_err(io_error("read", self.name))?;
        let reason = if start.is_empty() {
            "nothing came"
        } else if !start.starts_with(&volume_header::MAGIC) && !frame::begins_raw(&start[..start.len().min(5)]) {
            "it does not begin like a bundle"
        } else {
            return Ok(());
        };
        Err(ArchiveError::NotABundle { path: self.name.to_owned(), reason: reason.to_owned() })
    }

    /// The next frame with content, into an empty buffer; headers of volumes before it are noted.
    fn next(&mut self, mut spare: Vec<u8>) -> Result<(Place, Vec<u8>), ArchiveError> {
        self.headers()?;
        spare.clear();
        self.take(&mut spare, 4)?;
        let size = self.blocks(&mut spare)?;
        let place = self.place(&spare, size);
        self.seen.frames.push(place);
        Ok((place, spare))
    }

    /// Takes the headers of volumes that come next.
    fn headers(&mut self) -> Result<(), ArchiveError> {
        while self.reader.fill_buf().map_err(io_error("read", self.name))?.first() == volume_header::MAGIC.first() {
            let mut header = Vec::new();
            self.take(&mut header, volume_header::LEN)?;
            let place = self.place(&header, 0);
            let Ok(found) = VolumeHeader::decode(&header) else {
                return Err(self.damaged("volume header", place.offset, "it is not that of a volume"));
            };
            // Numbers end at 999, so no stream can fill the memory with headers.
            if found.number as usize != self.seen.volumes.len() + 1 {
                let problem = format!("it is that of volume {}, not of {}", found.number, self.seen.volumes.len() + 1);
                return Err(self.damaged("volume header", place.offset, &problem));
            }
            self.seen.volumes.push((place, header));
        }
        Ok(())
    }

    /// What follows the magic number of a frame with content: header, blocks, checksum. The size is the one in the
    /// header.
    fn blocks(&mut self, frame: &mut Vec<u8>) -> Result<u32, ArchiveError> {
        let at = self.offset;
        let wrong = |this: &Self| this.damaged("frames", at, "no frame of a bundle is here");
        self.take(frame, 1)?;
        let Some(header) = walk::header_len(frame) else { return Err(wrong(self)) };
        self.take(frame, header - 5)?;
        let size = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten();
        let size = size.and_then(|size| u32::try_from(size).ok()).filter(|size| (1..=frame::INPUT).contains(size));
        let Some(size) = size else { return Err(wrong(self)) };
        loop {
            let block = self.take(frame, 3)?;
            let bits = u32::from_le_bytes([block[0], block[1], block[2], 0]);
            let len = if bits >> 1 & 3 == 1 { 1 } else { (bits >> 3) as usize };
            if frame.len() + len + 4 > frame::max_len() as usize {
                return Err(wrong(self));
            }
            self.take(frame, len)?;
            if bits & 1 == 1 {
                break;
            }
        }
        // The checksum, which every frame of a bundle has.
        self.take(frame, 4)?;
        Ok(size)
    }

    /// Appends so many bytes.
    fn take<'f>(&mut self, frame: &'f mut Vec<u8>, len: usize) -> Result<&'f [u8], ArchiveError> {
        let start = frame.len();
        let found = (&mut self.reader).take(len as u64).read_to_end(frame).map_err(io_error("read", self.name))?;
        if found < len {
            let at = self.offset + frame.len() as u64;
            // The very end has come: what runs past it does so because it tells another length than it has.
            if ends_as_a_bundle(frame) {
                return Err(self.damaged("frames", self.offset, "no frame of a bundle is here"));
            }
            return Err(ArchiveError::Truncated { path: self.name.to_owned(), at });
        }
        Ok(&frame[start..])
    }

    fn place(&mut self, frame: &[u8], size: u32) -> Place {
        let place = Place { offset: self.offset, len: frame.len() as u32, size };
        self.offset += frame.len() as u64;
        place
    }

    fn damaged(&self, part: &str, offset: u64, problem: &str) -> ArchiveError {
        let (path, part, problem) = (self.name.to_owned(), part.to_owned(), problem.to_owned());
        ArchiveError::Damaged { path, part, offset, problem }
    }
}

impl<R: Read> HeadFrames for FrameReader<'_, R> {
    fn frame(&mut self, _: usize) -> Result<Option<(Place, Vec<u8>)>, ArchiveError> {
        let (place, bytes) = self.next(Vec::new())?;
        self.seen.head_digests.push(frame::digest(&bytes));
        Ok(Some((place, bytes)))
    }

    fn at(&self, offset: u64) -> (PathBuf, u64) {
        (self.name.to_owned(), offset)
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
    /// Of the frames behind the head.
    digests: Mutex<HashMap<usize, Digest>>,
    documents: Mutex<(HashMap<String, Vec<u8>>, usize)>,
}

struct State<'a, R> {
    frames: FrameReader<'a, R>,
    /// Nothing can be read behind this.
    failed: Option<ArchiveError>,
}

impl<R: Read + Send> Feed for Stream<'_, R> {
    fn next(&self, spare: Vec<u8>) -> Option<Taken<'_>> {
        let mut state = lock(&self.state);
        let number = state.frames.seen.frames.len();
        if number >= self.total || state.failed.is_some() {
            return None;
        }
        if let Some(size) = self.groups.get(&number) {
            if let Err(error) = state.frames.headers() {
                state.failed = Some(error);
                return None;
            }
            let place = Place { offset: state.frames.offset, len: 0, size: *size };
            let group: Box<dyn Read> = Box::new(GroupFrame::new(state, *size));
            return Some(Taken { number, place, bytes: Ok(spare), group: Some(group) });
        }
        match state.frames.next(spare) {
            Ok((place, bytes)) => Some(Taken { number, place, bytes: Ok(bytes), group: None }),
            Err(error) => {
                state.failed = Some(error);
                None
            }
        }
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

impl<R: Read> State<'_, R> {
    /// The trailer and the seek table that the frames make, where a volume's header is before them too.
    fn expected(
        &mut self,
        signature_frame: usize,
        format: u32,
        digests: &HashMap<usize, Digest>,
    ) -> (Vec<u8>, Vec<u8>) {
        // The tail may stand alone in a volume of its own.
        if self.frames.reader.fill_buf().is_ok_and(|next| next.starts_with(&volume_header::MAGIC)) {
            let mut header = Vec::new();
            if self.frames.take(&mut header, volume_header::LEN).is_ok() {
                let place = self.frames.place(&header, 0);
                self.frames.seen.volumes.push((place, header));
            }
        }
        let seen = &self.frames.seen;
        let digests: Vec<[u8; 32]> = (0..seen.frames.len())
            .filter(|number| *number != signature_frame)
            .map(|number| match seen.head_digests.get(number) {
                Some(digest) => *digest.as_bytes(),
                None => digests.get(&number).map_or([0; 32], |digest| *digest.as_bytes()),
            })
            .collect();
        let volumes: Vec<Place> = seen.volumes.iter().map(|(place, _)| *place).collect();
        let trailer_len = crate::trailer::len(digests.len());
        let table = seek_table_of(&seen.frames, &volumes, trailer_len);
        let total = self.frames.offset + (trailer_len + table.len()) as u64;
        let trailer = Trailer { format, volumes: volumes.len().max(1) as u32, total, digests };
        (trailer.encode(), table)
    }
}
