//! A directory that a service makes and fills, or a file that it writes, and that goes with everything in it when it was not there before.

use kubexm_plan::op::StateDir;

use crate::place::{Entry, Place, held};
use crate::teardown::mounts;
use crate::{Converge, Machine, OpError, Wave};

impl Converge for StateDir {
    type State = Place;

    fn observe(&self, machine: &Machine) -> Result<Place, OpError> {
        Ok(Place { held: held(machine, &self.path), ..Place::look(machine, &self.path)? })
    }

    /// Nothing is asked of it: the service makes it.
    fn satisfied(&self, _: &Place, _: &Machine) -> bool {
        true
    }

    fn converge(&self, _: &Machine) -> Result<(), OpError> {
        Ok(())
    }

    fn restore(&self, machine: &Machine, before: &Place, wave: Wave) -> Result<(), OpError> {
        match before.entry {
            _ if wave != Wave::Data => Ok(()),
            Entry::Absent => {
                mounts::remove_tree(machine, &self.path)?;
                before.restore(machine)
            }
            // What was there before is somebody's, and so is what the service wrote into it.
            Entry::Directory { .. } => before.restore(machine),
            Entry::File { .. } | Entry::Link { .. } | Entry::Special => Ok(()),
        }
    }
}
