//! CRI-O answers, and runs with kubexm's configuration: it ignores keys that it does not know, and a drop-in of somebody else
//! may set one again.

use kubexm_plan::ProbeAnswer;
use kubexm_plan::runtime::{self, RuntimeTraits};
use kubexm_spec::cluster::RuntimeKind;

use super::answer::{no, yes};
use crate::system::Program;
use crate::{Machine, OpError};

const CRI_O: &RuntimeTraits = runtime::of(RuntimeKind::CriO);

pub(super) fn look(machine: &Machine, config_dump: &[String]) -> Result<ProbeAnswer, OpError> {
    // The running configuration, and not that of the files.
    let asked = Program::new(&CRI_O.program("crio")).args(["status", "--socket", CRI_O.socket(), "config"]).within(10);
    let answer = machine.try_run(&asked)?;
    if answer.code != 0 {
        return Ok(no(format!("CRI-O does not answer: {}", answer.tail())));
    }
    let dump = answer.stdout();
    Ok(match config_dump.iter().find(|wanted| !has_line(&dump, wanted)) {
        None => yes("CRI-O answers with kubexm's configuration"),
        Some(missing) => no(format!(
            "`{asked}` does not show {missing:?}: this CRI-O does not know the key that kubexm wrote, or another file in {} \
             sets it",
            CRI_O.drop_ins.map_or(CRI_O.config, |(folder, _)| folder)
        )),
    })
}

/// A line that begins so: to `pinned_images` CRI-O adds the image of the sandbox.
fn has_line(dump: &str, wanted: &str) -> bool {
    dump.lines().any(|line| line.trim().starts_with(wanted))
}
