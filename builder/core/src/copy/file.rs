//! One file: compared with what is there, copied, read back, named.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use kubexm_archive::{open_locked, partial_path};
use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;

use super::CopyError;
use super::error::io_error;
use super::items::{Item, There};
use super::medium::{FromMedium, PIECE, ReadBack};

/// Bytes written between two syncs: progress then shows what is on the medium, not in the page cache.
const SYNC: u64 = 32 << 20;
/// What a copy takes of its source's permissions: nobody gets more than the reader has, and no program of a medium becomes root's.
const MODES: u32 = 0o755;

/// What was read of a source, so that it can be compared with what the medium gives back.
#[derive(Default)]
struct Sums {
    whole: Hasher,
    pieces: Vec<Digest>,
}

impl Sums {
    fn take(&mut self, piece: &[u8]) {
        self.whole.update(piece);
        self.pieces.push(Digest::of(piece));
    }
}

/// Holds what is there against the source. `progress` gets bytes compared.
pub(crate) fn look(item: &Item, target: &Path, progress: &dyn Fn(u64)) -> Result<(There, Option<ReadBack>), CopyError> {
    let there = match fs::symlink_metadata(target) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((There::Absent, None)),
        other => other.map_err(io_error("examine", target))?,
    };
    if !there.is_file() || there.len() != item.size {
        return Ok((There::Wrong, None));
    }
    let mut source = item.open()?;
    let mut medium = FromMedium::open(target).map_err(io_error("read back", target))?;
    let (mut sums, mut done) = (Sums::default(), 0);
    let same = same_from_start(&mut source, &mut medium, item, target, &mut |piece| {
        sums.take(piece);
        done += piece.len() as u64;
        progress(done);
    })?;
    let there = if same == item.size { There::Right(sums.whole.finish()) } else { There::Wrong };
    Ok((there, Some(medium.how())))
}

/// Bytes in whole pieces that both have, from the start on; each piece is given.
fn same_from_start(
    source: &mut File,
    medium: &mut FromMedium,
    item: &Item,
    target: &Path,
    each: &mut dyn FnMut(&[u8]),
) -> Result<u64, CopyError> {
    let (mut piece, mut done) = (vec![0; PIECE], 0);
    loop {
        let read = fill(source, &mut piece).map_err(io_error("read", &item.source))?;
        if read == 0 {
            return Ok(done);
        }
        // A piece that the medium cannot give is as good as a wrong one: it is written anew.
        match medium.piece(done, read) {
            Ok(found) if found == &piece[..read] => {}
            Ok(_) => return Ok(done),
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => return Ok(done),
            Err(e) => return Err(io_error("read back", target)(e)),
        }
        each(&piece[..read]);
        done += read as u64;
    }
}

/// `.NAME.partial` in the target, locked. What a copy that was cut off has left there is used.
pub(crate) struct Partial {
    file: File,
    path: PathBuf,
}

impl Partial {
    fn open(target: &Path) -> Result<Self, CopyError> {
        let path = partial_path(target).unwrap_or_default();
        let opened = open_locked(&path).map_err(|(action, source)| io_error(action, &path)(source))?;
        let file = opened.ok_or_else(|| CopyError::Locked { path: target.to_owned() })?;
        Ok(Self { file, path })
    }

    fn remove(self) {
        // It has no name that anybody takes for a bundle; what cannot be removed is used by the next copy.
        let _ = fs::remove_file(&self.path);
    }
}

/// Progress that `one` reports, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Copy,
    ReadBack,
}

/// Copies a file, reads it back, and gives it its name only when that was right. Its digest, and how it was read back.
pub(crate) fn one(item: &Item, target: &Path, progress: &dyn Fn(Doing, u64)) -> Result<(Digest, ReadBack), CopyError> {
    let partial = Partial::open(target)?;
    let sums = match write(item, &partial, progress) {
        Ok(sums) => sums,
        Err(error) => {
            if matches!(&error, CopyError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull) {
                partial.remove();
            }
            return Err(error);
        }
    };
    let digest = sums.whole.finish();
    if let Some((_, sums)) = item.sum.as_ref().filter(|(wanted, _)| *wanted != digest) {
        partial.remove();
        return Err(CopyError::SourceDamaged { path: item.source.clone(), sums: sums.clone() });
    }
    let how = match read_back(item, &partial, target, &sums.pieces, progress) {
        Ok(how) => how,
        Err(error) => {
            partial.remove();
            return Err(error);
        }
    };
    let mode = fs::metadata(&item.source).map_err(io_error("examine", &item.source))?.permissions().mode();
    // FAT keeps no modes and refuses some; programs are made executable again where they arrive.
    let _ = partial.file.set_permissions(Permissions::from_mode(mode & MODES));
    fs::rename(&partial.path, target).map_err(io_error("name", target))?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|open| open.sync_all()).map_err(io_error("write out", folder))?;
    Ok((digest, how))
}

fn write(item: &Item, partial: &Partial, progress: &dyn Fn(Doing, u64)) -> Result<Sums, CopyError> {
    let mut source = item.open()?;
    let mut sums = Sums::default();
    let there = partial.file.metadata().map_err(io_error("examine", &partial.path))?.len();
    let mut done = 0;
    if there > 0 {
        let mut medium = FromMedium::open(&partial.path).map_err(io_error("read back", &partial.path))?;
        done = same_from_start(&mut source, &mut medium, item, &partial.path, &mut |piece| sums.take(piece))?;
        // What is shorter than a piece was compared with the piece's beginning, and is written anew.
        source.seek(SeekFrom::Start(done)).map_err(io_error("read", &item.source))?;
    }
    let failed = |e| io_error("write", &partial.path)(e);
    partial.file.set_len(done).map_err(failed)?;
    (&partial.file).seek(SeekFrom::Start(done)).map_err(io_error("write", &partial.path))?;
    let (mut piece, mut synced) = (vec![0; PIECE], done);
    loop {
        progress(Doing::Copy, done);
        let read = fill(&mut source, &mut piece).map_err(io_error("read", &item.source))?;
        if read == 0 {
            break;
        }
        sums.take(&piece[..read]);
        (&partial.file).write_all(&piece[..read]).map_err(io_error("write", &partial.path))?;
        done += read as u64;
        if done - synced >= SYNC {
            partial.file.sync_data().map_err(io_error("write out", &partial.path))?;
            synced = done;
        }
    }
    partial.file.sync_all().map_err(io_error("write out", &partial.path))?;
    Ok(sums)
}

fn read_back(
    item: &Item,
    partial: &Partial,
    target: &Path,
    pieces: &[Digest],
    progress: &dyn Fn(Doing, u64),
) -> Result<ReadBack, CopyError> {
    let mut medium = FromMedium::open(&partial.path).map_err(io_error("read back", target))?;
    let mut done = 0;
    for wanted in pieces {
        let found = medium.piece(done, PIECE).map_err(io_error("read back", target))?;
        if Digest::of(found) != *wanted {
            return Err(CopyError::Medium { path: target.to_owned(), offset: done });
        }
        done += found.len() as u64;
        progress(Doing::ReadBack, done.min(item.size));
    }
    Ok(medium.how())
}

/// As many bytes as the buffer has, fewer at the end.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
