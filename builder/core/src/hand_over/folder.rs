//! The folder while it is made: under another name beside, or file by file where there is one already.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use kubexm_archive::make_mark;
use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;

use super::{HandOverError, io_error};

/// The last file that is written: without it a folder is not whole.
pub(super) const README: &str = "README.txt";

/// Marks an unfinished folder that a hand-over created: only files in such a folder are removed.
const MARK: &str = ".kubexm-hand-over";

/// An unfinished folder, locked.
pub(super) struct Folder {
    /// Where files are written now.
    work: PathBuf,
    target: PathBuf,
    lock: File,
    whole: bool,
}

impl Folder {
    /// A new folder gets its name when it is whole. One that is there must be empty, unless `force`.
    pub(super) fn begin(target: &Path, force: bool) -> Result<Self, HandOverError> {
        let is_new = is_new(target, force)?;
        let work = if is_new { beside(target)? } else { target.to_owned() };
        if is_new {
            match fs::create_dir(&work) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(io_error("create", &work))?,
            }
            // It is emptied below: a link would lead to somebody's own folder.
            if !fs::symlink_metadata(&work).is_ok_and(|there| there.is_dir()) {
                return Err(HandOverError::InTheWay { path: work });
            }
        }
        let lock = File::open(&work).map_err(io_error("open", &work))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(HandOverError::Locked { path: target.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(io_error("lock", &work)(source)),
        }
        if is_new {
            take_over(&work)?;
        }
        let folder = Self { work, target: target.to_owned(), lock, whole: false };
        if !is_new {
            folder.no_longer_whole()?;
        }
        Ok(folder)
    }

    /// What [`Folder::begin`] and writing there would be refused for. Leaves everything as it was.
    pub(super) fn try_out(target: &Path, force: bool) -> Result<(), HandOverError> {
        if is_new(target, force)? {
            return Self::begin(target, force).map(drop);
        }
        let tried = tempfile::Builder::new().suffix(".partial").tempfile_in(target);
        tried.map(drop).map_err(io_error("create a file in", target))
    }

    pub(super) fn path(&self) -> &Path {
        &self.work
    }

    /// Where a file will be when all is done.
    pub(super) fn final_path(&self, name: &str) -> PathBuf {
        self.target.join(name)
    }

    fn is_new(&self) -> bool {
        self.work != self.target
    }

    fn no_longer_whole(&self) -> Result<(), HandOverError> {
        let readme = self.work.join(README);
        match fs::remove_file(&readme) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(io_error("remove", &readme)(e)),
            _ => Ok(()),
        }
    }

    /// Writes a file whole: temporary, fsync, name. Its digest.
    pub(super) fn put(&self, name: &str, mode: u32, mut content: impl Read) -> Result<Digest, HandOverError> {
        let target = self.work.join(name);
        kubexm_files::check_regular(&target)?;
        let mut temporary = tempfile::Builder::new()
            .prefix(&format!(".{name}."))
            .suffix(".partial")
            .tempfile_in(&self.work)
            .map_err(io_error("create a file in", &self.work))?;
        let (mut hasher, mut piece) = (Hasher::default(), vec![0; 1 << 20]);
        loop {
            let read = match content.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(io_error("read what goes to", &target)(e)),
            };
            hasher.update(&piece[..read]);
            temporary.write_all(&piece[..read]).map_err(io_error("write", &target))?;
        }
        // A stick's file system may keep no modes; the page says how to make a program of it.
        let _ = temporary.as_file().set_permissions(Permissions::from_mode(mode));
        temporary.as_file().sync_all().map_err(io_error("write out", &target))?;
        temporary.persist(&target).map_err(|e| io_error("name", &target)(e.error))?;
        Ok(hasher.finish())
    }

    /// Everything is there: the folder gets its name.
    pub(super) fn finish(mut self) -> Result<(), HandOverError> {
        self.lock.sync_all().map_err(io_error("write out", &self.work))?;
        if self.is_new() {
            fs::rename(&self.work, &self.target).map_err(io_error("name", &self.target))?;
            let parent = parent(&self.target);
            // Behind the name: a folder that is killed in between is whole all the same.
            let mark = self.target.join(MARK);
            fs::remove_file(&mark).map_err(io_error("remove", &mark))?;
            File::open(parent).and_then(|open| open.sync_all()).map_err(io_error("write out", parent))?;
        }
        self.whole = true;
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.whole && self.is_new() {
            // It has no name that anybody takes for a hand-over; the next run takes it over.
            let _ = fs::remove_dir_all(&self.work);
        }
    }
}

/// Whether the folder is to be made; one that is there must be empty, unless `force`.
fn is_new(target: &Path, force: bool) -> Result<bool, HandOverError> {
    match fs::read_dir(target).map(|mut entries| entries.next().is_some()) {
        Ok(true) if !force => Err(HandOverError::NotEmpty { path: target.to_owned() }),
        Ok(_) => Ok(false),
        Err(e) if e.kind() == io::ErrorKind::NotFound => match parent(target) {
            above if above.is_dir() => Ok(true),
            above => Err(HandOverError::NoParent { folder: target.to_owned(), parent: above.to_owned() }),
        },
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            Err(HandOverError::NotAFolder { path: target.to_owned() })
        }
        Err(source) => Err(io_error("look into", target)(source)),
    }
}

/// Marks the folder as created by this program, and removes what an interrupted run left in it. Files in a folder
/// without the mark are not touched.
fn take_over(work: &Path) -> Result<(), HandOverError> {
    let there: Vec<PathBuf> = fs::read_dir(work)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(io_error("look into", work))?;
    let mark = work.join(MARK);
    if !there.is_empty() && !fs::symlink_metadata(&mark).is_ok_and(|mark| mark.is_file()) {
        return Err(HandOverError::InTheWay { path: work.to_owned() });
    }
    for path in there.iter().filter(|path| **path != mark) {
        fs::remove_file(path).map_err(io_error("remove", path))?;
    }
    // It must not be on the disk later than what it stands for.
    make_mark(&mark).map_err(io_error("create", &mark))
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn beside(target: &Path) -> Result<PathBuf, HandOverError> {
    kubexm_archive::partial_path(target).ok_or_else(|| HandOverError::NotEmpty { path: target.to_owned() })
}
