//! Frames of a stream, in the order they come.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use kubexm_spec::Digest;

use crate::frame::{self, Place};
use crate::open::HeadFrames;
use crate::read::seek_table_of;
use crate::source::io_error;
use crate::trailer::Trailer;
use crate::volume_header::{self, VolumeHeader};
use crate::{ArchiveError, seek_table, walk};

/// Whether the last bytes are those of a seek table.
pub(crate) fn ends_as_a_bundle(bytes: &[u8]) -> bool {
    bytes.last_chunk::<{ seek_table::FOOTER }>().is_some_and(|footer| seek_table::frames_in(footer).is_some())
}

/// Frames in the order they come.
pub(crate) struct FrameReader<'a, R> {
    pub(crate) reader: BufReader<R>,
    pub(crate) name: &'a Path,
    pub(crate) offset: u64,
    pub(crate) seen: Seen,
}

/// Where everything was that has passed.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) frames: Vec<Place>,
    pub(crate) volumes: Vec<(Place, Vec<u8>)>,
    pub(crate) head_digests: Vec<Digest>,
}

impl<R: Read> FrameReader<'_, R> {
    /// Looks at the first bytes without taking them.
    pub(crate) fn demand_bundle(&mut self) -> Result<(), ArchiveError> {
        let start = self.reader.fill_buf().map_err(io_error("read", self.name))?;
        let reason = if start.is_empty() {
            "nothing came"
        } else if !start.starts_with(&volume_header::MAGIC) && !frame::begins_raw(&start[..start.len().min(5)]) {
            "it does not begin like a bundle"
        } else {
            return Ok(());
        };
        Err(ArchiveError::NotABundle { path: self.name.to_owned(), reason: reason.to_owned() })
    }

    /// The next frame with content, into an empty buffer; headers of volumes before it are noted.
    pub(crate) fn next(&mut self, mut spare: Vec<u8>) -> Result<(Place, Vec<u8>), ArchiveError> {
        self.headers()?;
        spare.clear();
        self.take(&mut spare, 4)?;
        let size = self.blocks(&mut spare)?;
        let place = self.place(&spare, size);
        self.seen.frames.push(place);
        Ok((place, spare))
    }

    /// Takes the headers of volumes that come next.
    pub(crate) fn headers(&mut self) -> Result<(), ArchiveError> {
        while self.reader.fill_buf().map_err(io_error("read", self.name))?.first() == volume_header::MAGIC.first() {
            let mut header = Vec::new();
            self.take(&mut header, volume_header::LEN)?;
            let place = self.place(&header, 0);
            let Ok(found) = VolumeHeader::decode(&header) else {
                return Err(self.damaged("volume header", place.offset, "it is not that of a volume"));
            };
            // Numbers end at 999, so no stream can fill the memory with headers.
            if found.number as usize != self.seen.volumes.len() + 1 {
                let problem = format!("it is that of volume {}, not of {}", found.number, self.seen.volumes.len() + 1);
                return Err(self.damaged("volume header", place.offset, &problem));
            }
            self.seen.volumes.push((place, header));
        }
        Ok(())
    }

    /// What follows the magic number of a frame with content: header, blocks, checksum. The size is the one in the
    /// header.
    fn blocks(&mut self, frame: &mut Vec<u8>) -> Result<u32, ArchiveError> {
        let at = self.offset;
        let wrong = |this: &Self| this.damaged("frames", at, "no frame of a bundle is here");
        self.take(frame, 1)?;
        let Some(header) = walk::header_len(frame) else { return Err(wrong(self)) };
        self.take(frame, header - 5)?;
        let size = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten();
        let size = size.and_then(|size| u32::try_from(size).ok()).filter(|size| (1..=frame::INPUT).contains(size));
        let Some(size) = size else { return Err(wrong(self)) };
        loop {
            let block = self.take(frame, 3)?;
            let bits = u32::from_le_bytes([block[0], block[1], block[2], 0]);
            let len = if bits >> 1 & 3 == 1 { 1 } else { (bits >> 3) as usize };
            if frame.len() + len + 4 > frame::max_len() as usize {
                return Err(wrong(self));
            }
            self.take(frame, len)?;
            if bits & 1 == 1 {
                break;
            }
        }
        // The checksum, which every frame of a bundle has.
        self.take(frame, 4)?;
        Ok(size)
    }

    /// Appends so many bytes.
    pub(crate) fn take<'f>(&mut self, frame: &'f mut Vec<u8>, len: usize) -> Result<&'f [u8], ArchiveError> {
        let start = frame.len();
        let found = (&mut self.reader).take(len as u64).read_to_end(frame).map_err(io_error("read", self.name))?;
        if found < len {
            let at = self.offset + frame.len() as u64;
            // The very end has come: what runs past it does so because it tells another length than it has.
            if ends_as_a_bundle(frame) {
                return Err(self.damaged("frames", self.offset, "no frame of a bundle is here"));
            }
            return Err(ArchiveError::Truncated { path: self.name.to_owned(), at });
        }
        Ok(&frame[start..])
    }

    fn place(&mut self, frame: &[u8], size: u32) -> Place {
        let place = Place { offset: self.offset, len: frame.len() as u32, size };
        self.offset += frame.len() as u64;
        place
    }

    pub(crate) fn damaged(&self, part: &str, offset: u64, problem: &str) -> ArchiveError {
        let (path, part, problem) = (self.name.to_owned(), part.to_owned(), problem.to_owned());
        ArchiveError::Damaged { path, part, offset, problem }
    }
}

