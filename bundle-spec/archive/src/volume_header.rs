//! The skippable frame that each volume of a split bundle begins with.

use kubexm_spec::Digest;
use kubexm_spec::manifest::FORMAT;

/// Its magic number.
pub(crate) const MAGIC: [u8; 4] = 0x184D_2A5C_u32.to_le_bytes();
/// First eight bytes of the payload.
const MARK: &[u8; 8] = b"KUBEXMV\n";
const FRAME_HEADER: usize = 8;
const DIGEST: usize = 32;
/// Mark, format, number, bundle id, offset, digest of all that.
const PAYLOAD: usize = 8 + 4 + 4 + DIGEST + 8 + DIGEST;

/// Bytes of the frame.
pub(crate) const LEN: usize = FRAME_HEADER + PAYLOAD;
/// The most volumes a bundle has: their names end in three digits.
pub(crate) const MAX: u32 = 999;

/// What a volume says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VolumeHeader {
    /// Of the bundle, 1 to [`FORMAT`].
    pub(crate) format: u32,
    /// Id of the whole bundle.
    pub(crate) bundle_id: Digest,
    /// From 1 on.
    pub(crate) number: u32,
    /// Bytes of all volumes before this one.
    pub(crate) offset: u64,
}

/// Why bytes are no such header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Something else.
    Foreign,
    /// It began as one.
    Damaged,
    /// Of this format, which we do not know.
    Newer(u32),
}

impl VolumeHeader {
    pub(crate) fn encode(&self) -> [u8; LEN] {
        let mut frame = [0; LEN];
        frame[..4].copy_from_slice(&MAGIC);
        frame[4..8].copy_from_slice(&(PAYLOAD as u32).to_le_bytes());
        frame[8..16].copy_from_slice(MARK);
        frame[16..20].copy_from_slice(&self.format.to_le_bytes());
        frame[20..24].copy_from_slice(&self.number.to_le_bytes());
        frame[24..56].copy_from_slice(self.bundle_id.as_bytes());
        frame[56..64].copy_from_slice(&self.offset.to_le_bytes());
        let own = Digest::of(&frame[FRAME_HEADER..64]);
        frame[64..].copy_from_slice(own.as_bytes());
        frame
    }

    pub(crate) fn decode(frame: &[u8]) -> Result<Self, Refusal> {
        if !frame.starts_with(&MAGIC) {
            return Err(Refusal::Foreign);
        }
        let frame: &[u8; LEN] = frame.try_into().map_err(|_| Refusal::Damaged)?;
        let word = |at: usize| u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        if frame[8..16] != *MARK || Digest::of(&frame[FRAME_HEADER..64]).as_bytes() != &frame[64..] {
            return Err(Refusal::Damaged);
        }
        if word(16) > FORMAT {
            return Err(Refusal::Newer(word(16)));
        }
        let mut id = [0; DIGEST];
        id.copy_from_slice(&frame[24..56]);
        if word(16) == 0 {
            return Err(Refusal::Damaged);
        }
        let header = Self {
            format: word(16),
            bundle_id: Digest::from_bytes(id),
            number: word(20),
            offset: u64::from(word(56)) | u64::from(word(60)) << 32,
        };
        if header.encode() == *frame && (1..=MAX).contains(&header.number) { Ok(header) } else { Err(Refusal::Damaged) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back_and_every_changed_byte_and_every_cut_is_found() {
        let header = VolumeHeader { format: FORMAT, bundle_id: Digest::of(b"x"), number: 7, offset: 1 << 40 };
        let frame = header.encode();
        assert_eq!(VolumeHeader::decode(&frame), Ok(header));
        for at in 0..LEN {
            let mut bad = frame;
            bad[at] ^= 0x20;
            assert!(VolumeHeader::decode(&bad).is_err(), "byte {at}");
            assert!(VolumeHeader::decode(&frame[..at]).is_err(), "cut at {at}");
        }
    }
}
