//! Opening a bundle: manifest, signature slot and layout, within limits, and all members mapped to the frames.

use std::ops::Range;
use std::path::{Path, PathBuf};

use kubexm_spec::{Digest, Manifest};
use serde::de::DeserializeOwned;

use crate::documents::{DOCUMENT_LIMIT, read_document};
use crate::frame::{self, Decoder, Place};
use crate::layout::{Layout, PlacedGroup};
use crate::members::{self, InGroup, StoredAt};
use crate::signature_slot::{self, SIGNATURE_ROOM, Signature};
use crate::source::{Origin, io_error};
use crate::trailer::Trailer;
use crate::{ArchiveError, Encoding, tar_header, trailer};

/// The content of the first three members.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) manifest: Manifest,
    pub(crate) manifest_json: Vec<u8>,
    pub(crate) layout: Layout,
    pub(crate) layout_json: Vec<u8>,
    pub(crate) signatures: Vec<Signature>,
    /// Why the signature room could not be read, where that is put up with.
    pub(crate) torn_room: Option<String>,
    /// All members of the file, laid over its frames.
    pub(crate) members: Vec<StoredAt>,
    /// Number of the only frame that the trailer has no digest of.
    pub(crate) signature_frame: usize,
}

impl Head {
    /// How many frames with content the file has, the end of the archive included.
    pub(crate) fn frames(&self) -> usize {
        self.members.last().map_or(0, StoredAt::end_frame) + 1
    }

    /// The members that share a frame, by their places in [`Self::members`]; none of a frame that is one member's alone.
    pub(crate) fn group_of(&self, frame: usize) -> Range<usize> {
        let first = self.members.partition_point(|member| member.first_frame < frame);
        let end = self.members.partition_point(|member| member.first_frame <= frame);
        let grouped = self.members.get(first).is_some_and(|member| member.group.is_some());
        if grouped { first..end } else { first..first }
    }

    /// The member that a frame belongs to, by its place in [`Self::members`]; nothing for the end of the archive.
    pub(crate) fn member_of(&self, frame: usize) -> Option<usize> {
        let at = self.members.partition_point(|member| member.first_frame <= frame).checked_sub(1)?;
        self.members.get(at).filter(|member| frame < member.end_frame()).map(|_| at)
    }
}

/// The frames that the head lies in, one after the other.
pub(crate) trait HeadFrames {
    /// The frame `number`; asked for in order, each once. Nothing when there are no more.
    fn frame(&mut self, number: usize) -> Result<Option<(Place, Vec<u8>)>, ArchiveError>;
    /// A byte of the whole in words: the file, and the byte in it.
    fn at(&self, offset: u64) -> (PathBuf, u64);
}

/// Whether a signature room that cannot be read is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It must be whole.
    Whole,
    /// It is about to be rewritten.
    MayBeTorn,
}

/// Frames read at the offsets of a seek table.
pub(crate) struct Table<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) frames: &'a [Place],
}

impl HeadFrames for Table<'_> {
    fn frame(&mut self, number: usize) -> Result<Option<(Place, Vec<u8>)>, ArchiveError> {
        let Some(place) = self.frames.get(number).copied() else { return Ok(None) };
        Ok(Some((place, self.origin.read(place.offset, place.len as usize)?)))
    }

    fn at(&self, offset: u64) -> (PathBuf, u64) {
        self.origin.at(offset)
    }
}

/// Reads the head of a bundle whose tail is known.
pub(crate) fn head(origin: &Origin, frames: &[Place], trailer: &Trailer, room: Room) -> Result<Head, ArchiveError> {
    let decoder = Decoder::new().map_err(io_error("prepare to read", &origin.name))?;
    let mut table = Table { origin, frames };
    let known = Some((frames, trailer));
    let opening =
        Opening { name: &origin.name, feed: &mut table, known, room, decoder, signature_frame: usize::MAX, offset: 0 };
    opening.head()
}