impl<R: Read> HeadFrames for FrameReader<'_, R> {
    fn frame(&mut self, _: usize) -> Result<Option<(Place, Vec<u8>)>, ArchiveError> {
        let (place, bytes) = self.next(Vec::new())?;
        self.seen.head_digests.push(frame::digest(&bytes));
        Ok(Some((place, bytes)))
    }

    fn at(&self, offset: u64) -> (PathBuf, u64) {
        (self.name.to_owned(), offset)
    }
}

pub(crate) struct State<'a, R> {
    pub(crate) frames: FrameReader<'a, R>,
    /// Nothing can be read behind this.
    pub(crate) failed: Option<ArchiveError>,
}

impl<R: Read> State<'_, R> {
    /// The trailer and the seek table that the frames make, where a volume's header is before them too.
    pub(crate) fn expected(
        &mut self,
        signature_frame: usize,
        format: u32,
        digests: &HashMap<usize, Digest>,
    ) -> (Vec<u8>, Vec<u8>) {
        // The tail may stand alone in a volume of its own.
        if self.frames.reader.fill_buf().is_ok_and(|next| next.starts_with(&volume_header::MAGIC)) {
            let mut header = Vec::new();
            if self.frames.take(&mut header, volume_header::LEN).is_ok() {
                let place = self.frames.place(&header, 0);
                self.frames.seen.volumes.push((place, header));
            }
        }
        let seen = &self.frames.seen;
        let digests: Vec<[u8; 32]> = (0..seen.frames.len())
            .filter(|number| *number != signature_frame)
            .map(|number| match seen.head_digests.get(number) {
                Some(digest) => *digest.as_bytes(),
                None => digests.get(&number).map_or([0; 32], |digest| *digest.as_bytes()),
            })
            .collect();
        let volumes: Vec<Place> = seen.volumes.iter().map(|(place, _)| *place).collect();
        let trailer_len = crate::trailer::len(digests.len());
        let table = seek_table_of(&seen.frames, &volumes, trailer_len);
        let total = self.frames.offset + (trailer_len + table.len()) as u64;
        let trailer = Trailer { format, volumes: volumes.len().max(1) as u32, total, digests };
        (trailer.encode(), table)
    }
}
