//! A file with a content.

use kubexm_plan::op::File;

use crate::fsio::Access;
use crate::path_state::{self, Look, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave};

impl Converge for File {
    fn observe(&self, machine: &Machine) -> Result<PathState, OpError> {
        PathState::look(machine, &self.path)
    }

    fn satisfied(&self, found: &PathState, machine: &Machine) -> bool {
        machine.content_digest(&self.content).is_ok_and(|wanted| found.entry.is(wanted, self.mode))
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![self.path.clone()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        path_state::replaceable(machine, &self.path)?;
        machine.write_file(&self.path, &machine.content(&self.content)?, Access::mode(self.mode))
    }

    fn restore(&self, machine: &Machine, before: &PathState, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.restore(machine) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for File {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[
            ("a new file in a new folder", |h| h.file("/etc/kubexm/deep/config", "wanted\n")),
            ("a file over another", |h| {
                h.put("/etc/kubexm.conf", "old\n");
                h.file("/etc/kubexm.conf", "wanted\n")
            }),
            ("a file over a link", |h| {
                std::os::unix::fs::symlink("hostname", h.machine.path("/etc/kubexm.conf")).expect("a link");
                h.file("/etc/kubexm.conf", "wanted\n")
            }),
        ]);
    }
}
