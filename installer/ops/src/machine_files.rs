//! Atomic writes of files, with the right SELinux label.

use std::fs::File;
use std::io::Write as _;

use crate::dirfd::DirFd;
use crate::fsio::{self, Access};
use crate::system::Program;
use crate::{Machine, OpError};

impl Machine {
    /// Writes bytes atomically: a temporary file in the same folder, fsync, rename, fsync of the folder, SELinux label.
    pub(crate) fn write_file(&self, path: &str, bytes: &[u8], access: Access) -> Result<(), OpError> {
        self.place_file(path, access, |file| file.write_all(bytes))
    }

    /// As [`Machine::write_file`], with a function that writes the bytes.
    pub(crate) fn place_file(
        &self,
        path: &str,
        access: Access,
        fill: impl FnOnce(&mut File) -> std::io::Result<()>,
    ) -> Result<(), OpError> {
        let target = self.path(path);
        let (folder, name) = DirFd::made_for(&target)?;
        fsio::place_in(&folder, name, access, fill)?;
        self.relabel(path)
    }

    /// Sets the label of the SELinux policy: a renamed file keeps the label of the temporary file, and a service that
    /// may not read its program fails with 203/EXEC.
    pub(crate) fn relabel(&self, path: &str) -> Result<(), OpError> {
        if !self.path("/sys/fs/selinux/enforce").exists() {
            return Ok(());
        }
        self.run(&Program::new("restorecon").arg(path)).map(drop)
    }
}
