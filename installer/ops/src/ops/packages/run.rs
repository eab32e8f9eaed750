//! Runs programs of the package manager, and quotes their output in errors.

use crate::system::{Output, Program};
use crate::{Machine, OpError};

/// The most lines of output that an error quotes, and their maximum length.
const QUOTED: usize = 20;
const QUOTED_CHARS: usize = 300;

/// The package manager's output, short enough for an error.
pub(super) fn failed(what: &str, output: &Output) -> OpError {
    let said = [output.stdout.as_slice(), b"\n", output.stderr.as_slice()].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<String> = said
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .map(|line| line.chars().take(QUOTED_CHARS).collect())
        .collect();
    OpError::Program {
        program: what.to_owned(),
        status: format!("exit code {}", output.code),
        stderr: lines[lines.len().saturating_sub(QUOTED)..].join("\n"),
    }
}

/// Runs a program of the package manager; an error quotes its output, but not its many arguments.
pub(super) fn run(machine: &Machine, what: &str, program: &Program) -> Result<Output, OpError> {
    let output = machine.try_run(program)?;
    if output.code == 0 { Ok(output) } else { Err(failed(what, &output)) }
}

/// Runs a program that changes the host. It outlives the agent, and a later run waits for it, so it must have been
/// recorded before ([`super::package_transaction::PackageTransaction::works`]).
pub(super) fn act(machine: &Machine, program: &Program) -> Result<Output, OpError> {
    match machine.act() {
        Some(act) => machine.system().run_act(act, program),
        None => machine.try_run(program),
    }
}

/// As [`act`], but an exit code other than 0 is an error.
pub(super) fn run_on(machine: &Machine, what: &str, program: &Program) -> Result<(), OpError> {
    let output = act(machine, program)?;
    if output.code == 0 { Ok(()) } else { Err(failed(what, &output)) }
}
