//! The user's own undo of a script, in a rollback.

use kubexm_plan::op::{Progress, ScriptUndo};

use super::perform::Perform;
use super::script::Script;
use crate::{Machine, OpError};

impl Perform for ScriptUndo {
    /// Done: the script was not started, or was undone.
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        let there = of(self).progress(machine)? != Progress::NotBegun;
        Ok(if there { Progress::NotBegun } else { Progress::Done })
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        of(self).undo(machine)
    }
}

fn of(undo: &ScriptUndo) -> Script<'_> {
    Script { id: &undo.id, name: &undo.name, folder: &undo.folder, timeout_s: undo.timeout_s }
}
