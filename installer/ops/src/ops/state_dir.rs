//! A directory that a service makes and fills, and that goes with everything in it when it was not there before.

use kubexm_plan::op::StateDir;

use crate::place::{Entry, Place};
use crate::teardown::mounts;
use crate::{Converge, Machine, OpError, Wave};

impl Converge for StateDir {
    type State = Place;

    fn observe(&self, machine: &Machine) -> Result<Place, OpError> {
        Place::look(machine, &self.path)
    }

    /// Nothing is asked of it: the service makes it.
    fn satisfied(&self, _: &Place, _: &Machine) -> bool {
        true
    }

    fn converge(&self, _: &Machine) -> Result<(), OpError> {
        Ok(())
    }

    fn restore(&self, machine: &Machine, before: &Place, wave: Wave) -> Result<(), OpError> {
        // What was there before is somebody's, and so is what the service wrote into it.
        if wave != Wave::Data || before.entry != Entry::Absent {
            return Ok(());
        }
        mounts::remove_tree(machine, &self.path)?;
        before.restore(machine)
    }
}
