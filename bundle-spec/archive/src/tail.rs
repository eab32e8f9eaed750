//! The end of the file: seek table and trailer. Gives the offset of every frame, within limits, before anything else
//! is read.

use crate::frame::{self, Place};
use crate::group::GROUP_LIMIT;
use crate::source::{Origin, io_error, read_some};
use crate::trailer::{Refusal, Trailer};
use crate::walk::{self, Walk};
use crate::{ArchiveError, seek_table, trailer, volume_header, volumes};

/// The largest trailer that is read: one of [`seek_table::MAX_FRAMES`] digests.
const TRAILER_MAX: u32 = trailer::len(seek_table::MAX_FRAMES as usize) as u32;

/// What the end of a bundle says.
pub(crate) struct Tail {
    /// Every frame with content.
    pub(crate) frames: Vec<Place>,
    /// The headers of volumes; none in a bundle that is not split.
    pub(crate) volumes: Vec<Place>,
    /// Checked against itself and the file's length.
    pub(crate) trailer: Trailer,
}

impl Tail {
    /// Reads and checks it.
    pub(crate) fn read(origin: &Origin) -> Result<Self, ArchiveError> {
        let size = origin.len();
        let footer_at = size.saturating_sub(seek_table::FOOTER as u64);
        let mut footer = [0; seek_table::FOOTER];
        let footer =
            read_some(&*origin.source, &mut footer, footer_at).map_err(io_error("read", &origin.at(footer_at).0))?;
        let Some(count) = seek_table::frames_in(footer) else { return Err(no_tail(origin)) };
        let table_damaged = |problem: &str| origin.damaged("seek table", footer_at, problem);
        if count > seek_table::MAX_FRAMES {
            return Err(table_damaged("states more frames than any bundle has"));
        }
        let table_len = seek_table::len(count as usize);
        let Some(table_at) = size.checked_sub(table_len as u64) else {
            return Err(table_damaged("is longer than the file"));
        };
        let table = origin.read(table_at, table_len)?;
        // A count that lies leads to a place where no table begins: what is wrong then is in the footer.
        let begins = table.first_chunk().is_some_and(|magic| seek_table::is_magic(*magic));
        let problem_at = if begins { table_at } else { footer_at };
        let table_damaged = |problem: &str| origin.damaged("seek table", problem_at, problem);
        let mut places = seek_table::decode(&table).ok_or_else(|| table_damaged("is not well formed"))?;
        let Some(last) = places.pop() else { return Err(table_damaged("is empty")) };
        if last.offset + u64::from(last.len) != table_at || last.size != 0 || last.len > TRAILER_MAX {
            return Err(misplaced(origin, table_at));
        }
        let (volumes, frames): (Vec<_>, Vec<_>) = places.into_iter().partition(|place| place.size == 0);
        if frames.iter().any(|p| u64::from(p.size) > GROUP_LIMIT || p.len > frame::bound(p.size))
            || volumes.iter().any(|p| p.len as usize != volume_header::LEN)
        {
            return Err(table_damaged("has a frame of a size that no frame has"));
        }
        if volumes.len() > volume_header::MAX as usize {
            return Err(table_damaged("states more volumes than any bundle has"));
        }
        let bytes = origin.read(last.offset, last.len as usize)?;
        let trailer = Trailer::decode(&bytes).map_err(|refusal| match refusal {
            Refusal::Foreign if !begins_like_a_bundle(origin) => {
                not_a_bundle(origin, "it is some other seekable zstd file")
            }
            Refusal::Foreign | Refusal::Damaged => {
                origin.damaged("trailer", last.offset, "does not match its own digest")
            }
            Refusal::Newer(format) => {
                ArchiveError::Newer { path: origin.name.clone(), what: format!("format {format}") }
            }
        })?;
        // One digest for each frame but the signature's; a header at the start of each volume.
        let split = !volumes.is_empty() || trailer.volumes != 1;
        if trailer.total != size
            || trailer.digests.len() + 1 != frames.len()
            || split && (volumes.len() != trailer.volumes as usize || volumes.first().is_none_or(|p| p.offset != 0))
        {
            return Err(origin.damaged("trailer", last.offset, "is that of another file"));
        }
        Ok(Self { frames, volumes, trailer })
    }
}

