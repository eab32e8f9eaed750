//! Opening a bundle: manifest, signature room and layout, within limits, and all members laid over the frames.

use std::fs::File;
use std::path::Path;

use kubexm_spec::manifest::FORMAT;
use kubexm_spec::{Digest, Manifest};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::frame::{self, Decoder, Place};
use crate::layout::Layout;
use crate::members::{self, StoredAt};
use crate::partial::io_error;
use crate::signature_room::{self, Signature};
use crate::trailer::Trailer;
use crate::{ArchiveError, Encoding, tail, tar_header};

/// The most bytes that manifest.json or layout.json may have: a bundle of 100 000 members needs a quarter of it.
const DOCUMENT_LIMIT: u64 = 64 << 20;

/// What the first three members say.
pub(crate) struct Head {
    pub(crate) manifest: Manifest,
    pub(crate) manifest_json: Vec<u8>,
    pub(crate) layout: Layout,
    pub(crate) layout_json: Vec<u8>,
    pub(crate) signatures: Vec<Signature>,
    /// All members of the file, laid over its frames.
    pub(crate) members: Vec<StoredAt>,
    /// Number of the only frame that the trailer has no digest of.
    pub(crate) signature_frame: usize,
}

/// Reads the head of a file of which the tail is known. `frames` are all but the trailer.
pub(crate) fn head(path: &Path, file: &File, frames: &[Place], trailer: &Trailer) -> Result<Head, ArchiveError> {
    let decoder = Decoder::new().map_err(io_error("prepare to read", path))?;
    Opening { path, file, frames, trailer, decoder, signature_frame: usize::MAX }.head()
}

/// A bundle of which only the tail is known yet.
struct Opening<'a> {
    path: &'a Path,
    file: &'a File,
    frames: &'a [Place],
    trailer: &'a Trailer,
    decoder: Decoder,
    /// Beyond all frames until the end of manifest.json is known.
    signature_frame: usize,
}

