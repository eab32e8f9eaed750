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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cases::{ActCase, ActCases, Tested};
    use crate::fake::host::Host;
    use kubexm_plan::op::ScriptUndo;

    const FOLDER: &str = "/var/lib/kubexm/scripts/pre-1-0123456789ab";

    pub(in crate::ops) fn script(host: &Host) -> ScriptRun {
        host.put(&format!("{FOLDER}/run.sh"), "touch /srv/done\n");
        host.put(&format!("{FOLDER}/undo.sh"), "rm -f /srv/done\n");
        let (id, name) = ("pre-1-0123456789ab".to_owned(), "disks".to_owned());
        ScriptRun { id, name, folder: FOLDER.to_owned(), timeout_s: 5, undo: true }
    }

    pub(in crate::ops) fn undo() -> ScriptUndo {
        let (id, name) = ("pre-1-0123456789ab".to_owned(), "disks".to_owned());
        ScriptUndo { id, name, folder: FOLDER.to_owned(), timeout_s: 5 }
    }

    impl ActCases for ScriptRun {
        const TESTED: Tested<ActCase<Self>> = Tested::Here(&[ActCase {
            name: "a script of the user",
            host: |h| script(h),
            progress: Progress::NotBegun,
            undo: Some(|| undo().into()),
        }]);
    }
}
