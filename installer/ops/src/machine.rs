//! The machine that ops run on: the real one, or one rooted in a directory.

use std::path::{Path, PathBuf};

/// Root of the file system, and (filled in by its owner) the system behind it.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// The machine whose file system starts at `root` (`/` for the real one).
    pub fn rooted(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where an absolute path of the machine lies for this process.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(Path::new(path).strip_prefix("/").unwrap_or(Path::new(path)))
    }
}
