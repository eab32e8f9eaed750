//! A directory that a service makes and fills, or a file that it writes: what came goes, what was there before stays.

use kubexm_plan::op::StateDir;
use kubexm_plan::{Op, ledger};

use crate::place::{Entry, Look, Place, PutBack};
use crate::teardown::mounts;
use crate::{Converge, Machine, OpError, Wave, folder, fsio};

impl Converge for StateDir {
    /// Of a folder that a service of kubexm has filled already nothing is listed: a later run that is rolled back must
    /// not remove what the running cluster wrote meanwhile.
    fn observe(&self, machine: &Machine) -> Result<Place, OpError> {
        let place = Place::look(machine, &self.path)?;
        let before_us = place.entry != Entry::Absent && !filled_by_us(machine, &self.path)?;
        let held = if before_us { folder::list(machine, &self.path) } else { None };
        Ok(Place { held, ..place })
    }

    /// Nothing is asked of it: the service makes it.
    fn satisfied(&self, _: &Place, _: &Machine) -> bool {
        true
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, _: &Machine) -> Result<(), OpError> {
        Ok(())
    }

    fn restore(&self, machine: &Machine, before: &Place, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Data {
            return Ok(());
        }
        match (&before.entry, &before.held) {
            (Entry::Absent, _) => {
                if let Some(mount) = mounts::at(machine, &self.path)? {
                    return Err(mounts::left_alone(&mount));
                }
                let real = machine.path(&self.path);
                // A link came since, and what it leads to is somebody's.
                if real.is_symlink() {
                    fsio::remove(&real)?
                } else {
                    mounts::remove_tree(machine, &self.path)?
                }
                before.restore(machine)
            }
            (Entry::Directory { .. } | Entry::Link { .. }, Some(held)) => {
                folder::remove_new(machine, &self.path, held)?;
                restore_access(machine, before)
            }
            // What was in it is not known: then nothing of it is ours to remove.
            (Entry::Directory { .. } | Entry::Link { .. }, None) => restore_access(machine, before),
            (Entry::File { .. } | Entry::Special, _) => Ok(()),
        }
    }
}

/// The mode of a folder that was there before, and nothing of what is in it.
pub(crate) fn restore_access(machine: &Machine, before: &Place) -> Result<(), OpError> {
    if matches!(before.entry, Entry::Directory { .. }) { before.restore(machine) } else { Ok(()) }
}

fn filled_by_us(machine: &Machine, path: &str) -> Result<bool, OpError> {
    let ledger = machine.ledger();
    if !ledger.made(path) {
        return Ok(false);
    }
    let is_it = |op: &Op| matches!(op, Op::StateDir(dir) if dir.path == path);
    Ok(ledger::stands(ledger.records()?.iter(), is_it))
}
