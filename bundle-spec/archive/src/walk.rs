//! Distinguishes a truncated file from a damaged one, by walking its frames from the start.

use std::io;

use crate::source::{ReadAt, read_some};
use crate::{frame, seek_table};

/// Where a walk from the start ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    /// Everything is well formed as far as the file goes, and it ends before its seek table does.
    Truncated,
    /// The same, and the last frame is whole: what is missing may be whole volumes.
    EndsBetweenFrames,
    /// At this byte is no frame; or the file continues behind its seek table there.
    Damaged(u64),
}

/// Most bytes that a frame's header takes (RFC 8878).
const HEADER_MAX: usize = 18;

/// Walks headers of frames and blocks; reads no content.
pub(crate) fn walk(file: &dyn ReadAt) -> io::Result<Walk> {
    let size = file.len();
    let mut offset = 0;
    let mut behind_table = false;
    while offset < size {
        if behind_table {
            return Ok(Walk::Damaged(offset));
        }
        let mut head = [0; HEADER_MAX];
        let head = read_some(file, &mut head, offset)?;
        let (end, table) = match zstd_frame_header(head) {
            Header::Skippable { len, table } => (offset.saturating_add(len), table),
            Header::Zstd { header, checksum } => {
                (blocks_end(file, size, offset + header)?.saturating_add(checksum), false)
            }
            Header::Short => return Ok(Walk::Truncated),
            Header::None => return Ok(Walk::Damaged(offset)),
        };
        if end > size {
            return Ok(Walk::Truncated);
        }
        offset = end;
        behind_table = table;
    }
    // A whole seek table at the end, and yet its footer was not found: the footer is what is damaged.
    Ok(if behind_table {
        Walk::Damaged(size.saturating_sub(seek_table::FOOTER as u64))
    } else {
        Walk::EndsBetweenFrames
    })
}

enum Header {
    Skippable { len: u64, table: bool },
    Zstd { header: u64, checksum: u64 },
    Short,
    None,
}

fn zstd_frame_header(head: &[u8]) -> Header {
    let Some((magic, rest)) = head.split_first_chunk::<4>() else { return Header::Short };
    if matches!(u32::from_le_bytes(*magic), 0x184D_2A50..=0x184D_2A5F) {
        return rest.first_chunk::<4>().map_or(Header::Short, |len| Header::Skippable {
            len: 8 + u64::from(u32::from_le_bytes(*len)),
            table: seek_table::is_magic(*magic),
        });
    }
    if !frame::begins_raw(magic) {
        return Header::None;
    }
    let Some(descriptor) = rest.first() else { return Header::Short };
    let single_segment = descriptor >> 5 & 1 == 1;
    let content_size = match descriptor >> 6 {
        0 => u64::from(single_segment),
        1 => 2,
        2 => 4,
        _ => 8,
    };
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let header = 4 + 1 + u64::from(!single_segment) + dictionary + content_size;
    Header::Zstd { header, checksum: if descriptor >> 2 & 1 == 1 { 4 } else { 0 } }
}

/// Bytes of a frame's header, magic number included, from its first five bytes; nothing for frames that no bundle has.
pub(crate) fn header_len(start: &[u8]) -> Option<usize> {
    match zstd_frame_header(start) {
        Header::Zstd { header, checksum: 4 } => usize::try_from(header).ok(),
        _ => None,
    }
}

/// The byte after the last block; beyond `size` when the file ends before.
fn blocks_end(file: &dyn ReadAt, size: u64, mut offset: u64) -> io::Result<u64> {
    loop {
        let mut header = [0; 4];
        let found = read_some(file, &mut header[..3], offset)?.len();
        if found < 3 {
            return Ok(size.saturating_add(1));
        }
        let bits = u32::from_le_bytes(header);
        let len = if bits >> 1 & 3 == 1 { 1 } else { u64::from(bits >> 3) };
        offset = offset.saturating_add(3 + len);
        if bits & 1 == 1 || offset > size {
            return Ok(offset);
        }
    }
}