/// Reads the head from frames that come one after the other; nothing is known of what follows.
pub(crate) fn head_of_stream(name: &Path, feed: &mut dyn HeadFrames) -> Result<Head, ArchiveError> {
    let decoder = Decoder::new().map_err(io_error("prepare to read", name))?;
    Opening { name, feed, known: None, room: Room::Whole, decoder, signature_frame: usize::MAX, offset: 0 }.head()
}

/// A bundle whose head is being read.
struct Opening<'a> {
    name: &'a Path,
    feed: &'a mut dyn HeadFrames,
    /// All frames with content, and the trailer, where the tail was read before.
    known: Option<(&'a [Place], &'a Trailer)>,
    room: Room,
    decoder: Decoder,
    /// Beyond all frames until the end of manifest.json is known.
    signature_frame: usize,
    /// Of the last frame that was read.
    offset: u64,
}

impl Opening<'_> {
    fn head(mut self) -> Result<Head, ArchiveError> {
        let (manifest_at, manifest_json) = self.document(members::MANIFEST, 0)?;
        let (signature_at, signatures, torn_room) = self.signatures(manifest_at.end_frame())?;
        let (layout_at, layout_json) = self.document(members::LAYOUT, signature_at.end_frame())?;

        let manifest: Manifest = self.parse(members::MANIFEST, &manifest_json)?;
        let layout: Layout = self.parse(members::LAYOUT, &layout_json)?;
        if layout.format != manifest.format || self.known.is_some_and(|(_, trailer)| trailer.format != manifest.format)
        {
            return Err(self.damaged(members::LAYOUT, "states another format than manifest.json or the trailer"));
        }
        manifest.check_fields().map_err(|problem| self.damaged(members::MANIFEST, &problem))?;
        if manifest.canonical_json().ok().as_ref() != Some(&manifest_json) {
            return Err(self.damaged(members::MANIFEST, "is not canonical JSON"));
        }
        if layout.canonical_json().ok().as_ref() != Some(&layout_json) {
            return Err(self.damaged(members::LAYOUT, "is not canonical JSON"));
        }
        let mut all = vec![manifest_at, signature_at, layout_at];
        self.place_members(&manifest, &layout, &mut all)?;
        let signature_frame = self.signature_frame;
        Ok(Head { manifest, manifest_json, layout, layout_json, signatures, torn_room, members: all, signature_frame })
    }

    fn signatures(&mut self, first: usize) -> Result<(StoredAt, Vec<Signature>, Option<String>), ArchiveError> {
        let read = self.document(members::SIGNATURE, first).and_then(|(stored, room)| {
            let signatures =
                signature_slot::decode(&room).map_err(|problem| self.damaged(members::SIGNATURE, &problem))?;
            Ok((stored, signatures, None))
        });
        match (read, self.room) {
            (Err(ArchiveError::Damaged { problem, .. }), Room::MayBeTorn) => {
                let stored = StoredAt::new(members::SIGNATURE, SIGNATURE_ROOM as u64, None, Encoding::Raw, first)
                    .ok_or_else(|| self.damaged(members::SIGNATURE, "its size is out of range"))?;
                self.fits(&stored)?;
                Ok((stored, Vec::new(), Some(problem)))
            }
            (read, _) => read,
        }
    }

    /// Reads a member of the head, whose size only its tar header states.
    fn document(&mut self, name: &str, first: usize) -> Result<(StoredAt, Vec<u8>), ArchiveError> {
        let (digest, mut content) = self.content(name, first)?;
        let size = content
            .get(..tar_header::BLOCK as usize)
            .and_then(|header| tar_header::size_of(name, header))
            .ok_or_else(|| self.damaged(name, "the tar header is not the expected one"))?;
        let limit = if name == members::SIGNATURE { SIGNATURE_ROOM as u64 } else { DOCUMENT_LIMIT };
        if size > limit {
            return Err(ArchiveError::TooLarge { path: self.name.to_owned(), name: name.to_owned(), size, limit });
        }
        let mut stored = StoredAt::new(name, size, None, Encoding::Raw, first)
            .ok_or_else(|| self.damaged(name, "its size is out of range"))?;
        self.fits(&stored)?;
        if content.len() != stored.input_of(0) as usize {
            return Err(self.damaged(name, "the frame does not have the member's size"));
        }
        if first == 0 {
            self.signature_frame = stored.end_frame();
        }
        self.held_against_trailer(name, first, digest)?;
        for number in 1..stored.frames {
            let (digest, more) = self.content(name, first + number)?;
            if more.len() != stored.input_of(number) as usize {
                return Err(self.damaged(name, "the frame does not have the member's size"));
            }
            self.held_against_trailer(name, first + number, digest)?;
            content.extend_from_slice(&more);
        }
        content.drain(..tar_header::BLOCK as usize);
        if content.split_off(content.len().min(size as usize)).iter().any(|byte| *byte != 0) {
            return Err(self.damaged(name, "the padding is not zeros"));
        }
        if name != members::SIGNATURE {
            stored.sha256 = Some(Digest::of(&content));
        }
        Ok((stored, content))
    }

    /// Digest and content of one raw frame.
    fn content(&mut self, name: &str, number: usize) -> Result<(Digest, Vec<u8>), ArchiveError> {
        // Only a group's is larger, which no frame of the head is: it is not read.
        let known = self.known.and_then(|(frames, _)| frames.get(number));
        if known.is_some_and(|known| known.size > frame::INPUT || known.len > frame::max_len()) {
            return Err(self.table_damaged(name));
        }
        let (place, mut bytes) = self.feed.frame(number)?.ok_or_else(|| self.damaged(name, "the frame is missing"))?;
        self.offset = place.offset;
        let digest = frame::digest(&bytes);
        // A frame that is right by itself shows that the seek table is what tells another size.
        let own = frame::raw_size(&bytes).filter(|own| *own != place.size);
        let own =
            own.filter(|own| self.decoder.decode(Encoding::Raw, &mut bytes.clone(), *own, &mut Vec::new()).is_ok());
        if own.is_some() {
            return Err(self.table_damaged(name));
        }
        let decoded = self
            .decoder
            .decode(Encoding::Raw, &mut bytes, place.size, &mut Vec::new())
            .map_err(|problem| self.damaged(name, &problem))?;
        Ok((digest, decoded.pieces().collect::<Vec<_>>().concat()))
    }

    /// The table is behind the trailer, which is behind the frames.
    fn table_damaged(&self, name: &str) -> ArchiveError {
        let problem = format!("states another size than a frame of {name} has");
        let Some((frames, trailer)) = self.known else { return self.damaged(name, &problem) };
        let end = frames.last().map_or(0, |p| p.offset + u64::from(p.len));
        self.damaged_at("seek table", end + trailer::len(trailer.digests.len()) as u64, &problem)
    }

    fn held_against_trailer(&self, name: &str, number: usize, digest: Digest) -> Result<(), ArchiveError> {
        let known = self.known.and_then(|(_, trailer)| trailer.digest_of(number, self.signature_frame));
        if known.is_some_and(|known| known != digest.as_bytes()) {
            return Err(self.damaged(name, "the frame does not have the digest that the trailer states"));
        }
        Ok(())
    }

    /// The frames that the seek table has there are those that a member of this size has.
    fn fits(&self, member: &StoredAt) -> Result<(), ArchiveError> {
        let Some((frames, _)) = self.known else { return Ok(()) };
        let wrong = |number: usize, problem: &str| {
            let end = frames.last().map_or(0, |p| p.offset + u64::from(p.len));
            self.damaged_at(&member.name, frames.get(number).map_or(end, |p| p.offset), problem)
        };
        let found = frames
            .get(member.first_frame..member.end_frame())
            .ok_or_else(|| wrong(member.first_frame, "the seek table has fewer frames than the member"))?;
        for (number, place) in found.iter().enumerate() {
            let input = member.input_of(number);
            let raw = member.encoding == Encoding::Raw;
            if place.size != input || (raw && place.len != frame::raw_len(input)) || place.len > frame::bound(input) {
                return Err(self.table_damaged(&member.name));
            }
        }
        Ok(())
    }

    /// Lays the manifest's members over the frames, up to the very last one.
    fn place_members(&self, manifest: &Manifest, layout: &Layout, all: &mut Vec<StoredAt>) -> Result<(), ArchiveError> {
        if !layout.recoded.is_empty() {
            let (path, feature) = (self.name.to_owned(), "recoded members");
            return Err(ArchiveError::Unsupported { path, feature });
        }
        members::check(&manifest.members).map_err(|problem| self.damaged(members::MANIFEST, &problem))?;
        layout.check(&manifest.members).map_err(|problem| self.damaged(members::LAYOUT, &problem))?;
        let mut groups = layout.placed_groups(&manifest.members).into_iter().peekable();
        // Of the group that is being placed: where it ends among the manifest's members, its frame, and what is placed so far.
        let mut current: Option<(PlacedGroup, usize, u64)> = None;
        let mut stored = layout.members.iter().peekable();
        for (number, member) in manifest.members.iter().enumerate() {
            let Some(here) = stored.next_if(|here| here.name == member.name) else { continue };
            current = current.filter(|(group, ..)| group.listed.contains(&number));
            let mut first = all.last().map_or(0, StoredAt::end_frame);
            while groups.next_if(|group| group.listed.end <= number).is_some() {}
            if let Some(group) = groups.next_if(|group| group.listed.contains(&number)) {
                current = Some((group, first, 0));
            }
            if let Some((_, frame, _)) = &current {
                first = *frame;
            }
            let mut at = StoredAt::new(&member.name, member.size, Some(member.sha256), here.encoding, first)
                .ok_or_else(|| self.damaged(members::MANIFEST, "a member's size is out of range"))?;
            if let Some((group, _, offset)) = &mut current {
                at = at.in_group(InGroup { offset: *offset, len: group.len });
                *offset += members::stream_len(member.size).unwrap_or_default();
            }
            self.fits(&at)?;
            all.push(at);
        }
        if let Some(size) = layout.sources {
            let first = all.last().map_or(0, StoredAt::end_frame);
            let at = StoredAt::new(members::SOURCES, size, None, Encoding::Raw, first)
                .ok_or_else(|| self.damaged(members::LAYOUT, "the size of sources.json is out of range"))?;
            self.fits(&at)?;
            all.push(at);
        }
        let end = all.last().map_or(0, StoredAt::end_frame);
        match self.known.map(|(frames, _)| (frames, frames.get(end..))) {
            None => Ok(()),
            Some((_, Some([last]))) if last.size == members::END && last.len == frame::raw_len(members::END) => Ok(()),
            Some((_, Some([_]))) => Err(self.table_damaged(members::END_PART)),
            Some((frames, _)) => {
                let offset = frames.get(end).or(frames.last()).map_or(0, |place| place.offset);
                Err(self.damaged_at(members::END_PART, offset, "the seek table has other frames than the members"))
            }
        }
    }

    /// Reads a document whose bytes are known to be as they were written.
    fn parse<T: DeserializeOwned>(&self, name: &str, json: &[u8]) -> Result<T, ArchiveError> {
        read_document(json).map_err(|e| match e.is_newer() {
            true => ArchiveError::Newer { path: self.name.to_owned(), what: format!("{name}: {e}") },
            false => self.damaged(name, &e.to_string()),
        })
    }

    fn damaged(&self, part: &str, problem: &str) -> ArchiveError {
        self.damaged_at(part, self.offset, problem)
    }

    fn damaged_at(&self, part: &str, offset: u64, problem: &str) -> ArchiveError {
        let (path, offset) = self.feed.at(offset);
        ArchiveError::Damaged { path, part: part.to_owned(), offset, problem: problem.to_owned() }
    }
}
