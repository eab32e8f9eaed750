//! The trailer: a skippable frame before the seek table, with the digest of every frame but the signature's.
//!
//! Finds damage early and cheaply; nothing in it must be trusted. In every version of the format its payload begins with
//! [`MARK`] and the format's number and ends with a digest of itself, so that an older program can distinguish "newer"
//! from "damaged".

use std::cmp::Ordering;

use kubexm_spec::Digest;
use kubexm_spec::manifest::FORMAT;

const SKIPPABLE: [u8; 4] = 0x184D_2A5D_u32.to_le_bytes();
/// First eight bytes of the payload.
const MARK: &[u8; 8] = b"KUBEXM\r\n";
const HEADER: usize = 8;
/// Mark, format, volumes, length of the file, number of digests.
const FIXED: usize = 8 + 4 + 4 + 8 + 4;
const DIGEST: usize = 32;

/// What a trailer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Of the bundle, 1 to [`FORMAT`].
    pub(crate) format: u32,
    /// Number of files the bundle is split into; 1 when it is one.
    pub(crate) volumes: u32,
    /// Length of the whole file in bytes, seek table included.
    pub(crate) total: u64,
    /// Of every frame before the trailer, in the order of the file, without the signature's.
    pub(crate) digests: Vec<[u8; DIGEST]>,
}

/// Why bytes are not a trailer of this format.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Not the frame that is before the seek table of a bundle.
    Foreign,
    /// Its own digest does not match, or its parts do not fit together.
    Damaged,
    /// Whole, and of this format, which we do not know.
    Newer(u32),
}

/// Bytes of the trailer's frame for so many digests.
pub(crate) const fn len(digests: usize) -> usize {
    HEADER + FIXED + DIGEST * (digests + 1)
}

impl Trailer {
    /// The frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut frame = Vec::with_capacity(len(self.digests.len()));
        frame.extend_from_slice(&SKIPPABLE);
        frame.extend_from_slice(&((len(self.digests.len()) - HEADER) as u32).to_le_bytes());
        frame.extend_from_slice(MARK);
        frame.extend_from_slice(&self.format.to_le_bytes());
        frame.extend_from_slice(&self.volumes.to_le_bytes());
        frame.extend_from_slice(&self.total.to_le_bytes());
        frame.extend_from_slice(&(self.digests.len() as u32).to_le_bytes());
        for digest in &self.digests {
            frame.extend_from_slice(digest);
        }
        let own = Digest::of(&frame[HEADER..]);
        frame.extend_from_slice(own.as_bytes());
        frame
    }

    /// Of the frame `number` of the file; nothing of the signature's, which has none here.
    pub(crate) fn digest_of(&self, number: usize, signature_frame: usize) -> Option<&[u8; DIGEST]> {
        match number.cmp(&signature_frame) {
            Ordering::Less => self.digests.get(number),
            Ordering::Equal => None,
            Ordering::Greater => self.digests.get(number - 1),
        }
    }

    /// Reads a whole frame.
    pub(crate) fn decode(frame: &[u8]) -> Result<Self, Refusal> {
        let payload = frame.strip_prefix(&SKIPPABLE).and_then(|rest| rest.get(4..)).ok_or(Refusal::Foreign)?;
        let said = payload.strip_prefix(MARK).ok_or(Refusal::Foreign)?;
        let body_len = payload.len().checked_sub(DIGEST).ok_or(Refusal::Damaged)?;
        let (body, own) = payload.split_at(body_len);
        if Digest::of(body).as_bytes() != own {
            return Err(Refusal::Damaged);
        }
        let word = |at: usize| said.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
        let format = word(0).ok_or(Refusal::Damaged)?;
        if format > FORMAT {
            return Err(Refusal::Newer(format));
        }
        if format == 0 {
            return Err(Refusal::Damaged);
        }
        let volumes = word(4).ok_or(Refusal::Damaged)?;
        let total = u64::from(word(8).ok_or(Refusal::Damaged)?) | u64::from(word(12).ok_or(Refusal::Damaged)?) << 32;
        let digests = body.get(FIXED..).ok_or(Refusal::Damaged)?.as_chunks().0.to_vec();
        let trailer = Self { format, volumes, total, digests };
        if trailer.encode() == frame { Ok(trailer) } else { Err(Refusal::Damaged) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        Trailer { format: FORMAT, volumes: 1, total: 77, digests: vec![[1; 32], [2; 32]] }.encode()
    }

    #[test]
    fn it_reads_back_and_has_its_declared_length() {
        let frame = sample();
        assert_eq!(frame.len(), len(2));
        assert_eq!(Trailer::decode(&frame).map(|t| t.digests.len()), Ok(2));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_found() {
        let frame = sample();
        for at in 0..frame.len() {
            let mut bad = frame.clone();
            bad[at] ^= 1;
            assert!(Trailer::decode(&bad).is_err(), "byte {at}");
            assert!(Trailer::decode(&frame[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_whole_trailer_of_a_later_format_is_newer_and_not_damaged() {
        let mut frame = sample();
        frame[16] = 9;
        let end = frame.len() - DIGEST;
        let own = Digest::of(&frame[HEADER..end]);
        frame[end..].copy_from_slice(own.as_bytes());
        assert_eq!(Trailer::decode(&frame), Err(Refusal::Newer(9)));
    }
}