/// A seek table that covers more, or fewer, bytes than precede it: also the last volume alone.
fn misplaced(origin: &Origin, table_at: u64) -> ArchiveError {
    let mut start = [0; volume_header::LEN];
    let start = read_some(&*origin.source, &mut start, 0).unwrap_or_default();
    if volume_header::VolumeHeader::decode(start).is_ok_and(|header| header.number != 1) {
        return lone_volume(origin);
    }
    origin.damaged("seek table", table_at, "does not cover the file up to itself")
}

fn lone_volume(origin: &Origin) -> ArchiveError {
    let problem =
        "it is one volume of a split bundle, and the others are not beside it; give them all, or their folder";
    let missing = volumes::split_name(&origin.name).map(|(name, _)| volumes::volume_name(&name, 1));
    let missing = missing.into_iter().collect();
    ArchiveError::VolumeMissing { path: origin.name.clone(), missing, problem: problem.to_owned() }
}

/// What a file without a seek table is.
fn no_tail(origin: &Origin) -> ArchiveError {
    let mut start = [0; volume_header::LEN];
    let start = match read_some(&*origin.source, &mut start, 0) {
        Ok(start) => start,
        Err(e) => return io_error("read", &origin.name)(e),
    };
    let header = volume_header::VolumeHeader::decode(start);
    if header.is_ok_and(|header| header.number != 1) {
        return lone_volume(origin);
    }
    if header.is_err() && !begins_like_a_bundle(origin) {
        return not_a_bundle(origin, "it does not begin like a bundle");
    }
    let size = origin.len();
    match walk::walk(&*origin.source) {
        Ok(Walk::EndsBetweenFrames) if header.is_ok() => {
            let (last, _) = origin.at(size.saturating_sub(1));
            let next = volumes::split_name(&last).map(|(name, number)| volumes::volume_name(&name, number + 1));
            let named = next.as_ref().map_or_else(
                || "the volumes after it are missing".to_owned(),
                |next| format!("{} is missing, and perhaps others after it", next.display()),
            );
            let problem = format!("it is not the last volume: {named}");
            ArchiveError::VolumeMissing { path: last, missing: next.into_iter().collect(), problem }
        }
        Ok(Walk::Truncated | Walk::EndsBetweenFrames) => {
            let (path, at) = origin.at(size);
            if volumes::split_name(&path).is_none() {
                return ArchiveError::Truncated { path, at };
            }
            let problem = format!("the volume is cut at byte {at}; copy this one volume again");
            ArchiveError::VolumeMissing { missing: vec![path.clone()], path, problem }
        }
        Ok(Walk::Damaged(offset)) => {
            let part = if offset + seek_table::FOOTER as u64 >= size { "seek table" } else { "frames" };
            origin.damaged(part, offset, "no frame of a bundle is here")
        }
        Err(e) => io_error("read", &origin.name)(e),
    }
}

fn not_a_bundle(origin: &Origin, reason: &str) -> ArchiveError {
    ArchiveError::NotABundle { path: origin.name.clone(), reason: reason.to_owned() }
}

/// A raw frame whose content is the tar header of manifest.json, perhaps behind a volume's header; of a shorter file, as far
/// as it goes.
fn begins_like_a_bundle(origin: &Origin) -> bool {
    let mut start = [0; volume_header::LEN + frame::RAW_CONTENT + crate::members::MANIFEST.len() + 1];
    let Ok(mut start) = read_some(&*origin.source, &mut start, 0) else { return false };
    if start.starts_with(&volume_header::MAGIC) {
        start = start.get(volume_header::LEN..).unwrap_or_default();
    }
    let start = &start[..start.len().min(frame::RAW_CONTENT + crate::members::MANIFEST.len() + 1)];
    let name = start.get(frame::RAW_CONTENT..).unwrap_or_default();
    frame::begins_raw(start) && format!("{}\0", crate::members::MANIFEST).as_bytes().starts_with(name)
}
