//! Reading one member, frame by frame.

use std::io::{self, Read};

use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;

use crate::cursor::{Taken, Window};
use crate::frame::{self, Decoded, Decoder};
use crate::members::{self, InGroup, StoredAt};
use crate::source::{OriginRange, io_error};
use crate::{ArchiveError, Bundle, group, tar_header};

/// Bytes of a group that are decoded at a time.
const GROUP_PIECE: u64 = 1 << 20;

/// Content of a member, verified while it is read. Holds one frame in memory (at most 16 MiB); of a member of a group, which is decoded
/// from the group's start on, a window of at most 128 MiB; of those there are at most four at a time for a bundle, and who needs one
/// more waits.
///
/// An error is an [`io::Error`] with an [`ArchiveError`] inside ([`io::Error::into_inner`]).
pub struct MemberReader {
    bundle: Bundle,
    member: StoredAt,
    decoder: Decoder,
    /// The frame under the position.
    current: Option<Decoded>,
    /// Buffers of frames that were read, to be used again.
    spare: Vec<Vec<u8>>,
    /// Where `current` begins in the tar stream of the member.
    base: u64,
    /// Of a member of a group: what is still to come of the group.
    group: Option<(group::Reader<OriginRange, ()>, Window)>,
    /// Position in the tar stream of the member; content begins after the header.
    at: u64,
    /// When read from the start: what has passed.
    hasher: Option<Hasher>,
}

impl Bundle {
    /// Reads a member from its start. The last read fails when the content does not have the manifest's digest.
    pub fn member(&self, name: &str) -> Result<MemberReader, ArchiveError> {
        let (bundle, member) = self.wanted(name)?;
        MemberReader::new(bundle.clone(), member.clone(), 0)
    }

    /// The whole content of a member of at most `limit` bytes, verified.
    pub fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, ArchiveError> {
        let size = self.wanted(name)?.1.size;
        if size > limit {
            return Err(ArchiveError::TooLarge { path: self.path().to_owned(), name: name.to_owned(), size, limit });
        }
        self.member(name)?.into_bytes()
    }

    /// Reads a blob from its start, as [`Self::member`] does.
    pub fn blob(&self, digest: &Digest) -> Result<MemberReader, ArchiveError> {
        self.member(&members::blob_name(digest))
    }

    /// Reads a blob from a byte on, as [`Self::member_from`] does.
    pub fn blob_from(&self, digest: &Digest, offset: u64) -> Result<MemberReader, ArchiveError> {
        self.member_from(&members::blob_name(digest), offset)
    }

    /// Reads a member from a byte on. The bytes before are read and hashed too, here, so that the last read fails when the
    /// whole content does not have the manifest's digest: as sure as from the start, and not faster.
    pub fn member_from(&self, name: &str, offset: u64) -> Result<MemberReader, ArchiveError> {
        let (bundle, member) = self.wanted(name)?;
        let mut reader = MemberReader::new(bundle.clone(), member.clone(), 0)?;
        reader.skip(offset)?;
        Ok(reader)
    }

    /// Reads a member from a byte on, to stop anywhere; only frames from there on are read. Each is compared with the trailer
    /// before any of it is given. The trailer is not signed: that finds damage, not forgery.
    pub fn part(&self, name: &str, offset: u64) -> Result<Unverified<MemberReader>, ArchiveError> {
        let (bundle, member) = self.wanted(name)?;
        MemberReader::of_part(bundle.clone(), member.clone(), offset).map(Unverified)
    }
}

/// What nobody has compared with the manifest's digests. It gives nothing away by itself:
///
/// ```compile_fail,E0277
/// fn install(bundle: &kubexm_archive::Bundle) -> std::io::Result<u64> {
///     let mut program = bundle.part("blobs/sha256/00", 0).map_err(std::io::Error::other)?;
///     std::io::copy(&mut program, &mut std::io::sink())
/// }
/// ```
///
/// A blob that ends only when its digest is right is read from any byte on as well:
///
/// ```
/// fn install(bundle: &kubexm_archive::Bundle, digest: &kubexm_spec::Digest) -> std::io::Result<u64> {
///     let mut program = bundle.blob_from(digest, 100).map_err(std::io::Error::other)?;
///     std::io::copy(&mut program, &mut std::io::sink())
/// }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Unverified<T>(T);

impl<T> Unverified<T> {
    /// For whoever has a reason why the digest need not be right: a part for a person to look at, headers that are verified
    /// before anything is made of them.
    pub fn without_verification(self) -> T {
        self.0
    }

