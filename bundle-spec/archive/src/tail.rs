//! The end of the file: seek table and trailer. Says where every frame is, within limits, before anything else is read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::frame::{self, Place};
use crate::partial::io_error;
use crate::trailer::{Refusal, Trailer};
use crate::walk::{self, Walk};
use crate::{ArchiveError, seek_table, trailer};

/// The largest trailer that is read: one of [`seek_table::MAX_FRAMES`] digests.
const TRAILER_MAX: u32 = trailer::len(seek_table::MAX_FRAMES as usize) as u32;

/// Magic of the frame that begins each volume of a split bundle.
const VOLUME: [u8; 4] = 0x184D_2A5C_u32.to_le_bytes();

/// What the end of a bundle says.
pub(crate) struct Tail {
    /// Every frame of the file but the seek table; the last is the trailer.
    pub(crate) places: Vec<Place>,
    /// Checked against itself and the file's length.
    pub(crate) trailer: Trailer,
}

impl Tail {
    /// Reads and checks it.
    pub(crate) fn read(file: &File, size: u64, path: &Path) -> Result<Self, ArchiveError> {
        let damaged = |part: &str, offset: u64, problem: &str| ArchiveError::Damaged {
            path: path.to_owned(),
            part: part.to_owned(),
            offset,
            problem: problem.to_owned(),
        };
        let footer_at = size.saturating_sub(seek_table::FOOTER as u64);
        let mut footer = [0; seek_table::FOOTER];
        let footer = walk::read_some(file, &mut footer, footer_at).map_err(io_error("read", path))?;
        let Some(count) = seek_table::frames_in(footer) else { return Err(no_tail(file, size, path)) };
        let table_damaged = |problem: &str| damaged("seek table", footer_at, problem);
        if count > seek_table::MAX_FRAMES {
            return Err(table_damaged("tells more frames than any bundle has"));
        }
        let table_len = seek_table::len(count as usize);
        let Some(table_at) = size.checked_sub(table_len as u64) else {
            return Err(table_damaged("is longer than the file"));
        };
        let table = read_exact(file, table_at, table_len).map_err(io_error("read", path))?;
        let table_damaged = |problem: &str| damaged("seek table", table_at, problem);
        let places = seek_table::decode(&table).ok_or_else(|| table_damaged("is not well formed"))?;
        let Some((last, frames)) = places.split_last() else { return Err(table_damaged("is empty")) };
        if last.offset + u64::from(last.len) != table_at || last.size != 0 || last.len > TRAILER_MAX {
            return Err(table_damaged("does not cover the file up to itself"));
        }
        if frames.iter().any(|p| p.size == 0 || p.size > frame::INPUT || p.len > frame::max_len()) {
            return Err(table_damaged("has a frame of a size that no frame has"));
        }
        let bytes = read_exact(file, last.offset, last.len as usize).map_err(io_error("read", path))?;
        let trailer = Trailer::decode(&bytes).map_err(|refusal| match refusal {
            Refusal::Foreign if !begins_like_a_bundle(file) => {
                not_a_bundle(path, "it is some other seekable zstd file")
            }
            Refusal::Foreign | Refusal::Damaged => damaged("trailer", last.offset, "does not match its own digest"),
            Refusal::Newer(format) => ArchiveError::Newer { path: path.to_owned(), what: format!("format {format}") },
        })?;
        if trailer.volumes != 1 {
            return Err(ArchiveError::NotBuiltYet { path: path.to_owned(), feature: "volumes" });
        }
        // One digest for each frame but the signature's.
        if trailer.total != size || trailer.digests.len() + 1 != frames.len() {
            return Err(damaged("trailer", last.offset, "is that of another file"));
        }
        Ok(Self { places, trailer })
    }
}

/// What a file without a seek table is.
fn no_tail(file: &File, size: u64, path: &Path) -> ArchiveError {
    let mut start = [0; 4];
    match walk::read_some(file, &mut start, 0) {
        Ok(start) if start == VOLUME => {
            return ArchiveError::NotBuiltYet { path: path.to_owned(), feature: "volumes" };
        }
        Ok(_) if !begins_like_a_bundle(file) => return not_a_bundle(path, "it does not begin as a bundle does"),
        Ok(_) => {}
        Err(e) => return io_error("read", path)(e),
    }
    match walk::walk(file, size) {
        Ok(Walk::Truncated) => ArchiveError::Truncated { path: path.to_owned(), at: size },
        Ok(Walk::Damaged(offset)) => ArchiveError::Damaged {
            path: path.to_owned(),
            part: if offset + seek_table::FOOTER as u64 >= size { "seek table" } else { "frames" }.to_owned(),
            offset,
            problem: "no frame of a bundle stands here".to_owned(),
        },
        Err(e) => io_error("read", path)(e),
    }
}

fn not_a_bundle(path: &Path, reason: &str) -> ArchiveError {
    ArchiveError::NotABundle { path: path.to_owned(), reason: reason.to_owned() }
}

/// A raw frame whose content is the tar header of manifest.json; of a shorter file, as far as it goes.
fn begins_like_a_bundle(file: &File) -> bool {
    let mut start = [0; frame::RAW_CONTENT + crate::members::MANIFEST.len() + 1];
    let Ok(start) = walk::read_some(file, &mut start, 0) else { return false };
    let name = start.get(frame::RAW_CONTENT..).unwrap_or_default();
    frame::begins_raw(start) && format!("{}\0", crate::members::MANIFEST).as_bytes().starts_with(name)
}

/// Exactly `len` bytes. The caller has held `len` against a limit.
pub(crate) fn read_exact(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; len];
    file.read_exact_at(&mut buffer, offset)?;
    Ok(buffer)
}
