//! A backup as a folder of this machine.

use std::path::{Path, PathBuf};

use kubexm_engine::backup::BackupError;

use super::staging::Staging;

/// A backup that can be read, wherever it is kept.
#[derive(Debug)]
pub struct LocalBackup {
    folder: PathBuf,
    /// Where it is kept, for people, if that is not the folder.
    kept: Option<String>,
    _staging: Option<Staging>,
}

impl LocalBackup {
    /// One that is kept in a folder.
    pub fn of_folder(folder: PathBuf) -> Self {
        Self { folder, kept: None, _staging: None }
    }

    /// One in a folder of the home that was made of a file elsewhere.
    pub(crate) const fn kept_at(folder: PathBuf, kept: String) -> Self {
        Self { folder, kept: Some(kept), _staging: None }
    }

    pub(super) fn fetched(staging: Staging, kept: String) -> Self {
        Self { folder: staging.folder().to_owned(), kept: Some(kept), _staging: Some(staging) }
    }

    /// Where it can be read.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What was found out about it, in which errors name the place where it is kept.
    pub(crate) fn named<T>(&self, found: Result<T, BackupError>) -> Result<T, BackupError> {
        match &self.kept {
            Some(kept) => found.map_err(|error| error.kept_at(&self.folder, kept)),
            None => found,
        }
    }
}
