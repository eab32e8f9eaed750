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

#[cfg(test)]
mod tests {
    use super::super::script_run::tests::{script, undo};
    use super::*;
    use crate::cases::{ActCase, ActCases, Tested};
    use crate::dispatch;

    impl ActCases for ScriptUndo {
        const TESTED: Tested<ActCase<Self>> = Tested::Here(&[ActCase {
            name: "a script of the user that ran",
            host: |h| {
                dispatch::converge(&script(h).into(), &h.machine).expect("it runs");
                undo()
            },
            progress: Progress::NotBegun,
            undo: None,
        }]);
    }
}
