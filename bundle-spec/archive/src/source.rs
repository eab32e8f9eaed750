//! The input of a bundle's bytes: anything that can be read at any offset.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::ArchiveError;

/// Bytes that can be read from any place, by several threads at once: a file, the volumes of a split bundle, a web server.
pub trait ReadAt: Debug + Send + Sync {
    /// Reads from `offset` on; fewer bytes than the buffer has are no error, none at all means the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Length in bytes, when it was opened.
    fn len(&self) -> u64;

    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The files that the bytes lie in, in order; none where they lie in no file.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// The file that a byte lies in, and where in it; nothing when the whole has one name only.
    fn locate(&self, offset: u64) -> Option<(PathBuf, u64)> {
        let _ = offset;
        None
    }

    /// Whether the bytes were seen to be no longer those that were opened.
    fn has_changed(&self) -> bool {
        false
    }
}

/// One file.
#[derive(Debug)]
pub(crate) struct FileSource {
    file: File,
    path: PathBuf,
    len: u64,
}

impl FileSource {
    /// Opens a regular file.
    pub(crate) fn open(path: &Path) -> Result<Self, ArchiveError> {
        let file = open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ArchiveError::NoSuchFile { path: path.to_owned(), near: Vec::new() },
            _ => io_error("open", path)(error),
        })?;
        let metadata = file.metadata().map_err(io_error("examine", path))?;
        if !metadata.is_file() {
            let reason =
                if metadata.is_dir() { "it is a folder" } else { "it is not a regular file (a pipe is verified as -)" };
            return Err(ArchiveError::NotABundle { path: path.to_owned(), reason: reason.into() });
        }
        Ok(Self { file, path: path.to_owned(), len: metadata.len() })
    }
}

/// Opens for reading. A pipe without a writer is opened too, without waiting.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

impl ReadAt for FileSource {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.file, buffer, offset)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn has_changed(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.len() != self.len)
    }
}

/// A source with the name that messages give it.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The file, the first part of a split bundle's name, or an address.
    pub(crate) name: PathBuf,
    pub(crate) source: Arc<dyn ReadAt>,
}

impl Origin {
    pub(crate) fn len(&self) -> u64 {
        self.source.len()
    }

    /// Exactly `len` bytes. The caller has held `len` against a limit.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, ArchiveError> {
        let mut buffer = Vec::new();
        self.read_into(&mut buffer, offset, len)?;
        Ok(buffer)
    }

    /// The same in a buffer that was used before.
    pub(crate) fn read_into(&self, buffer: &mut Vec<u8>, offset: u64, len: usize) -> Result<(), ArchiveError> {
        // New memory comes as zeros; what is in the buffer is overwritten.
        if buffer.capacity() < len {
            *buffer = vec![0; len];
        }
        buffer.resize(len, 0);
        self.fill(buffer, offset).map_err(io_error("read", &self.at(offset).0))
    }

    /// Fills the whole buffer.
    pub(crate) fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if read_some(&*self.source, buffer, offset)?.len() == buffer.len() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends before it should; it was cut while it was read"))
    }

    /// Reads so many bytes from a byte on.
    pub(crate) fn range(&self, offset: u64, len: u64) -> OriginRange {
        OriginRange { source: Arc::clone(&self.source), at: offset, end: offset.saturating_add(len) }
    }

    /// A place in words: the file, and the byte in it.
    pub(crate) fn at(&self, offset: u64) -> (PathBuf, u64) {
        self.source.locate(offset).unwrap_or_else(|| (self.name.clone(), offset))
    }

    pub(crate) fn damaged(&self, part: &str, offset: u64, problem: &str) -> ArchiveError {
        let (path, offset) = self.at(offset);
        ArchiveError::Damaged { path, part: part.to_owned(), offset, problem: problem.to_owned() }
    }
}

/// A part of an origin, read from its begin to its end.
pub(crate) struct OriginRange {
    source: Arc<dyn ReadAt>,
    at: u64,
    end: u64,
}

impl io::Read for OriginRange {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.source.read_at(&mut buffer[..len], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// As many bytes as there are from `offset` on, up to the buffer's length.
pub(crate) fn read_some<'b>(source: &dyn ReadAt, buffer: &'b mut [u8], offset: u64) -> io::Result<&'b [u8]> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(&buffer[..filled])
}

/// For `map_err`: what was tried, on what.
pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ArchiveError {
    move |source| ArchiveError::Io { action, path: path.to_owned(), source }
}
