//! Signing in place: the signatures of a bundle are replaced in the signature slot, and no other byte is touched.
//!
//! The room is one frame of fixed length, at one place of one file (of a split bundle: of the volume that has it). It is not
//! in the trailer, so nothing else has to be written. A crash while it is written can tear this frame and nothing else, and
//! a torn one is taken for an empty one when the bundle is signed again.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use kubexm_spec::Digest;

use crate::frame::Encoder;
use crate::partial::Partial;
use crate::signature_slot::{self, SIGNATURE_ROOM};
use crate::source::io_error;
use crate::{ArchiveError, Bundle, Encoding, Signature, members, sums, tar_header};

/// Bytes that are read at a time for the sums.
const CHUNK: usize = 1 << 20;

/// A bundle that is open for signing, locked against other signers until this is dropped.
#[derive(Debug)]
pub struct Signing {
    bundle: Bundle,
    /// Locked.
    file: File,
    /// The bundle's file, or the volume that has the room.
    path: PathBuf,
    /// Of the room's frame, in that file.
    offset: u64,
    /// Bytes of that frame.
    len: usize,
}

/// What [`Signing::replace`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The file in which the signatures are.
    pub file: PathBuf,
    /// `NAME.sums` with the file's new sum, where there was one that lists it.
    pub sums: Option<PathBuf>,
    /// `NAME.sums` that was left as it is, since it cannot be read as one, and why.
    pub left: Option<(PathBuf, String)>,
}

/// `NAME.sums` beside a bundle.
struct SumsFile {
    path: PathBuf,
    lines: Vec<(Digest, String)>,
    /// The line of the file that has the room.
    line: usize,
}

