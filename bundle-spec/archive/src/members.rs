//! Which members a bundle has, and how many bytes and frames each takes.

use std::collections::HashSet;

use kubexm_spec::Digest;
use kubexm_spec::manifest::Member;

use crate::{Encoding, frame, tar_header};

/// The first member.
pub const MANIFEST: &str = "manifest.json";
/// The second member.
pub const SIGNATURE: &str = "manifest.json.sig";
/// The third member.
pub const LAYOUT: &str = "layout.json";
/// The last member, where there is one: where the artifacts are from. Neither the manifest nor layout.json has its digest.
pub const SOURCES: &str = "sources.json";
/// Where blobs are.
pub const BLOBS: &str = "blobs/sha256/";

/// Members between layout.json and the blobs, in the order they have; each at most once.
pub const FIXED: [&str; 5] = ["lock.yaml", "cluster.yaml", "catalogue.json", "oci-layout", "index.json"];

/// Two blocks of zeros end a tar archive.
pub(crate) const END: u32 = 2 * tar_header::BLOCK as u32;

/// What damage reports call it.
pub(crate) const END_PART: &str = "end of archive";

/// The name of a blob's member.
pub fn blob_name(digest: &Digest) -> String {
    format!("{BLOBS}{}", digest.hex())
}

/// Holds names and order against the closed set that the format knows, so that no name can lead outside the layout.
pub(crate) fn check(members: &[Member]) -> Result<(), String> {
    let mut seen = HashSet::with_capacity(members.len());
    let mut last = 0;
    for member in members {
        let name = member.name.as_str();
        let rank = match FIXED.iter().position(|fixed| *fixed == name) {
            Some(rank) => rank,
            None if is_blob(member) => FIXED.len(),
            None => return Err(format!("{name:?} is not the name of a member, or not the name of its own digest")),
        };
        if rank < last {
            return Err(format!("{name} is after members that it must precede"));
        }
        last = rank;
        if !seen.insert(name) {
            return Err(format!("{name} is there twice"));
        }
        if stream_len(member.size).is_none() {
            return Err(format!("{name} is larger than any file can be"));
        }
    }
    Ok(())
}

fn is_blob(member: &Member) -> bool {
    member.name.strip_prefix(BLOBS).is_some_and(|hex| Digest::from_hex(hex) == Ok(member.sha256))
}

/// Bytes of header, content and padding of a member of `size` bytes.
pub(crate) fn stream_len(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(tar_header::BLOCK)?.checked_add(tar_header::BLOCK)
}

/// A member and its place among the frames.
#[derive(Clone, Debug)]
pub struct StoredAt {
    /// Name in the archive.
    pub name: String,
    /// Bytes of content.
    pub size: u64,
    /// Of the content; none for the signature member, which may be replaced, and for sources.json, which only the trailer has.
    pub sha256: Option<Digest>,
    /// Of all its frames.
    pub encoding: Encoding,
    /// Number of its first frame in the file.
    pub first_frame: usize,
    /// How many frames it has; at least one.
    pub frames: usize,
    /// Where it is in a frame that it shares with others.
    pub(crate) group: Option<InGroup>,
}

/// A member's place in a frame that it shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InGroup {
    /// First byte of its tar stream in the frame's content.
    pub(crate) offset: u64,
    /// Bytes of the frame's content.
    pub(crate) len: u32,
}

impl StoredAt {
    /// Lays a member behind the frame before `first_frame`; nothing when its size is out of range.
    pub(crate) fn new(
        name: &str,
        size: u64,
        sha256: Option<Digest>,
        encoding: Encoding,
        first_frame: usize,
    ) -> Option<Self> {
        let frames = usize::try_from(stream_len(size)?.div_ceil(u64::from(frame::INPUT))).ok()?;
        Some(Self { name: name.to_owned(), size, sha256, encoding, first_frame, frames, group: None })
    }

    /// In a frame that it shares with others.
    pub(crate) fn in_group(self, group: InGroup) -> Self {
        Self { frames: 1, group: Some(group), ..self }
    }

    /// The number of the frame after its last.
    pub(crate) fn end_frame(&self) -> usize {
        self.first_frame.saturating_add(self.frames)
    }

    /// Bytes of tar stream in the frame `number` of this member (counted from 0), those of others with which it shares it included.
    pub(crate) fn input_of(&self, number: usize) -> u32 {
        if let Some(group) = self.group {
            return group.len;
        }
        let stream = stream_len(self.size).unwrap_or(u64::MAX);
        let before = (number as u64).saturating_mul(u64::from(frame::INPUT));
        u32::try_from(stream.saturating_sub(before).min(u64::from(frame::INPUT))).unwrap_or(frame::INPUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> Member {
        Member { name: name.into(), size: 1, sha256: Digest::of(b"x") }
    }

    #[test]
    fn names_that_could_lead_out_of_the_layout_are_refused() {
        let blob = blob_name(&Digest::of(b"x"));
        assert_eq!(check(&[member("lock.yaml"), member("index.json"), member(&blob)]), Ok(()));
        for bad in ["../lock.yaml", "/etc/passwd", "blobs/sha256/../../x", "manifest.json", "blobs/sha256/", "a\0b", ""]
        {
            assert!(check(&[member(bad)]).is_err(), "{bad:?}");
        }
        let foreign = blob_name(&Digest::of(b"y"));
        assert!(check(&[member(&foreign)]).is_err(), "a blob under another digest's name");
    }

    #[test]
    fn duplicates_wrong_order_and_endless_sizes_are_refused() {
        let blob = blob_name(&Digest::of(b"x"));
        assert!(check(&[member(&blob), member(&blob)]).is_err());
        assert!(check(&[member("lock.yaml"), member("lock.yaml")]).is_err());
        assert!(check(&[member(&blob), member("index.json")]).is_err());
        assert!(check(&[Member { size: u64::MAX, ..member("index.json") }]).is_err());
    }
}
