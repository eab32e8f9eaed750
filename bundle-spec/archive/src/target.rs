//! Where frames go: one file, or volumes that are cut between frames.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use kubexm_files::is_stdout;
use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;
use rustix::fs::Advice;

use crate::frame::Place;
use crate::partial::Partial;
use crate::source::{self, io_error};
use crate::trailer::{self, Trailer};
use crate::volume_header::{self, VolumeHeader};
use crate::volumes::volume_name;
use crate::{ArchiveError, seek_table, sidecar, sums};

/// Bytes that the disk is given at a time.
const PIECE: u64 = 8 << 20;

/// Standard output in messages.
const STDOUT: &str = "standard output";

/// A bundle that is being written. Nothing has a final name before [`Target::finish`].
pub(crate) struct Target<'t> {
    path: &'t Path,
    format: u32,
    bundle_id: Digest,
    /// The most bytes of a volume.
    split: Option<u64>,
    /// What the split must be at least, should this one prove too small.
    fits: u64,
    current: Volume,
    whole: Vec<Volume>,
    places: Vec<Place>,
    offset: u64,
    /// A frame that comes in parts.
    parts: Option<Parts>,
}

/// A frame of which some parts are written.
struct Parts {
    /// Where it begins in the current volume, and the digest of the volume up to there.
    start: u64,
    before: Hasher,
    /// Its bytes so far.
    len: u64,
}

struct Volume {
    sink: Sink,
    len: u64,
    /// How far the kernel was asked to begin to write.
    begun: u64,
    hasher: Hasher,
}

impl<'t> Target<'t> {
    /// Creates and locks the first file; `-` is standard output. `fits`: the smallest split that is certain to do, in bytes.
    pub(crate) fn create(
        path: &'t Path,
        format: u32,
        bundle_id: Digest,
        split: Option<u64>,
        fits: u64,
    ) -> Result<Self, ArchiveError> {
        if split.is_some() {
            sidecar::may_write_sums(path)?;
        }
        let first = if split.is_some() { volume_name(path, 1) } else { path.to_owned() };
        let current = match split {
            None if is_stdout(path) => Volume::stdout()?,
            _ => Volume::create(&first)?,
        };
        let (whole, places) = (Vec::new(), Vec::new());
        let mut target = Self { path, format, bundle_id, split, fits, current, whole, places, offset: 0, parts: None };
        if split.is_some() {
            target.header()?;
        }
        Ok(target)
    }

    /// Appends a frame with `size` bytes of content.
    pub(crate) fn frame(&mut self, frame: &[u8], size: u32) -> Result<(), ArchiveError> {
        self.room_for(frame.len())?;
        self.put(frame, size)
    }

    /// Appends the next bytes of a frame that is too large to be in memory. When they do not fit into the volume any more, the frame
    /// is moved to the next one.
    pub(crate) fn part(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        let parts = self.parts.get_or_insert_with(|| Parts {
            start: self.current.len,
            before: self.current.hasher.clone(),
            len: 0,
        });
        let added = bytes.len() as u64;
        match self.split {
            Some(split) if self.current.len + added > split => {
                let (start, len, before) = (parts.start, parts.len, parts.before.clone());
                self.move_to_next_volume(start, len + added, before)?;
            }
            _ => {}
        }
        self.current.put(bytes, self.split.is_some())?;
        if let Some(parts) = &mut self.parts {
            parts.len += added;
        }
        Ok(())
    }

    /// The frame of all parts since the last frame has `size` bytes of content.
    pub(crate) fn end_of_parts(&mut self, size: u32) -> Result<(), ArchiveError> {
        let len = self.parts.take().map_or(0, |parts| parts.len);
        let unwritable = |_| ArchiveError::Unwritable { problem: format!("a frame would have {len} bytes") };
        self.places.push(Place { offset: self.offset, len: u32::try_from(len).map_err(unwritable)?, size });
        self.offset += len;
        Ok(())
    }

    /// Takes what the current volume has from `start` on out of it, and to the begin of the next one, which gets `len` bytes of it.
    fn move_to_next_volume(&mut self, start: u64, len: u64, before: Hasher) -> Result<(), ArchiveError> {
        self.current.hasher = before;
        let moved = self.current.len - start;
        self.current.len = start;
        self.next_volume(len)?;
        let Some(last) = self.whole.last() else { return Ok(()) };
        let (mut piece, mut done) = (Vec::new(), 0);
        while done < moved {
            piece.resize((moved - done).min(PIECE) as usize, 0);
            last.sink.file().read_exact_at(&mut piece, start + done).map_err(io_error("read", last.sink.path()))?;
            self.current.put(&piece, true)?;
            done += piece.len() as u64;
        }
        last.sink.file().set_len(start).map_err(io_error("shorten", last.sink.path()))?;
        let at = self.current.len - moved;
        if let Some(parts) = &mut self.parts {
            parts.start = at;
        }
        Ok(())
    }

    /// Trailer and seek table; then everything gets its final name. Bytes in all, and the files.
    pub(crate) fn finish(mut self, digests: Vec<[u8; 32]>) -> Result<(u64, Vec<PathBuf>), ArchiveError> {
        let trailer_len = trailer::len(digests.len());
        // The tail is never cut; one entry more in the table, should it need a volume of its own.
        self.room_for(trailer_len + seek_table::len(self.places.len() + 2))?;
        let size = self.offset + (trailer_len + seek_table::len(self.places.len() + 1)) as u64;
        let volumes = self.whole.len() as u32 + 1;
        self.put(&Trailer { format: self.format, volumes, total: size, digests }.encode(), 0)?;
        let table = seek_table::encode(&self.places);
        self.current.put(&table, self.split.is_some())?;
        let files = self.commit()?;
        Ok((size, files))
    }

