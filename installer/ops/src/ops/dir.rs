//! A directory.

use kubexm_plan::op::Dir;

use crate::dirfd::DirFd;
use crate::path_state::{Look, PathEntry, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave};

impl Converge for Dir {
    fn observe(&self, machine: &Machine) -> Result<PathState, OpError> {
        PathState::look(machine, &self.path)
    }

    fn satisfied(&self, found: &PathState, machine: &Machine) -> bool {
        match &found.entry {
            PathEntry::Directory { mode } => *mode == self.mode,
            // An administrator's link to a directory on another disk is accepted.
            PathEntry::Link { .. } => machine.path(&self.path).is_dir(),
            PathEntry::Absent | PathEntry::File { .. } | PathEntry::Special => false,
        }
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let real = machine.path(&self.path);
        match PathEntry::look(machine, &self.path)? {
            PathEntry::Absent | PathEntry::Directory { .. } => {}
            PathEntry::Link { .. } if real.is_dir() => return Ok(()),
            PathEntry::File { .. } | PathEntry::Link { .. } | PathEntry::Special => {
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

    fn restore(&self, machine: &Machine, before: &PathState, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.restore(machine) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for Dir {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[
            ("a directory", |_| Dir { path: "/etc/kubexm/a".into(), mode: 0o700 }),
            ("a directory with another mode", |h| {
                h.put("/etc/kubexm/x", "x");
                Dir { path: "/etc/kubexm".into(), mode: 0o711 }
            }),
        ]);
    }
}
