//! A directory.

use kubexm_plan::op::Dir;

use crate::dirfd::DirFd;
use crate::place::{Entry, Look, Place, PutBack};
use crate::{Converge, Machine, OpError, Wave};

impl Converge for Dir {
    fn observe(&self, machine: &Machine) -> Result<Place, OpError> {
        Place::look(machine, &self.path)
    }

    fn satisfied(&self, found: &Place, machine: &Machine) -> bool {
        match &found.entry {
            Entry::Directory { mode } => *mode == self.mode,
            // An administrator's link to a directory on another disk is accepted.
            Entry::Link { .. } => machine.path(&self.path).is_dir(),
            Entry::Absent | Entry::File { .. } | Entry::Special => false,
        }
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let real = machine.path(&self.path);
        match Entry::look(machine, &self.path)? {
            Entry::Absent | Entry::Directory { .. } => {}
            Entry::Link { .. } if real.is_dir() => return Ok(()),
            Entry::File { .. } | Entry::Link { .. } | Entry::Special => {
                return Err(OpError::other(format!(
                    "{} must be a directory, and is not; move it away and run again",
                    self.path
                )));
            }
        }
        let folder = DirFd::make(&real)?;
        folder.set_access(self.mode, None)?;
        folder.sync()?;
        machine.relabel(&self.path)
    }

    fn restore(&self, machine: &Machine, before: &Place, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.restore(machine) } else { Ok(()) }
    }
}
