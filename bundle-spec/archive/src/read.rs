//! Opening a bundle: structure, manifest and layout, within limits, before anything in it is used.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubexm_spec::manifest::FORMAT;
use kubexm_spec::{Digest, Manifest};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::frame::{self, Decoder, Place};
use crate::layout::Layout;
use crate::member_reader::MemberReader;
use crate::members::{self, StoredAt};
use crate::partial::io_error;
use crate::signature_room::{self, Signature, SignatureState};
use crate::tail::{self, Tail};
use crate::trailer::Trailer;
use crate::{ArchiveError, Encoding, seek_table, tar_header};

/// The most bytes that manifest.json or layout.json may have: a bundle of 100 000 members needs a quarter of it.
const DOCUMENT_LIMIT: u64 = 64 << 20;

/// An opened bundle. Cheap to clone; readers of members may be used from several threads at once.
///
/// Opening proves that the structure holds, not that the content is whole ([`crate::verify`]) or by whom it is.
#[derive(Clone, Debug)]
pub struct Bundle(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) size: u64,
    /// Every frame but the trailer and the seek table.
    pub(crate) frames: Vec<Place>,
    pub(crate) trailer: Trailer,
    /// Number of the only frame that the trailer has no digest of.
    pub(crate) signature_frame: usize,
    /// All members, in the order of the file.
    pub(crate) members: Vec<StoredAt>,
    by_name: HashMap<String, usize>,
    manifest: Manifest,
    manifest_digest: Digest,
    layout: Layout,
    bundle_id: Digest,
    signatures: Vec<Signature>,
}

impl Bundle {
    /// Opens a bundle that is one whole file.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        let file = File::open(path).map_err(io_error("open", path))?;
        let metadata = file.metadata().map_err(io_error("examine", path))?;
        if !metadata.is_file() {
            let reason = if metadata.is_dir() { "it is a folder" } else { "it is no regular file" };
            return Err(ArchiveError::NotABundle { path: path.to_owned(), reason: reason.into() });
        }
        let size = metadata.len();
        let Tail { mut places, trailer } = Tail::read(&file, size, path)?;
        places.pop(); // The trailer itself.
        Opening { path, file: &file, frames: &places, trailer: &trailer, decoder: decoder(path)? }.head().and_then(
            |head| {
                let by_name = head.members.iter().enumerate().map(|(at, m)| (m.name.clone(), at)).collect();
                Ok(Self(Arc::new(Inner {
                    path: path.to_owned(),
                    size,
                    signature_frame: head.members.get(1).map_or(0, |m| m.first_frame),
                    members: head.members,
                    by_name,
                    manifest_digest: Digest::of(&head.manifest_json),
                    bundle_id: crate::write::bundle_id(&head.manifest_json, &head.layout_json),
                    manifest: head.manifest,
                    layout: head.layout,
                    signatures: head.signatures,
                    file: file.try_clone().map_err(io_error("open", path))?,
                    frames: places.clone(),
                    trailer: Trailer { digests: trailer.digests.clone(), ..trailer },
                })))
            },
        )
    }

    /// What is in the bundle. Believed only as far as its signature is.
    pub fn manifest(&self) -> &Manifest {
        &self.0.manifest
    }

    /// Digest of the exact bytes of manifest.json.
    pub fn manifest_digest(&self) -> Digest {
        self.0.manifest_digest
    }

    /// sha256 over the bytes of manifest.json followed by those of layout.json.
    pub fn bundle_id(&self) -> Digest {
        self.0.bundle_id
    }

    /// How the file stores its members.
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// The file that was opened.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Of the file, in bytes.
    pub fn size(&self) -> u64 {
        self.0.size
    }

    /// The signatures that the bundle carries, unchecked.
    pub fn signatures(&self) -> &[Signature] {
        &self.0.signatures
    }

    /// Whether it is signed; that is all that is known without a key.
    pub fn check_signatures(&self) -> SignatureState {
        if self.0.signatures.is_empty() {
            return SignatureState::Unsigned;
        }
        SignatureState::SignedNotChecked { key_ids: self.0.signatures.iter().map(|s| s.key_id.clone()).collect() }
    }

    /// Every member in the order of the file, manifest.json first.
    pub fn members(&self) -> impl Iterator<Item = &StoredAt> {
        self.0.members.iter()
    }

    /// Where a member is, if there is one of this name.
    pub fn find(&self, name: &str) -> Option<&StoredAt> {
        self.0.by_name.get(name).and_then(|at| self.0.members.get(*at))
    }

    /// Whether the bundle has this blob.
    pub fn has_blob(&self, digest: &Digest) -> bool {
        self.find(&members::blob_name(digest)).is_some()
    }

    /// How many bytes the member's frames take in the file.
    pub fn stored_size(&self, member: &StoredAt) -> u64 {
        let frames = self.0.frames.get(member.first_frame..member.end_frame()).unwrap_or_default();
        frames.iter().map(|frame| u64::from(frame.len)).sum()
    }

    /// Reads a member from its start. The last read fails when the content does not have the manifest's digest.
    pub fn member(&self, name: &str) -> Result<MemberReader, ArchiveError> {
        MemberReader::new(self.clone(), self.wanted(name)?.clone(), 0)
    }

    /// The whole content of a member of at most `limit` bytes, verified.
    pub fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, ArchiveError> {
        let size = self.wanted(name)?.size;
        if size > limit {
            return Err(ArchiveError::TooLarge { path: self.0.path.clone(), name: name.to_owned(), size, limit });
        }
        self.member(name)?.into_bytes()
    }

    /// Reads a blob from a byte on; only the frames from there on are read. From 0 the content's digest is verified at
    /// the end, from elsewhere each frame against the trailer.
    pub fn blob(&self, digest: &Digest, offset: u64) -> Result<MemberReader, ArchiveError> {
        MemberReader::new(self.clone(), self.wanted(&members::blob_name(digest))?.clone(), offset)
    }

    fn wanted(&self, name: &str) -> Result<&StoredAt, ArchiveError> {
        self.find(name).ok_or_else(|| ArchiveError::NoSuchMember { path: self.0.path.clone(), name: name.to_owned() })
    }
}

