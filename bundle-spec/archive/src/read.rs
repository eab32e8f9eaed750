//! An opened bundle, and queries on it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubexm_spec::manifest::Member;
use kubexm_spec::{Digest, Manifest};

use crate::cursor::Cursor;
use crate::frame::Place;
use crate::layout::Layout;
use crate::members::{self, StoredAt};
use crate::open::{Head, Room};
use crate::signature_slot::Signature;
use crate::source::{Origin, ReadAt};
use crate::tail::Tail;
use crate::trailer::Trailer;
use crate::volume_header::{LEN, VolumeHeader};
use crate::{ArchiveError, Documents, open, seek_table, volumes};

/// How many names of blobs that no base has are listed.
const LISTED: usize = 20;

/// An opened bundle. Cheap to clone; readers of members may be used from several threads at once.
///
/// Opening proves that the structure holds, not that the content is whole ([`crate::verify`]) or who signed it.
#[derive(Clone, Debug)]
pub struct Bundle(pub(crate) Arc<Inner>);

#[derive(Clone, Debug)]
pub(crate) struct Inner {
    pub(crate) origin: Origin,
    /// Every frame with content.
    pub(crate) frames: Vec<Place>,
    /// The headers of its volumes, where it is split.
    pub(crate) volumes: Vec<Place>,
    pub(crate) trailer: Trailer,
    pub(crate) head: Head,
    bundle_id: Digest,
    by_name: HashMap<String, usize>,
    pub(crate) cursor: Cursor,
    /// The bundles that have what this one leaves out.
    bases: Vec<Bundle>,
    /// Of each member that is left out: the file that has it.
    elsewhere: HashMap<String, Bundle>,
}

impl Bundle {
    /// Opens a bundle: one file, a volume of a split one (the others lie beside it), or a folder that holds one bundle.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        Self::open_all(&[path.to_owned()])
    }

    /// Opens a bundle whose volumes are in several places: files and folders, in any order.
    pub fn open_all(paths: &[PathBuf]) -> Result<Self, ArchiveError> {
        Self::from_origin(volumes::open(paths)?, Room::Whole)
    }

    /// Opens what is no file of this machine; `name` is what messages call it.
    pub fn open_source(name: PathBuf, source: Arc<dyn ReadAt>) -> Result<Self, ArchiveError> {
        Self::from_origin(Origin { name, source }, Room::Whole)
    }

    /// Opens a bundle whose signatures are about to be written: a room for them that was torn is taken for an empty one.
    pub fn open_to_sign(path: &Path) -> Result<Self, ArchiveError> {
        Self::from_origin(volumes::open(&[path.to_owned()])?, Room::MayBeTorn)
    }

    fn from_origin(origin: Origin, room: Room) -> Result<Self, ArchiveError> {
        let Tail { frames, volumes, trailer } = Tail::read(&origin)?;
        let head = open::head(&origin, &frames, &trailer, room)?;
        let by_name = head.members.iter().enumerate().map(|(at, m)| (m.name.clone(), at)).collect();
        let bundle_id = crate::write::bundle_id(&head.manifest_json, &head.layout_json);
        let inner = Inner {
            origin,
            frames,
            volumes,
            trailer,
            head,
            bundle_id,
            by_name,
            cursor: Cursor::default(),
            bases: Vec::new(),
            elsewhere: HashMap::new(),
        };
        inner.check_volumes()?;
        Ok(Self(Arc::new(inner)))
    }

    /// A delta on the bundles that have the rest; refused, with names, when they do not. What is no delta stays as it is.
    pub fn on_bases(self, bases: Vec<Self>) -> Result<Self, ArchiveError> {
        let (mut lacking, mut elsewhere) = (Vec::new(), HashMap::new());
        for member in self.left_out() {
            match bases.iter().find_map(|base| base.holding(member)) {
                Some(base) => drop(elsewhere.insert(member.name.clone(), base.clone())),
                None => lacking.push(member.name.clone()),
            }
        }
        if !lacking.is_empty() {
            return Err(ArchiveError::BaseLacks {
                path: self.path().to_owned(),
                bases: bases.iter().map(|base| base.path().to_owned()).collect(),
                count: lacking.len(),
                first: lacking.into_iter().take(LISTED).collect(),
            });
        }
        Ok(Self(Arc::new(Inner { bases, elsewhere, ..Arc::unwrap_or_clone(self.0) })))
    }

    /// The manifest's members that this file leaves out, whether a base has them or not.
    pub fn left_out(&self) -> impl Iterator<Item = &Member> {
        let names: HashSet<&str> = self.layout().left_out.iter().map(|stored| stored.name.as_str()).collect();
        self.manifest().members.iter().filter(move |member| names.contains(member.name.as_str()))
    }

    /// The bundles it was put on with [`Self::on_bases`].
    pub fn bases(&self) -> &[Self] {
        &self.0.bases
    }

    /// What is in the bundle. Trusted only as far as its signature is.
    pub fn manifest(&self) -> &Manifest {
        &self.0.head.manifest
    }

    /// The exact bytes of manifest.json: what signatures sign.
    pub fn manifest_json(&self) -> &[u8] {
        &self.0.head.manifest_json
    }

    /// Digest of the exact bytes of manifest.json.
    pub fn manifest_digest(&self) -> Digest {
        Digest::of(&self.0.head.manifest_json)
    }

    /// sha256 over the bytes of manifest.json followed by those of layout.json.
    pub fn bundle_id(&self) -> Digest {
        self.0.bundle_id
    }

    /// How the file stores its members.
    pub fn layout(&self) -> &Layout {
        &self.0.head.layout
    }

    /// The name it was opened by: its file, a split bundle's name without a number, an address.
    pub fn path(&self) -> &Path {
        &self.0.origin.name
    }

    /// The files it lies in: one, or its volumes in order; none where it is read from elsewhere.
    pub fn files(&self) -> Vec<PathBuf> {
        self.0.origin.source.files()
    }

    /// Of the file, or of all volumes together, in bytes.
    pub fn size(&self) -> u64 {
        self.0.origin.len()
    }

    /// Why the room of the signatures cannot be read, when it was opened with [`Self::open_to_sign`].
    pub fn torn_room(&self) -> Option<&str> {
        self.0.head.torn_room.as_deref()
    }

    /// The signatures that the bundle carries, unchecked.
    pub fn signatures(&self) -> &[Signature] {
        &self.0.head.signatures
    }

    /// Every member in the order of the file, manifest.json first; what a delta leaves out is not among them.
    pub fn members(&self) -> impl Iterator<Item = &StoredAt> {
        self.0.head.members.iter()
    }

    /// Where a member is, in this file or in a base.
    pub fn find(&self, name: &str) -> Option<&StoredAt> {
        self.holder(name).map(|(_, member)| member)
    }

    /// Whether the bundle, or a base, has this blob.
    pub fn has_blob(&self, digest: &Digest) -> bool {
        self.find(&members::blob_name(digest)).is_some()
    }

    /// How many bytes the member's frames take in the file; of a member of a group, its share of the group's frame by size.
    pub fn stored_size(&self, member: &StoredAt) -> u64 {
        let frames = self.0.frames.get(member.first_frame..member.end_frame()).unwrap_or_default();
        let stored = frames.iter().map(|frame| u64::from(frame.len)).sum();
        let Some(group) = member.group else { return stored };
        // At most 2^29 each; the shares of all members are the whole frame.
        let until = |offset: u64| stored * offset / u64::from(group.len.max(1));
        let end = group.offset + members::stream_len(member.size).unwrap_or_default();
        until(end).saturating_sub(until(group.offset))
    }

    /// Where the member's first frame begins in the file, in bytes; in a split bundle counted over all volumes.
    pub fn stored_offset(&self, member: &StoredAt) -> u64 {
        self.0.frames.get(member.first_frame).map_or(0, |frame| frame.offset)
    }

    pub(crate) fn wanted(&self, name: &str) -> Result<(&Self, &StoredAt), ArchiveError> {
        let missing = || ArchiveError::NoSuchMember { path: self.path().to_owned(), name: name.to_owned() };
        self.holder(name).ok_or_else(missing)
    }

    /// Which file has a member: this one, or, of what it leaves out, a base.
    fn holder(&self, name: &str) -> Option<(&Self, &StoredAt)> {
        match self.0.by_name.get(name) {
            Some(at) => self.0.head.members.get(*at).map(|member| (self, member)),
            None => self.0.elsewhere.get(name)?.holder(name),
        }
    }

    /// The file that has this very member: this one or one of its bases.
    fn holding(&self, wanted: &Member) -> Option<&Self> {
        let (bundle, found) = self.holder(&wanted.name)?;
        (found.size == wanted.size && found.sha256 == Some(wanted.sha256)).then_some(bundle)
    }
}

