//! An opened bundle, and what can be asked of it.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubexm_spec::{Digest, Manifest};

use crate::frame::Place;
use crate::layout::Layout;
use crate::member_reader::MemberReader;
use crate::members::{self, StoredAt};
use crate::partial::io_error;
use crate::signature_room::{Signature, SignatureState};
use crate::tail::Tail;
use crate::trailer::Trailer;
use crate::{ArchiveError, open, seek_table};

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
        let head = open::head(path, &file, &places, &trailer)?;
        let by_name = head.members.iter().enumerate().map(|(at, m)| (m.name.clone(), at)).collect();
        Ok(Self(Arc::new(Inner {
            path: path.to_owned(),
            file,
            size,
            frames: places,
            trailer,
            signature_frame: head.signature_frame,
            members: head.members,
            by_name,
            manifest_digest: Digest::of(&head.manifest_json),
            bundle_id: crate::write::bundle_id(&head.manifest_json, &head.layout_json),
            manifest: head.manifest,
            layout: head.layout,
            signatures: head.signatures,
        })))
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
        self.trailer.digest_of(number, self.signature_frame)
    }

    /// The seek table that belongs to the frames and the trailer.
    pub(crate) fn seek_table(&self, trailer_len: usize) -> Vec<u8> {
        let end = self.frames.last().map_or(0, |p| p.offset + u64::from(p.len));
        let mut places = self.frames.clone();
        places.push(Place { offset: end, len: trailer_len as u32, size: 0 });
        seek_table::encode(&places)
    }
}
