//! The folder of a backup while it is made.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use kubexm_engine::backup::BackupError;

use crate::error::SessionError;

/// A backup's folder before it is complete; removed if it never is.
pub(crate) struct Partial {
    pub folder: PathBuf,
    name: PathBuf,
    done: bool,
}

impl Partial {
    pub fn create(to: &Path, name: &str) -> Result<Self, SessionError> {
        let (folder, name) = (to.join(format!(".{name}.partial")), to.join(name));
        let failed = |error: std::io::Error| SessionError::disk("create", &folder, &error);
        if name.exists() {
            let text = format!("{} is there already; run again in a second", name.display());
            return Err(BackupError::CannotMake(text).into());
        }
        fs::create_dir_all(to).map_err(|error| SessionError::disk("create", to, &error))?;
        DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
        Ok(Self { folder, name, done: false })
    }

    pub fn finish(mut self) -> Result<PathBuf, SessionError> {
        let rename = || {
            File::open(&self.folder)?.sync_all()?;
            fs::rename(&self.folder, &self.name)?;
            File::open(self.name.parent().unwrap_or(Path::new(".")))?.sync_all()
        };
        rename().map_err(|error: std::io::Error| SessionError::disk("rename", &self.folder, &error))?;
        self.done = true;
        Ok(self.name.clone())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