    fn room_for(&mut self, len: usize) -> Result<(), ArchiveError> {
        let Some(split) = self.split else { return Ok(()) };
        let len = len as u64;
        if self.current.len + len <= split { Ok(()) } else { self.next_volume(len) }
    }

    /// Ends the current volume; the next one must have room for `len` bytes.
    fn next_volume(&mut self, len: u64) -> Result<(), ArchiveError> {
        let split = self.split.unwrap_or(u64::MAX);
        let number = self.whole.len() as u32 + 2;
        if len.saturating_add(volume_header::LEN as u64) > split || number > volume_header::MAX {
            return Err(ArchiveError::SplitTooSmall { split, fits: self.fits });
        }
        let next = Volume::create(&volume_name(self.path, number))?;
        self.whole.push(std::mem::replace(&mut self.current, next));
        self.header()
    }

    fn header(&mut self) -> Result<(), ArchiveError> {
        let number = self.whole.len() as u32 + 1;
        let header = VolumeHeader { format: self.format, bundle_id: self.bundle_id, number, offset: self.offset };
        self.put(&header.encode(), 0)
    }

    fn put(&mut self, frame: &[u8], size: u32) -> Result<(), ArchiveError> {
        self.current.put(frame, self.split.is_some())?;
        self.places.push(Place { offset: self.offset, len: frame.len() as u32, size });
        self.offset += frame.len() as u64;
        Ok(())
    }

    fn commit(self) -> Result<Vec<PathBuf>, ArchiveError> {
        let Self { path, split, current, mut whole, .. } = self;
        if split.is_none() {
            return match current.sink {
                Sink::Stdout(_) => Ok(vec![path.to_owned()]),
                Sink::File(partial) => {
                    partial.commit()?;
                    sidecar::tidy_after_one(path).map(|()| vec![path.to_owned()])
                }
            };
        }
        // Somebody may have put one there in the meantime.
        sidecar::may_write_sums(path)?;
        whole.push(current);
        for volume in &whole {
            volume.sink.sync()?;
        }
        let (mut files, mut lines) = (Vec::new(), Vec::new());
        for (volume, number) in whole.into_iter().zip(1..) {
            let file = volume_name(path, number);
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            lines.push((volume.hasher.finish(), name));
            volume.sink.commit()?;
            files.push(file);
        }
        remove_stale(path, files.len() as u32)?;
        sidecar::remove_partials(path, files.len() as u32)?;
        sums::write(&sums::path_of(path), &lines)?;
        sidecar::tidy_after_volumes(path)?;
        Ok(files)
    }
}

/// Where the bytes of a volume go.
enum Sink {
    File(Partial),
    /// Nothing can be rolled back that was written.
    Stdout(File),
}

impl Sink {
    fn file(&self) -> &File {
        match self {
            Self::File(partial) => partial.file(),
            Self::Stdout(file) => file,
        }
    }

    /// For messages.
    fn path(&self) -> &Path {
        match self {
            Self::File(partial) => partial.path(),
            Self::Stdout(_) => Path::new(STDOUT),
        }
    }

    fn sync(&self) -> Result<(), ArchiveError> {
        match self {
            Self::File(partial) => partial.sync(),
            Self::Stdout(_) => Ok(()),
        }
    }

    fn commit(self) -> Result<(), ArchiveError> {
        match self {
            Self::File(partial) => partial.commit(),
            Self::Stdout(_) => Ok(()),
        }
    }
}

impl Volume {
    fn create(path: &Path) -> Result<Self, ArchiveError> {
        Ok(Self::to(Sink::File(Partial::create(path)?)))
    }

    fn stdout() -> Result<Self, ArchiveError> {
        let own = std::io::stdout().as_fd().try_clone_to_owned().map_err(io_error("open", Path::new(STDOUT)))?;
        Ok(Self::to(Sink::Stdout(own.into())))
    }

    fn to(sink: Sink) -> Self {
        Self { sink, len: 0, begun: 0, hasher: Hasher::default() }
    }

    fn put(&mut self, bytes: &[u8], summed: bool) -> Result<(), ArchiveError> {
        self.sink.file().write_all(bytes).map_err(io_error("write", self.sink.path()))?;
        self.len += bytes.len() as u64;
        self.begin_to_write();
        if summed {
            self.hasher.update(bytes);
        }
        Ok(())
    }

    /// Has the kernel bring to the disk what there is so far, while more is made: left to itself it begins with the fsync at
    /// the end, and everybody waits for all of it.
    fn begin_to_write(&mut self) {
        let Sink::File(partial) = &self.sink else { return };
        let whole = self.len / PIECE * PIECE;
        if let Some(len) = NonZeroU64::new(whole - self.begun) {
            // Pages that are not needed any more are written first, and not dropped before that. An advice: whoever does not
            // take it writes at the end.
            let _ = rustix::fs::fadvise(partial.file(), self.begun, Some(len), Advice::DontNeed);
            self.begun = whole;
        }
    }
}

/// Volumes of an earlier, longer bundle of the same name would be taken for ones of this.
fn remove_stale(path: &Path, last: u32) -> Result<(), ArchiveError> {
    for number in last + 1..=volume_header::MAX {
        let stale = volume_name(path, number);
        let mut start = [0; 4];
        match source::open(&stale).and_then(|mut file| file.read_exact(&mut start)) {
            Ok(()) if start == volume_header::MAGIC => fs::remove_file(&stale).map_err(io_error("remove", &stale))?,
            _ => break,
        }
    }
    Ok(())
}
