//! The files of a cluster's certificates, or a view of them, in which what would be written is kept in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zeroize::Zeroizing;

use crate::EngineError;
use crate::files::{make_dir, write_whole};

/// By the name of the file.
type Texts = BTreeMap<String, Zeroizing<String>>;

/// A pki folder.
#[derive(Clone)]
pub(crate) struct PkiFolder {
    dir: PathBuf,
    /// Whether the folder is read.
    reads: bool,
    /// What was written; none if it is written to the folder.
    memory: Option<Arc<Mutex<Texts>>>,
}

impl fmt::Debug for PkiFolder {
    /// Without keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PkiFolder").field("dir", &self.dir).field("view", &self.memory.is_some()).finish()
    }
}

impl PkiFolder {
    /// Opens or creates it.
    pub(crate) fn open(dir: &Path) -> Result<Self, EngineError> {
        make_dir(dir)?;
        Ok(Self { dir: dir.to_owned(), reads: true, memory: None })
    }

    /// Nothing is written to it. If it does not read the folder either, it is empty at first.
    pub(crate) fn view(dir: &Path, reads: bool) -> Self {
        Self { dir: dir.to_owned(), reads, memory: Some(Arc::default()) }
    }

    /// Where a file is, or would be.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A file; none if there is no such file.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Zeroizing<String>>, EngineError> {
        if let Some(text) = self.memory().and_then(|texts| texts.get(name).cloned()) {
            return Ok(Some(text));
        }
        if !self.reads {
            return Ok(None);
        }
        let path = self.path(name);
        match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            other => Ok(Some(Zeroizing::new(other.map_err(EngineError::file("read", &path))?))),
        }
    }

    /// Writes a file, for its owner alone.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), EngineError> {
        match self.memory() {
            Some(mut texts) => {
                texts.insert(name.to_owned(), Zeroizing::new(text.to_owned()));
                Ok(())
            }
            None => write_whole(&self.path(name), text.as_bytes(), 0o600),
        }
    }

    /// The names of its files; empty if there is no such folder.
    pub(crate) fn names(&self) -> Result<BTreeSet<String>, EngineError> {
        let mut names: BTreeSet<String> =
            self.memory().map(|texts| texts.keys().cloned().collect()).unwrap_or_default();
        if !self.reads {
            return Ok(names);
        }
        let entries = match std::fs::read_dir(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(names),
            other => other.map_err(EngineError::file("list", &self.dir))?,
        };
        for entry in entries {
            let name = entry.map_err(EngineError::file("list", &self.dir))?.file_name();
            names.extend(name.to_str().map(str::to_owned));
        }
        Ok(names)
    }

    fn memory(&self) -> Option<MutexGuard<'_, Texts>> {
        Some(self.memory.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