    /// What is made of it is unverified as well.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Unverified<U> {
        Unverified(make(self.0))
    }
}

impl<T, E> Unverified<Result<T, E>> {
    /// What was made of it, or the error.
    pub fn transpose(self) -> Result<Unverified<T>, E> {
        self.0.map(Unverified)
    }
}

impl MemberReader {
    fn new(bundle: Bundle, member: StoredAt, offset: u64) -> Result<Self, ArchiveError> {
        if offset > member.size {
            return Err(ArchiveError::BeyondEnd { name: member.name, size: member.size, offset });
        }
        let decoder = Decoder::new().map_err(io_error("prepare to read", bundle.path()))?;
        let hasher = (offset == 0 && member.sha256.is_some()).then(Hasher::default);
        let (current, spare, at) = (None, Vec::new(), tar_header::BLOCK + offset);
        Ok(Self { bundle, member, decoder, current, spare, base: 0, group: None, at, hasher })
    }

    /// For a part of the content: each frame is compared with the trailer, wherever the part begins and ends.
    fn of_part(bundle: Bundle, member: StoredAt, offset: u64) -> Result<Self, ArchiveError> {
        Ok(Self { hasher: None, ..Self::new(bundle, member, offset)? })
    }

    /// Reads and hashes what is before a byte of the content.
    fn skip(&mut self, offset: u64) -> Result<(), ArchiveError> {
        if offset > self.member.size {
            let (name, size) = (self.member.name.clone(), self.member.size);
            return Err(ArchiveError::BeyondEnd { name, size, offset });
        }
        let end = tar_header::BLOCK + offset;
        while self.at < end {
            let left = usize::try_from(end - self.at).unwrap_or(usize::MAX);
            let len = self.piece()?.len().min(left);
            self.advance(len);
        }
        Ok(())
    }

    /// Bytes of content still to come.
    pub fn remaining(&self) -> u64 {
        (tar_header::BLOCK + self.member.size).saturating_sub(self.at)
    }

    /// All that is still to come, in memory. The caller has held the size against a limit.
    fn into_bytes(mut self) -> Result<Vec<u8>, ArchiveError> {
        let mut content = Vec::new();
        loop {
            let piece = self.piece()?;
            if piece.is_empty() {
                return Ok(content);
            }
            content.extend_from_slice(piece);
            let len = piece.len();
            self.advance(len);
        }
    }

    /// The next bytes of content; none at the end, when all has been found right.
    fn piece(&mut self) -> Result<&[u8], ArchiveError> {
        let remaining = self.remaining();
        if remaining == 0 {
            self.finish()?;
            return Ok(&[]);
        }
        let decoded = match (self.current.take(), self.member.group) {
            (Some(decoded), _) => decoded,
            (None, None) => {
                let number = self.at / u64::from(frame::INPUT);
                self.base = number * u64::from(frame::INPUT);
                self.load(number as usize)?
            }
            (None, Some(group)) => self.load_of_group(group)?,
        };
        let piece = self.current.insert(decoded).from((self.at - self.base) as usize);
        let len = usize::try_from(remaining).unwrap_or(usize::MAX).min(piece.len());
        Ok(&piece[..len])
    }

    /// Goes past bytes that [`Self::piece`] gave.
    fn advance(&mut self, len: usize) {
        let inside = (self.at - self.base) as usize;
        if let (Some(hasher), Some(current)) = (&mut self.hasher, &self.current) {
            hasher.update(&current.from(inside)[..len]);
        }
        self.at += len as u64;
        let is_used = self.current.as_ref().is_some_and(|current| current.from(inside + len).is_empty());
        if self.remaining() == 0
            && let (Some(group), Some((reader, window)), Some(current)) =
                (self.member.group, self.group.take(), &self.current)
        {
            let read = group.offset + self.base + current.from(0).len() as u64;
            if read < u64::from(group.len) {
                self.bundle.0.cursor.keep(self.member.first_frame, read, reader, window);
            }
        }
        if is_used || self.remaining() == 0 {
            self.spare.extend(self.current.take().map(Decoded::into_buffer));
        }
    }