impl Documents for Bundle {
    fn path(&self) -> &Path {
        self.path()
    }

    fn manifest(&self) -> &Manifest {
        self.manifest()
    }

    fn size_of(&self, name: &str) -> Option<u64> {
        self.find(name).map(|member| member.size)
    }

    fn document(&self, name: &str, limit: u64) -> Result<Vec<u8>, ArchiveError> {
        self.read(name, limit)
    }
}

impl Inner {
    /// What the trailer says of a frame; nothing of the signature's.
    pub(crate) fn frame_digest(&self, number: usize) -> Option<&[u8; 32]> {
        self.trailer.digest_of(number, self.head.signature_frame)
    }

    /// The headers that its volumes must begin with, and where.
    pub(crate) fn volume_headers(&self) -> impl Iterator<Item = (u64, [u8; LEN])> {
        self.volumes.iter().zip(1..).map(|(place, number)| {
            let header = VolumeHeader {
                format: self.head.manifest.format,
                bundle_id: self.bundle_id,
                number,
                offset: place.offset,
            };
            (place.offset, header.encode())
        })
    }

    /// Demands them bit for bit.
    fn check_volumes(&self) -> Result<(), ArchiveError> {
        for (offset, wanted) in self.volume_headers() {
            if self.origin.read(offset, LEN)? != wanted {
                return Err(self.origin.damaged("volume header", offset, "it is not the expected one"));
            }
        }
        Ok(())
    }
}

/// The seek table of frames with content, headers of volumes and a trailer of so many bytes.
pub(crate) fn seek_table_of(frames: &[Place], volumes: &[Place], trailer_len: usize) -> Vec<u8> {
    let mut places: Vec<Place> = frames.iter().chain(volumes).copied().collect();
    places.sort_by_key(|place| place.offset);
    let end = places.last().map_or(0, |p| p.offset + u64::from(p.len));
    places.push(Place { offset: end, len: trailer_len as u32, size: 0 });
    seek_table::encode(&places)
}