impl Inner {
    /// What the trailer says of a frame; nothing of the signature's.
    pub(crate) fn frame_digest(&self, number: usize) -> Option<&[u8; 32]> {
        frame_digest(&self.trailer, self.signature_frame, number)
    }
}

fn frame_digest(trailer: &Trailer, signature_frame: usize, number: usize) -> Option<&[u8; 32]> {
    match number.cmp(&signature_frame) {
        std::cmp::Ordering::Less => trailer.digests.get(number),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => trailer.digests.get(number - 1),
    }
}

fn decoder(path: &Path) -> Result<Decoder, ArchiveError> {
    Decoder::new().map_err(io_error("prepare to read", path))
}

/// What the first three members say.
struct Head {
    manifest: Manifest,
    manifest_json: Vec<u8>,
    layout: Layout,
    layout_json: Vec<u8>,
    signatures: Vec<Signature>,
    members: Vec<StoredAt>,
}

/// A bundle of which only the tail is known yet.
struct Opening<'a> {
    path: &'a Path,
    file: &'a File,
    frames: &'a [Place],
    trailer: &'a Trailer,
    decoder: Decoder,
}

impl Opening<'_> {
    fn head(mut self) -> Result<Head, ArchiveError> {
        let (manifest_at, manifest_json) = self.document(members::MANIFEST, 0, usize::MAX)?;
        let signature_frame = manifest_at.end_frame();
        // The trailer's digests are known to be this file's only once the signature's place is: check them now.
        let (manifest_at, manifest_json_again) = self.document(members::MANIFEST, 0, signature_frame)?;
        if manifest_json != manifest_json_again {
            return Err(self.damaged(members::MANIFEST, 0, "changes while it is read"));
        }
        let (signature_at, room) = self.document(members::SIGNATURE, signature_frame, signature_frame)?;
        let signatures =
            signature_room::decode(&room).map_err(|e| self.damaged(members::SIGNATURE, signature_frame, &e))?;
        let (layout_at, layout_json) = self.document(members::LAYOUT, signature_at.end_frame(), signature_frame)?;

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
        Ok(Head { manifest, manifest_json, layout, layout_json, signatures, members: all })
    }

    /// Reads a member of the head, whose size only its tar header tells.
    fn document(&mut self, name: &str, first: usize, signature: usize) -> Result<(StoredAt, Vec<u8>), ArchiveError> {
        let start = self.content(name, first, signature)?;
        let header = start.get(..tar_header::BLOCK as usize).unwrap_or_default();
        let size = tar_header::size_of(name, header)
            .ok_or_else(|| self.damaged(name, first, "the tar header is not the one that stands here"))?;
        let limit = if name == members::SIGNATURE { signature_room::SIGNATURE_ROOM as u64 } else { DOCUMENT_LIMIT };
        if size > limit {
            return Err(ArchiveError::TooLarge { path: self.path.to_owned(), name: name.to_owned(), size, limit });
        }
        let mut stored = StoredAt::new(name, size, None, Encoding::Raw, first)
            .ok_or_else(|| self.damaged(name, first, "its size is beyond all bounds"))?;
        self.fits(&stored)?;
        let mut content = start.get(tar_header::BLOCK as usize..).unwrap_or_default().to_vec();
        for number in first + 1..stored.end_frame() {
            content.extend_from_slice(&self.content(name, number, signature)?);
        }
        let padding = content.split_off(content.len().min(size as usize));
        if padding.iter().any(|byte| *byte != 0) {
            return Err(self.damaged(name, stored.end_frame() - 1, "the padding is not zeros"));
        }
        if name != members::SIGNATURE {
            stored.sha256 = Some(Digest::of(&content));
        }
        Ok((stored, content))
    }

    /// The content of one raw frame, held against the trailer when the place of the signature is known.
    fn content(&mut self, name: &str, number: usize, signature: usize) -> Result<Vec<u8>, ArchiveError> {
        let place = *self.frames.get(number).ok_or_else(|| self.damaged(name, number, "the frame is missing"))?;
        let bytes =
            tail::read_exact(self.file, place.offset, place.len as usize).map_err(io_error("read", self.path))?;
        let known = if signature == usize::MAX { None } else { frame_digest(self.trailer, signature, number) };
        if known.is_some_and(|digest| frame::digest(&bytes).as_bytes() != digest) {
            return Err(self.damaged(name, number, "the frame does not have the digest that the trailer says"));
        }
        let decoded = self
            .decoder
            .decode(Encoding::Raw, bytes, place.size, Vec::new())
            .map_err(|problem| self.damaged(name, number, &problem))?;
        Ok(decoded.pieces().collect::<Vec<_>>().concat())
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
            _ => Err(self.damaged("end of archive", end, "the seek table has other frames than the members")),
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

impl Inner {
    /// The seek table that belongs to the frames and the trailer.
    pub(crate) fn seek_table(&self, trailer_len: usize) -> Vec<u8> {
        let end = self.frames.last().map_or(0, |p| p.offset + u64::from(p.len));
        let mut places = self.frames.clone();
        places.push(Place { offset: end, len: trailer_len as u32, size: 0 });
        seek_table::encode(&places)
    }
}
