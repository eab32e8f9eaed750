//! A file that gets its final name only when it is whole.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use kubexm_files::check_regular;

use crate::ArchiveError;
use crate::source::io_error;

/// How the names of such files end.
pub(crate) const SUFFIX: &str = ".partial";

/// Removes one that a killed writer has left; one that somebody writes now stays.
pub(crate) fn remove_stale(path: &Path) -> Result<(), ArchiveError> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let opened = OpenOptions::new().write(true).custom_flags(flags.bits().cast_signed()).open(path);
    // What is a link, a folder or gone is none of ours.
    let Ok(file) = opened else { return Ok(()) };
    if !file.metadata().is_ok_and(|there| there.is_file()) || file.try_lock().is_err() {
        return Ok(());
    }
    let removed = match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path)(e)),
        _ => Ok(()),
    };
    // For the reason that `drop` gives.
    let _ = file.unlock();
    removed
}

/// `.NAME.partial` beside a target; nothing when the target names no file.
pub fn partial_path(target: &Path) -> Option<PathBuf> {
    let mut partial = OsString::from(".");
    partial.push(target.file_name()?);
    partial.push(SUFFIX);
    Some(target.with_file_name(partial))
}

/// Opens such a file, as an earlier writer may have left it, and locks it; nothing when another writer holds it. An error comes with
/// what was tried.
pub fn open_locked(path: &Path) -> Result<Option<File>, (&'static str, io::Error)> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)
            .map_err(|e| ("create", e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(("lock", source)),
        }
        // Between opening and locking, the writer before us may have renamed or removed what we opened.
        let ours = file.metadata().map_err(|e| ("examine", e))?;
        if ours.nlink() > 1 {
            let linked = "it is a second name of another file, which would be overwritten: remove that name";
            return Err(("use", io::Error::other(linked)));
        }
        if fs::symlink_metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (ours.dev(), ours.ino())) {
            return Ok(Some(file));
        }
    }
}

/// Makes the file that says whose a folder is, on the disk. Never through a link, and never what has a second name: on a medium, somebody else may
/// have laid it there.
pub fn make_mark(path: &Path) -> io::Result<()> {
    match open_locked(path) {
        Ok(Some(file)) if file.metadata()?.is_file() => file.sync_all(),
        Ok(Some(_)) => Err(io::Error::other("it is no file")),
        Ok(None) => Err(io::Error::other("another program holds it")),
        Err((_, error)) => Err(error),
    }
}

/// `.NAME.partial` beside the target, locked; removed when dropped without [`Partial::commit`].
///
/// After a kill the file stays, without a lock, and the next writer takes it over.
pub(crate) struct Partial {
    file: File,
    path: PathBuf,
    target: PathBuf,
    /// Whether a file stood there when this one was created.
    replaces: bool,
    whole: bool,
}

impl Partial {
    /// Creates and locks it, empty. A second writer of the same target gets [`ArchiveError::Locked`].
    pub(crate) fn create(target: &Path) -> Result<Self, ArchiveError> {
        let path = partial_path(target)
            .ok_or_else(|| ArchiveError::Unwritable { problem: format!("{} names no file", target.display()) })?;
        let replaces = check_regular(target)?.is_some();
        let opened = open_locked(&path).map_err(|(action, source)| io_error(action, &path)(source))?;
        let file = opened.ok_or_else(|| ArchiveError::Locked { target: target.to_owned() })?;
        file.set_len(0).map_err(io_error("empty", &path))?;
        Ok(Self { file, path, target: target.to_owned(), replaces, whole: false })
    }

    /// Where it is, for error messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file, to be written from the start.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Brings what was written to the disk.
    pub(crate) fn sync(&self) -> Result<(), ArchiveError> {
        self.file.sync_all().map_err(io_error("write out", &self.path))
    }

    /// Brings it to the disk, under its final name, unless something has appeared there since it was created.
    pub(crate) fn commit(mut self) -> Result<(), ArchiveError> {
        self.sync()?;
        check_regular(&self.target)?;
        kubexm_files::rename(&self.path, &self.target, self.replaces)?;
        self.whole = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.whole {
            // Nothing better can be done with an error here: the file has no name that anybody takes for a bundle. Removed while it is
            // locked: behind that, it may be the next writer's.
            let _ = fs::remove_file(&self.path);
        }
        // Said, not left to closing: a child that another thread has just forked may hold the file open a moment longer.
        let _ = self.file.unlock();
    }
}
