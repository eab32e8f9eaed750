//! Runs a script of the user once; an interrupted one is never repeated without its undo.

use kubexm_plan::op::{Progress, ScriptRun};

use super::perform::Perform;
use super::script::Script;
use crate::{Machine, OpError};

impl Perform for ScriptRun {
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        of(self).progress(machine)
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        let script = of(self);
        match script.progress(machine)? {
            Progress::Done => return script.ended_well(machine),
            Progress::HalfDone => {
                // A script that fails while it is waited for is half done like any other.
                if let Ok(Some(())) = script.attach(machine) {
                    return script.ended_well(machine);
                }
                if !self.undo {
                    return Err(script.left_half_done(machine));
                }
                script.undo(machine)?;
            }
            Progress::NotBegun | Progress::Damaged | Progress::Foreign => {}
        }
        script.run(machine)
    }
}

fn of(run: &ScriptRun) -> Script<'_> {
    Script { id: &run.id, name: &run.name, folder: &run.folder, timeout_s: run.timeout_s }
}
