//! Acts as transient systemd units: they outlive the connection and the agent, and a resumed run attaches to them.
//!
//! `Type=simple` and `StandardOutput=file:` are what the oldest systemd among the supported systems (239) has.

use std::os::unix::fs::DirBuilderExt;
use std::time::{Duration, Instant};

use crate::environment::{environment, find};
use crate::system::{ActContext, Output, Program, System};
use crate::systemd::{self, systemctl};
use crate::{Machine, OpError, fsio};

const PAUSE: Duration = Duration::from_millis(200);
/// Pattern of the names from [`ActContext::unit`].
const ALL: &str = "kubexm-act-*.service";

/// Whether the unit of an act is running.
pub(crate) fn is_running(machine: &Machine, act: &ActContext) -> Result<bool, OpError> {
    Ok(machine.is_real() && systemd::show(machine, &act.unit())?.running())
}

/// The act that is running: this step's own, or the one of the run that started it, from its record.
pub(crate) fn still_running(machine: &Machine, recorded: Option<&ActContext>) -> Result<Option<ActContext>, OpError> {
    for act in [machine.act(), recorded].into_iter().flatten() {
        if is_running(machine, act)? {
            return Ok(Some(act.clone()));
        }
    }
    Ok(None)
}

/// Whether the unit of an act has succeeded, if it has ended and systemd still keeps it.
pub(crate) fn ended(machine: &Machine, act: &ActContext) -> Result<Option<bool>, OpError> {
    if !machine.is_real() {
        return Ok(None);
    }
    let shown = systemd::show(machine, &act.unit())?;
    Ok((shown.exists() && !shown.running()).then_some(shown.result == "success" && shown.exit_code == 0))
}

/// Stops the unit of an act, if it runs.
pub(crate) fn stop(machine: &Machine, act: &ActContext) -> Result<(), OpError> {
    if is_running(machine, act)? { machine.run(&systemctl(["stop", &act.unit()])).map(drop) } else { Ok(()) }
}

/// Running units of acts of any run.
pub(crate) fn running(machine: &Machine) -> Result<Vec<String>, OpError> {
    let mut running = Vec::new();
    for unit in all(machine)? {
        if systemd::show(machine, &unit)?.running() {
            running.push(unit);
        }
    }
    Ok(running)
}

/// Units of acts of any run, running or ended.
fn all(machine: &Machine) -> Result<Vec<String>, OpError> {
    let listed = machine.run(&systemctl(["list-units", "--all", "--plain", "--no-legend", "--full", ALL]))?;
    Ok(listed.stdout().lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

/// Resets the failed units of acts: those of one step and of its undo, or of every run. Until then they show how an act
/// ended, which decides whether it is undone as a half-done one.
pub(crate) fn forget_ended(machine: &Machine, step: Option<&ActContext>) -> Result<(), OpError> {
    if !machine.is_real() {
        return Ok(());
    }
    let unit = step.map(ActContext::unit);
    let of_step = |name: &str| {
        let Some(prefix) = unit.as_deref().and_then(|unit| unit.strip_suffix(".service")) else { return true };
        // `.undo`, `.reset` and the like are acts of the same step
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'))
    };
    for unit in all(machine)?.into_iter().filter(|unit| of_step(unit)) {
        if !systemd::show(machine, &unit)?.running() {
            forget(machine, &unit)?;
        }
    }
    Ok(())
}

/// Starts the program as the act's unit, or attaches to the running one, and waits for its end.
pub(crate) fn run(
    machine: &Machine,
    system: &impl System,
    act: &ActContext,
    program: &Program,
) -> Result<Output, OpError> {
    let unit = act.unit();
    if !is_running(machine, act)? {
        forget(machine, &unit)?;
        start(system, machine, act, program)?;
    }
    // A unit has its own timeout; systemd needs a little more time to kill it.
    let deadline = Instant::now() + program.timeout + Duration::from_secs(30);
    let shown = loop {
        let shown = systemd::show(machine, &unit)?;
        if !shown.running() {
            break shown;
        }
        if Instant::now() > deadline {
            return Err(OpError::other(format!(
                "`{program}` still runs as {unit} after {} s; its log is {} on the host",
                program.timeout.as_secs(),
                act.log()
            )));
        }
        std::thread::sleep(PAUSE);
    };
    if !shown.exists() {
        return Err(OpError::other(format!(
            "{unit} disappeared before its end was seen: the host was rebooted or the unit was removed; run again"
        )));
    }
    let log = fsio::read(&machine.path(act.log()))?.unwrap_or_default();
    if shown.result == "success" && shown.exit_code == 0 {
        forget(machine, &unit)?;
        return Ok(Output { code: 0, stdout: log, stderr: Vec::new() });
    }
    if shown.result == "timeout" {
        return Err(OpError::other(format!(
            "`{program}` did not end within {} s and was stopped; its log ends with:\n{}",
            program.timeout.as_secs(),
            Output::failed(1, log).tail()
        )));
    }
    Ok(Output::failed(if shown.exit_code == 0 { 1 } else { shown.exit_code }, log))
}

/// Removes an ended unit, which keeps its name until then.
fn forget(machine: &Machine, unit: &str) -> Result<(), OpError> {
    if systemd::show(machine, unit)?.exists() {
        machine.try_run(&systemctl(["stop", unit]))?;
        machine.try_run(&systemctl(["reset-failed", unit]))?;
    }
    Ok(())
}

fn start(system: &impl System, machine: &Machine, act: &ActContext, program: &Program) -> Result<(), OpError> {
    if program.stdin.is_some() {
        return Err(OpError::other(format!("`{program}`: an act has no input; this is a fault of the program")));
    }
    let log = machine.path(act.log());
    if let Some(folder) = log.parent() {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(OpError::path("make the folder", folder))?;
    }
    keep_older_log(&log)?;
    let mut run = Program::new("systemd-run")
        .arg(format!("--unit={}", act.unit()))
        .arg(format!("--description=KubeXM: {}", program.name))
        .args(["--quiet", "--property=Type=simple", "--property=RemainAfterExit=yes"])
        .arg(format!("--property=RuntimeMaxSec={}", program.timeout.as_secs()))
        .arg(format!("--property=StandardOutput=file:{}", log.display()))
        .args(["--property=StandardError=inherit", "--property=StandardInput=null"]);
    // An empty file system is mounted over each, only for this unit (systemd 238). A folder that does not exist needs
    // none.
    for folder in program.hidden.iter().filter(|folder| machine.path(folder).is_dir()) {
        run = run.arg(format!("--property=TemporaryFileSystem={folder}"));
    }
    for (name, value) in environment().into_iter().map(|(n, v)| (n, v.to_owned())) {
        run = run.arg(format!("--setenv={name}={value}"));
    }
    for (name, value) in &program.env {
        run = run.arg(format!("--setenv={name}={value}"));
    }
    let run = run.arg("--").arg(find(&program.name)?.display().to_string()).args(program.args.clone());
    let output = system.run(&run)?;
    if output.code == 0 {
        return Ok(());
    }
    Err(OpError::Program {
        program: run.to_string(),
        status: format!("exit code {}", output.code),
        stderr: output.tail(),
    })
}

/// systemd's `file:` overwrites the log of an earlier attempt from the start; that log is evidence.
fn keep_older_log(log: &std::path::Path) -> Result<(), OpError> {
    let older = log.with_extension("log.before");
    match std::fs::rename(log, &older) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(OpError::path("set aside", log)(error)),
    }
}
