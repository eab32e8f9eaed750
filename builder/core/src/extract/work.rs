//! The folder while it is filled: a new one gets its name when everything is in it, and one that was interrupted is used again.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use kubexm_archive::make_mark;

use super::{ExtractError, Plan, io_error};

/// Marks a folder that an extract created: only files in such a folder are reused or removed.
const MARK: &str = ".kubexm-extract";

/// Where files are written.
pub(super) struct Work {
    path: PathBuf,
    target: PathBuf,
    /// Held until the end; none for a folder that was there before.
    _lock: Option<File>,
}

impl Work {
    /// A new folder is filled as `.NAME.partial` beside it, and what an earlier run has left there that is not in the plan goes.
    pub(super) fn begin(target: &Path, plan: &Plan) -> Result<Self, ExtractError> {
        let there = fs::symlink_metadata(target).is_ok();
        let Some(path) = kubexm_archive::partial_path(target).filter(|_| !there) else {
            fs::create_dir_all(target).map_err(io_error("create", target))?;
            return Ok(Self { path: target.to_owned(), target: target.to_owned(), _lock: None });
        };
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(io_error("create", parent))?;
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(io_error("create", &path))?,
        }
        // A link would lead to somebody's own folder.
        if !fs::symlink_metadata(&path).is_ok_and(|there| there.is_dir()) {
            return Err(ExtractError::NotAFolder { path });
        }
        let lock = File::open(&path).map_err(io_error("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ExtractError::Locked { path: target.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(io_error("lock", &path)(source)),
        }
        let mark = path.join(MARK);
        let is_empty = fs::read_dir(&path).map_err(io_error("look into", &path))?.next().is_none();
        if !is_empty && !fs::symlink_metadata(&mark).is_ok_and(|mark| mark.is_file()) {
            return Err(ExtractError::InTheWay { path });
        }
        make_mark(&mark).map_err(io_error("create", &mark))?;
        let keep: BTreeSet<PathBuf> = plan
            .keys()
            .map(|file| path.join(file))
            .flat_map(|file| file.ancestors().map(Path::to_owned).collect::<Vec<_>>())
            .collect();
        prune(&path, &keep, &mark)?;
        Ok(Self { path, target: target.to_owned(), _lock: Some(lock) })
    }

    /// Where files are written now.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the folder has no name yet.
    pub(super) fn is_new(&self) -> bool {
        self.path != self.target
    }

    /// Everything is there: the folder gets its name.
    pub(super) fn finish(self) -> Result<(), ExtractError> {
        if self.is_new() {
            kubexm_files::rename(&self.path, &self.target, false)?;
            let mark = self.target.join(MARK);
            fs::remove_file(&mark).map_err(io_error("remove", &mark))?;
        }
        Ok(())
    }
}

/// Removes what is not to be kept. Links are removed and not followed.
fn prune(folder: &Path, keep: &BTreeSet<PathBuf>, mark: &Path) -> Result<(), ExtractError> {
    for entry in fs::read_dir(folder).map_err(io_error("look into", folder))? {
        let entry = entry.map_err(io_error("look into", folder))?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(io_error("examine", folder))?);
        let kept = keep.contains(&path) || path == mark;
        // What is to be written below a link would be somewhere else.
        match (kind.is_dir(), kept && !kind.is_symlink()) {
            (true, true) => prune(&path, keep, mark)?,
            (true, false) => fs::remove_dir_all(&path).map_err(io_error("remove", &path))?,
            (false, false) => fs::remove_file(&path).map_err(io_error("remove", &path))?,
            (false, true) => {}
        }
    }
    Ok(())
}
