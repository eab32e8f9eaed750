//! The seek table at the end of the file, as zstd's *seekable format* defines it
//! (contrib/seekable_format/zstd_seekable_compression_format.md, version 0.1.0), without per-frame checksums.

use crate::frame::Place;

const SKIPPABLE: [u8; 4] = 0x184D_2A5E_u32.to_le_bytes();
const FOOTER_MAGIC: [u8; 4] = 0x8F92_EAB1_u32.to_le_bytes();
const SKIPPABLE_HEADER: usize = 8;
const ENTRY: usize = 8;

/// Number of frames, descriptor byte, magic.
pub(crate) const FOOTER: usize = 9;

/// The most frames a file may have: 8 TiB of input, and a seek table of 8 MiB.
pub(crate) const MAX_FRAMES: u32 = 1 << 20;

/// Bytes of the table of `frames` frames.
pub(crate) const fn len(frames: usize) -> usize {
    SKIPPABLE_HEADER + ENTRY * frames + FOOTER
}

/// The number of frames in a footer; none when it is not a footer. Not yet compared with [`MAX_FRAMES`].
pub(crate) fn frames_in(footer: &[u8]) -> Option<u32> {
    let (count, rest) = footer.split_first_chunk::<4>()?;
    let (descriptor, magic) = rest.split_first()?;
    (*descriptor == 0 && magic == FOOTER_MAGIC).then(|| u32::from_le_bytes(*count))
}

/// The table of these frames.
pub(crate) fn encode(frames: &[Place]) -> Vec<u8> {
    let mut table = Vec::with_capacity(len(frames.len()));
    table.extend_from_slice(&SKIPPABLE);
    table.extend_from_slice(&((ENTRY * frames.len() + FOOTER) as u32).to_le_bytes());
    for frame in frames {
        table.extend_from_slice(&frame.len.to_le_bytes());
        table.extend_from_slice(&frame.size.to_le_bytes());
    }
    table.extend_from_slice(&(frames.len() as u32).to_le_bytes());
    table.push(0);
    table.extend_from_slice(&FOOTER_MAGIC);
    table
}

/// The frames of a whole table, laid one behind the other from byte 0 on; nothing when it is not what [`encode`] writes.
pub(crate) fn decode(table: &[u8]) -> Option<Vec<Place>> {
    let entries = table.get(SKIPPABLE_HEADER..table.len().checked_sub(FOOTER)?)?;
    let mut offset = 0;
    let frames: Vec<Place> = entries
        .chunks_exact(ENTRY)
        .map(|entry| {
            let word = |at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
            let place = Place { offset, len: word(0), size: word(4) };
            offset += u64::from(place.len);
            place
        })
        .collect();
    (encode(&frames) == table).then_some(frames)
}

/// Whether a skippable frame's magic is the one of the seek table.
pub(crate) fn is_magic(magic: [u8; 4]) -> bool {
    magic == SKIPPABLE
}