impl Opening<'_> {
    fn head(mut self) -> Result<Head, ArchiveError> {
        let (manifest_at, manifest_json) = self.document(members::MANIFEST, 0)?;
        let (signature_at, room) = self.document(members::SIGNATURE, manifest_at.end_frame())?;
        let signatures = signature_room::decode(&room)
            .map_err(|problem| self.damaged(members::SIGNATURE, self.signature_frame, &problem))?;
        let (layout_at, layout_json) = self.document(members::LAYOUT, signature_at.end_frame())?;

        let manifest: Manifest = self.parse(members::MANIFEST, 0, &manifest_json)?;
        let layout: Layout = self.parse(members::LAYOUT, layout_at.first_frame, &layout_json)?;
        if manifest.canonical_json().ok().as_ref() != Some(&manifest_json) {
            return Err(self.damaged(members::MANIFEST, 0, "is not canonical JSON"));
        }
        if layout.canonical_json().ok().as_ref() != Some(&layout_json) {
            return Err(self.damaged(members::LAYOUT, layout_at.first_frame, "is not canonical JSON"));
        }
        let mut all = vec![manifest_at, signature_at, layout_at];
        self.place_members(&manifest, &layout, &mut all)?;
        let signature_frame = self.signature_frame;
        Ok(Head { manifest, manifest_json, layout, layout_json, signatures, members: all, signature_frame })
    }

    /// Reads a member of the head, whose size only its tar header tells.
    fn document(&mut self, name: &str, first: usize) -> Result<(StoredAt, Vec<u8>), ArchiveError> {
        let (digest, mut content) = self.content(name, first)?;
        let size = content
            .get(..tar_header::BLOCK as usize)
            .and_then(|header| tar_header::size_of(name, header))
            .ok_or_else(|| self.damaged(name, first, "the tar header is not the one that stands here"))?;
        let limit = if name == members::SIGNATURE { signature_room::SIGNATURE_ROOM as u64 } else { DOCUMENT_LIMIT };
        if size > limit {
            return Err(ArchiveError::TooLarge { path: self.path.to_owned(), name: name.to_owned(), size, limit });
        }
        let mut stored = StoredAt::new(name, size, None, Encoding::Raw, first)
            .ok_or_else(|| self.damaged(name, first, "its size is beyond all bounds"))?;
        self.fits(&stored)?;
        if first == 0 {
            self.signature_frame = stored.end_frame();
        }
        self.held_against_trailer(name, first, digest)?;
        for number in first + 1..stored.end_frame() {
            let (digest, more) = self.content(name, number)?;
            self.held_against_trailer(name, number, digest)?;
            content.extend_from_slice(&more);
        }
        content.drain(..tar_header::BLOCK as usize);
        if content.split_off(content.len().min(size as usize)).iter().any(|byte| *byte != 0) {
            return Err(self.damaged(name, stored.end_frame() - 1, "the padding is not zeros"));
        }
        if name != members::SIGNATURE {
            stored.sha256 = Some(Digest::of(&content));
        }
        Ok((stored, content))
    }

    /// Digest and content of one raw frame.
    fn content(&mut self, name: &str, number: usize) -> Result<(Digest, Vec<u8>), ArchiveError> {
        let place = *self.frames.get(number).ok_or_else(|| self.damaged(name, number, "the frame is missing"))?;
        let bytes =
            tail::read_exact(self.file, place.offset, place.len as usize).map_err(io_error("read", self.path))?;
        let digest = frame::digest(&bytes);
        let decoded = self
            .decoder
            .decode(Encoding::Raw, bytes, place.size, Vec::new())
            .map_err(|problem| self.damaged(name, number, &problem))?;
        Ok((digest, decoded.pieces().collect::<Vec<_>>().concat()))
    }

    fn held_against_trailer(&self, name: &str, number: usize, digest: Digest) -> Result<(), ArchiveError> {
        match self.trailer.digest_of(number, self.signature_frame) {
            Some(known) if known != digest.as_bytes() => {
                Err(self.damaged(name, number, "the frame does not have the digest that the trailer says"))
            }
            _ => Ok(()),
        }
    }

    /// The frames that the seek table has there are those that a member of this size has.
    fn fits(&self, member: &StoredAt) -> Result<(), ArchiveError> {
        let found = self.frames.get(member.first_frame..member.end_frame()).ok_or_else(|| {
            self.damaged(&member.name, member.first_frame, "the seek table has fewer frames than the member")
        })?;
        for (number, place) in found.iter().enumerate() {
            let input = member.input_of(number);
            let raw = member.encoding == Encoding::Raw;
            if place.size != input || (raw && place.len != frame::raw_len(input)) {
                let problem = "the seek table tells another size than the member's frame has";
                return Err(self.damaged(&member.name, member.first_frame + number, problem));
            }
        }
        Ok(())
    }

    /// Lays the manifest's members over the frames, up to the very last one.
    fn place_members(&self, manifest: &Manifest, layout: &Layout, all: &mut Vec<StoredAt>) -> Result<(), ArchiveError> {
        let not_built = |feature| ArchiveError::NotBuiltYet { path: self.path.to_owned(), feature };
        if layout.base.is_some() || !layout.left_out.is_empty() {
            return Err(not_built("deltas"));
        }
        if !layout.recoded.is_empty() {
            return Err(not_built("recoded members"));
        }
        members::check(&manifest.members).map_err(|problem| self.damaged(members::MANIFEST, 0, &problem))?;
        let layout_frame = all.last().map_or(0, |m| m.first_frame);
        let same = layout.members.len() == manifest.members.len()
            && layout.members.iter().zip(&manifest.members).all(|(a, b)| a.name == b.name);
        if !same {
            return Err(self.damaged(members::LAYOUT, layout_frame, "lists other members than the manifest"));
        }
        for (member, stored) in manifest.members.iter().zip(&layout.members) {
            let first = all.last().map_or(0, StoredAt::end_frame);
            let at = StoredAt::new(&member.name, member.size, Some(member.sha256), stored.encoding, first)
                .ok_or_else(|| self.damaged(members::MANIFEST, 0, "a member's size is beyond all bounds"))?;
            self.fits(&at)?;
            all.push(at);
        }
        let end = all.last().map_or(0, StoredAt::end_frame);
        match self.frames.get(end..) {
            Some([last]) if last.size == members::END && last.len == frame::raw_len(members::END) => Ok(()),
            _ => Err(self.damaged(members::END_PART, end, "the seek table has other frames than the members")),
        }
    }

    /// Reads a document whose bytes are known to be as they were written: what does not parse was written by a program
    /// that knows more than this one.
    fn parse<T: DeserializeOwned>(&self, name: &str, frame: usize, json: &[u8]) -> Result<T, ArchiveError> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let newer = |what: String| ArchiveError::Newer { path: self.path.to_owned(), what: format!("{name}: {what}") };
        let Format { format } =
            serde_json::from_slice(json).map_err(|e| self.damaged(name, frame, &format!("tells no format: {e}")))?;
        if format > FORMAT {
            return Err(newer(format!("format {format}")));
        }
        serde_json::from_slice(json).map_err(|e| newer(e.to_string()))
    }

    fn damaged(&self, part: &str, frame: usize, problem: &str) -> ArchiveError {
        let end = self.frames.last().map_or(0, |p| p.offset + u64::from(p.len));
        let offset = self.frames.get(frame).map_or(end, |p| p.offset);
        ArchiveError::Damaged { path: self.path.to_owned(), part: part.to_owned(), offset, problem: problem.to_owned() }
    }
}
