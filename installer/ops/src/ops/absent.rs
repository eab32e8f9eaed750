//! A file of kubexm's that is no longer wanted.

use kubexm_plan::op::Absent;

use crate::path_state::{self, Look, PathEntry, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave, fsio};

impl Converge for Absent {
    fn observe(&self, machine: &Machine) -> Result<PathState, OpError> {
        PathState::look(machine, &self.path)
    }

    fn satisfied(&self, found: &PathState, _: &Machine) -> bool {
        found.entry == PathEntry::Absent
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![self.path.clone()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        path_state::replaceable(machine, &self.path)?;
        fsio::remove(&machine.path(&self.path))
    }

    fn restore(&self, machine: &Machine, before: &PathState, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.restore(machine) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for Absent {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("a file that is not wanted any more", |h| {
            h.put("/etc/systemd/system/kubexm-certs.timer", "[Timer]\n");
            Absent { path: "/etc/systemd/system/kubexm-certs.timer".into() }
        })]);
    }
}
