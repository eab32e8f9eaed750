//! A member on its way through a check: its frames are hashed in order, by whichever thread has the next one.

use std::collections::BTreeMap;

use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;

use crate::frame::{Decoded, Place};
use crate::members::StoredAt;
use crate::tar_header;

/// So many bytes stay in a cache of the processor between two hashes of them.
const CACHED: usize = 64 << 10;

/// One member under way.
pub(crate) struct MemberHasher {
    /// Number of the frame that comes next; of a member of a group, that of the piece of its tar stream.
    pub(crate) next: usize,
    /// Frames that were ready before their turn; nothing but the place where they are damaged.
    pub(crate) early: BTreeMap<usize, (Place, Option<Ready>)>,
    /// Taken by the thread that hashes just now.
    pub(crate) content: Option<Content>,
}

/// A frame that was decoded.
pub(crate) struct Ready {
    pub(crate) decoded: Decoded,
    /// The frame as it is stored, where its content is another buffer; empty when it is not.
    pub(crate) stored: Vec<u8>,
    /// Whether the digest of the frame is wanted and not yet compared with the trailer.
    pub(crate) unproved: bool,
}

impl Ready {
    /// The bytes in the file.
    pub(crate) fn stored(&self) -> &[u8] {
        match &self.decoded {
            Decoded::Raw { frame, .. } => frame,
            Decoded::Zstd(_) => &self.stored,
        }
    }
}

/// What has passed of a member.
#[derive(Default)]
pub(crate) struct Content {
    pub(crate) hasher: Hasher,
    /// Position in the tar stream of the member.
    pub(crate) at: u64,
    /// Place of its first frame, and bytes of all of them so far.
    pub(crate) first: u64,
    pub(crate) stored: u64,
    /// A frame is damaged: that was reported, and the digest says nothing more.
    pub(crate) spoiled: bool,
}

impl Content {
    /// Takes the next frame: its part of header, content and padding, and, where that is not proved yet, the frame as it is stored,
    /// in turns with the content. Whether header and padding are right, and the frame's digest.
    pub(crate) fn pass(&mut self, member: Option<&StoredAt>, ready: &Ready) -> (bool, Option<Digest>) {
        let mut aside = ready.unproved.then(|| Aside { hasher: Hasher::default(), left: ready.stored() });
        let right = match member {
            None => ready.decoded.pieces().flatten().all(|byte| *byte == 0),
            Some(member) => self.take(member, &ready.decoded, aside.as_mut()),
        };
        (right, aside.map(Aside::finish))
    }

    fn take(&mut self, member: &StoredAt, decoded: &Decoded, mut aside: Option<&mut Aside<'_>>) -> bool {
        let content_end = tar_header::BLOCK + member.size;
        for mut piece in decoded.pieces() {
            if self.at == 0 {
                let header = tar_header::encode(&member.name, member.size);
                let Some(rest) = piece.strip_prefix(&header) else { return false };
                piece = rest;
                self.at = tar_header::BLOCK;
            }
            let left = usize::try_from(content_end.saturating_sub(self.at)).unwrap_or(usize::MAX);
            let (content, padding) = piece.split_at(left.min(piece.len()));
            match &mut aside {
                Some(aside) => aside.along(&mut self.hasher, content),
                None => self.hasher.update(content),
            }
            if padding.iter().any(|byte| *byte != 0) {
                return false;
            }
            self.at += piece.len() as u64;
        }
        true
    }
}

/// The bytes of a frame, hashed in turns with content.
struct Aside<'a> {
    hasher: Hasher,
    left: &'a [u8],
}

impl Aside<'_> {
    /// Gives `content` to its hasher, and as many of the frame's bytes to the other: those of a raw frame are the same
    /// ones, which are read from the cache the second time.
    fn along(&mut self, hasher: &mut Hasher, content: &[u8]) {
        for content in content.chunks(CACHED) {
            let (now, left) = self.left.split_at(content.len().min(self.left.len()));
            hasher.update(content);
            self.hasher.update(now);
            self.left = left;
        }
    }

    fn finish(mut self) -> Digest {
        self.hasher.update(self.left);
        self.hasher.finish()
    }
}