impl Signing {
    /// Opens a bundle in files and locks the one that has the room for signatures.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        let (found, _) = place(&Bundle::open_to_sign(path)?);
        let file = OpenOptions::new().read(true).write(true).open(&found).map_err(|source| match source.kind() {
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                ArchiveError::NotWritable { path: found.clone(), source }
            }
            _ => io_error("open for writing", &found)(source),
        })?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ArchiveError::BeingSigned { path: found }),
            Err(TryLockError::Error(source)) => return Err(io_error("lock", &found)(source)),
        }
        // Read again behind the lock: what was signed in the meantime must not be lost.
        let bundle = Bundle::open_to_sign(path)?;
        let (path, offset) = place(&bundle);
        let len = bundle.0.frames.get(bundle.0.head.signature_frame).map_or(0, |place| place.len as usize);
        let ours = file.metadata().map_err(io_error("examine", &path))?;
        let same = fs::metadata(&path).is_ok_and(|m| (m.dev(), m.ino()) == (ours.dev(), ours.ino()));
        if path != found || !same {
            // Another build has put its bundle there.
            return Err(ArchiveError::BeingSigned { path });
        }
        Ok(Self { bundle, file, path, offset, len })
    }

    /// The bundle, with the signatures that it has.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// Why the signatures that were there could not be read, if so: they are lost, and the room counts as empty.
    pub fn torn(&self) -> Option<&str> {
        self.bundle.0.head.torn_room.as_deref()
    }

    /// Puts these signatures in place of those that are there, brings them to the disk, and fixes `NAME.sums` beside the
    /// file. `progress` gets bytes read for that, and in all.
    pub fn replace(self, signatures: &[Signature], progress: &dyn Fn(u64, u64)) -> Result<Signed, ArchiveError> {
        let frame = self.frame(signatures)?;
        // Judged before anything is written, so that what is wrong there cannot end a signing half-way.
        let (beside, left) = match self.sums() {
            Ok(beside) => (beside, None),
            Err((path, problem)) => (None, Some((path, problem))),
        };
        let mut old = vec![0; frame.len()];
        self.file.read_exact_at(&mut old, self.offset).map_err(io_error("read", &self.path))?;
        if old != frame {
            self.file.write_all_at(&frame, self.offset).map_err(io_error("write", &self.path))?;
            self.file.sync_all().map_err(io_error("write out", &self.path))?;
        }
        let sums = beside.map(|beside| self.rewrite(beside, progress)).transpose()?;
        Ok(Signed { file: self.path.clone(), sums, left })
    }

    fn frame(&self, signatures: &[Signature]) -> Result<Vec<u8>, ArchiveError> {
        let mut stream = tar_header::encode(members::SIGNATURE, SIGNATURE_ROOM as u64).to_vec();
        stream.extend(signature_slot::encode(signatures)?);
        let mut frame = Vec::new();
        Encoder::new(1)
            .and_then(|mut encoder| encoder.encode(Encoding::Raw, &stream, &mut frame))
            .map_err(io_error("prepare to write", &self.path))?;
        if frame.len() == self.len {
            return Ok(frame);
        }
        let problem = format!("the signature slot has {} bytes there and {} here", self.len, frame.len());
        Err(ArchiveError::Unwritable { problem })
    }

    /// The sums file, if there is one that lists the file; its path and the reason when it is of another form.
    fn sums(&self) -> Result<Option<SumsFile>, (PathBuf, String)> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let name = self.bundle.path().file_name().unwrap_or_default();
        let path = sums::path_of(&folder.join(name));
        if !path.is_file() {
            return Ok(None);
        }
        let lines = match sums::read(&path) {
            Ok(lines) => lines,
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                let problem = match error {
                    ArchiveError::Damaged { part, problem, .. } => format!("{part}: {problem}"),
                    other => format!("{other}{cause}"),
                };
                return Err((path, problem));
            }
        };
        let ours = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let line = lines.iter().position(|(_, name)| *name == ours);
        Ok(line.map(|line| SumsFile { path, lines, line }))
    }

    /// Gives the file its new sum there.
    fn rewrite(&self, mut beside: SumsFile, progress: &dyn Fn(u64, u64)) -> Result<PathBuf, ArchiveError> {
        let now = self.sum(progress)?;
        if let Some(line) = beside.lines.get_mut(beside.line).filter(|line| line.0 != now) {
            line.0 = now;
            sums::write(&beside.path, &beside.lines)?;
        }
        Ok(beside.path)
    }

    fn sum(&self, progress: &dyn Fn(u64, u64)) -> Result<Digest, ArchiveError> {
        let failed = |source| io_error("read", &self.path)(source);
        let total = self.file.metadata().map_err(failed)?.len();
        let mut hasher = kubexm_spec::digest::Hasher::default();
        let (mut buffer, mut done) = (vec![0; CHUNK], 0);
        loop {
            match self.file.read_at(&mut buffer, done) {
                Ok(0) => return Ok(hasher.finish()),
                Ok(n) => {
                    hasher.update(&buffer[..n]);
                    done += n as u64;
                    progress(done, total);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
    }
}

impl Drop for Signing {
    /// Closing alone would leave the lock to a child process that another thread has forked and that has not begun yet.
    fn drop(&mut self) {
        // What cannot be unlocked is unlocked by the end of the process.
        let _ = self.file.unlock();
    }
}

/// Where the signatures of a bundle are that are in a file of their own: `x.tar.zst` has `x.sig`.
pub fn detached_path_of(bundle: &Path) -> PathBuf {
    sums::path_of(bundle).with_extension("sig")
}

/// Writes signatures into a file of their own, whole or not at all.
pub fn write_detached(path: &Path, signatures: &[Signature]) -> Result<(), ArchiveError> {
    let partial = Partial::create(path)?;
    let mut json = signature_slot::to_json(signatures);
    json.push(b'\n');
    partial.file().write_all(&json).map_err(io_error("write", partial.path()))?;
    partial.commit()
}

/// The file in which the room for signatures is, and where.
fn place(bundle: &Bundle) -> (PathBuf, u64) {
    let offset = bundle.0.frames.get(bundle.0.head.signature_frame).map_or(0, |place| place.offset);
    bundle.0.origin.at(offset)
}
