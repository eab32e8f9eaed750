//! A symbolic link.

use kubexm_plan::op::Link;

use crate::place::{self, Entry, Look, Place, PutBack};
use crate::{Converge, Machine, OpError, Wave};

impl Converge for Link {
    fn observe(&self, machine: &Machine) -> Result<Place, OpError> {
        Place::look(machine, &self.path)
    }

    fn satisfied(&self, found: &Place, _: &Machine) -> bool {
        matches!(&found.entry, Entry::Link { target } if *target == self.target)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![self.path.clone()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        place::replaceable(machine, &self.path)?;
        place::put_link(machine, &self.path, &self.target)
    }

    fn restore(&self, machine: &Machine, before: &Place, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.restore(machine) } else { Ok(()) }
    }
}
