//! A symbolic link.

use kubexm_plan::op::Link;

use crate::path_state::{self, Look, PathEntry, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave};

impl Converge for Link {
    fn observe(&self, machine: &Machine) -> Result<PathState, OpError> {
        PathState::look(machine, &self.path)
    }

    fn satisfied(&self, found: &PathState, _: &Machine) -> bool {
        matches!(&found.entry, PathEntry::Link { target } if *target == self.target)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![self.path.clone()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        path_state::replaceable(machine, &self.path)?;
        path_state::put_link(machine, &self.path, &self.target)
    }

    fn restore(&self, machine: &Machine, before: &PathState, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.restore(machine) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for Link {
        const TESTED: Tested<Case<Self>> =
            Tested::Here(&[("a link", |_| Link { path: "/usr/local/bin/k".into(), target: "kubectl".into() })]);
    }
}