    fn load(&mut self, number: usize) -> Result<Decoded, ArchiveError> {
        let inner = &self.bundle.0;
        let in_file = self.member.first_frame + number;
        let damaged = |offset, problem: &str| inner.origin.damaged(&self.member.name, offset, problem);
        let place = *inner.frames.get(in_file).ok_or_else(|| damaged(inner.origin.len(), "the frame is missing"))?;
        let mut bytes = self.spare.pop().unwrap_or_default();
        inner.origin.read_into(&mut bytes, place.offset, place.len as usize)?;
        // Read from the start, the digest of the whole content says more, for half the work.
        let known = if self.hasher.is_some() { None } else { inner.frame_digest(in_file) };
        if known.is_some_and(|digest| frame::digest(&bytes).as_bytes() != digest) {
            return Err(damaged(place.offset, "the frame does not have the digest that the trailer states"));
        }
        let mut spare = self.spare.pop().unwrap_or_default();
        let decoded = self
            .decoder
            .decode(self.member.encoding, &mut bytes, place.size, &mut spare)
            .map_err(|problem| damaged(place.offset, &problem));
        self.spare.extend([bytes, spare].into_iter().filter(|buffer| buffer.capacity() > 0));
        decoded
    }

    /// The next piece of a member of a group. The frame is compared with the trailer first, unless the digest of the whole content is
    /// what says whether it is right.
    fn load_of_group(&mut self, place: InGroup) -> Result<Decoded, ArchiveError> {
        let inner = &self.bundle.0;
        let frame = inner.frames.get(self.member.first_frame).copied();
        let damaged =
            |problem: &str| inner.origin.damaged(&self.member.name, frame.map_or(0, |frame| frame.offset), problem);
        let frame = frame.ok_or_else(|| damaged("the frame is missing"))?;
        let input = || inner.origin.range(frame.offset, u64::from(frame.len));
        let unready = || io_error("prepare to read", self.bundle.path());
        let open = || {
            let decoder = group::decoder().map_err(unready())?;
            group::Reader::new(input(), place.len, decoder, ()).map_err(unready())
        };
        let mut buffer = self.spare.pop().unwrap_or_default();
        let (mut reader, window) = match self.group.take() {
            Some(open) => open,
            None => {
                if self.hasher.is_none() {
                    let digest = group::digest(input()).map_err(|e| damaged(&format!("cannot be read: {e}")))?;
                    if inner.frame_digest(self.member.first_frame).is_some_and(|known| digest.as_bytes() != known) {
                        return Err(damaged("the frame does not have the digest that the trailer states"));
                    }
                }
                // From the header of the member on, or from where a part begins.
                let wanted = place.offset + self.at;
                let (mut reader, at, window) =
                    match inner.cursor.take(self.member.first_frame, self.hasher.as_ref().map(|_| wanted)) {
                        Taken::Reader(reader, at, window) => (reader, at, window),
                        Taken::Leave(window) => (open()?, 0, window),
                    };
                let mut before = wanted - at;
                while before > 0 {
                    reader.next(before.min(GROUP_PIECE), &mut buffer).map_err(|problem| damaged(&problem))?;
                    before -= buffer.len() as u64;
                    window.used();
                }
                (reader, window)
            }
        };
        let left = members::stream_len(self.member.size).unwrap_or_default().saturating_sub(self.at);
        reader.next(left.min(GROUP_PIECE), &mut buffer).map_err(|problem| damaged(&problem))?;
        window.used();
        (self.base, self.group) = (self.at, Some((reader, window)));
        Ok(Decoded::Zstd(buffer))
    }

    fn finish(&mut self) -> Result<(), ArchiveError> {
        let Some(found) = self.hasher.take().map(Hasher::finish) else { return Ok(()) };
        let wanted: Option<Digest> = self.member.sha256;
        if wanted.is_none_or(|wanted| wanted == found) {
            return Ok(());
        }
        let inner = &self.bundle.0;
        let offset = inner.frames.get(self.member.first_frame).map_or(0, |p| p.offset);
        let problem = format!("its content has the digest {found}, not the manifest's");
        Err(inner.origin.damaged(&self.member.name, offset, &problem))
    }
}

impl Read for MemberReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let piece = self.piece().map_err(ArchiveError::into_io)?;
        let len = piece.len().min(buffer.len());
        buffer[..len].copy_from_slice(&piece[..len]);
        self.advance(len);
        if self.remaining() == 0 {
            // So that whoever reads exactly the size, and no further, has it verified too.
            self.finish().map_err(ArchiveError::into_io)?;
        }
        Ok(len)
    }
}

impl std::fmt::Debug for MemberReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemberReader").field("member", &self.member.name).field("at", &self.at).finish_non_exhaustive()
    }
}
