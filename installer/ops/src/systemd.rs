//! systemd through `systemctl`, whose `show` output is a stable interface (systemctl(1)).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::system::Program;
use crate::{Machine, OpError};

/// How long a started unit is watched for an early exit.
const SETTLE: Duration = Duration::from_millis(1500);

/// Properties of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub load: String,
    pub state: String,
    pub sub_state: String,
    pub file_state: String,
    pub needs_reload: bool,
    pub invocation: String,
    pub restarts: u32,
    /// Exit code of the main process, kept for a transient unit.
    pub exit_code: i32,
    pub result: String,
    /// Process id; 0 if it does not run.
    pub pid: u32,
    /// When the main process was started, since the start of the kernel's monotonic clock. None if none was.
    pub started: Option<Duration>,
}

impl Shown {
    pub(crate) fn exists(&self) -> bool {
        self.load != "not-found" && !self.load.is_empty()
    }

    pub(crate) fn enabled(&self) -> bool {
        // A unit without an [Install] section cannot be enabled and is started by others.
        matches!(self.file_state.as_str(), "enabled" | "enabled-runtime" | "static" | "alias" | "generated")
    }

    pub(crate) fn active(&self) -> bool {
        matches!(self.state.as_str(), "active" | "reloading")
    }

    /// Whether its last start or stop failed, which systemd remembers even when its file is gone.
    pub(crate) fn failed(&self) -> bool {
        self.state == "failed"
    }

    /// Whether its file has no [Install], so that it can be neither enabled nor disabled.
    pub(crate) fn is_static(&self) -> bool {
        self.file_state == "static"
    }

    /// Whether it has no file any more, and runs still or has failed: what systemd then shows until it is told to forget it.
    pub(crate) fn lingers(&self) -> bool {
        !self.exists() && (self.running() || self.failed())
    }

    /// Whether it is active or activating.
    pub(crate) fn running(&self) -> bool {
        self.sub_state != "exited"
            && matches!(self.state.as_str(), "active" | "activating" | "reloading" | "deactivating")
    }
}

const PROPERTIES: &str = "--property=LoadState,ActiveState,SubState,UnitFileState,NeedDaemonReload,InvocationID,NRestarts,\
                          ExecMainStatus,Result,MainPID,ExecMainStartTimestampMonotonic";

pub(crate) fn show(machine: &Machine, unit: &str) -> Result<Shown, OpError> {
    Ok(shown(&machine.run(&systemctl(["show", unit, PROPERTIES]))?.stdout()))
}

/// Properties of several units with one command, in their order.
pub(crate) fn show_all(machine: &Machine, units: &[&str]) -> Result<Vec<Shown>, OpError> {
    let program = Program::new("systemctl").arg("show").args(units.iter().copied()).arg(PROPERTIES).within(150);
    let text = machine.run(&program)?.stdout();
    // Units are separated by an empty line.
    let found: Vec<Shown> = text.trim_end().split("\n\n").map(shown).collect();
    if found.len() == units.len() {
        return Ok(found);
    }
    Err(OpError::other(format!("`{program}` reported {} units instead of {}", found.len(), units.len())))
}

/// The version of the running manager, `252.39-1~deb12u1` or `v252`: 252.
pub(crate) fn version(machine: &Machine) -> Result<Option<u32>, OpError> {
    let output = machine.try_run(&systemctl(["show", "--property=Version"]))?;
    Ok(number(&output.stdout()))
}

fn number(text: &str) -> Option<u32> {
    let version = text.trim().strip_prefix("Version=")?.trim_start_matches("systemd").trim_start_matches([' ', 'v']);
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn shown(text: &str) -> Shown {
    let values: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let get = |name: &str| values.get(name).copied().unwrap_or_default();
    Shown {
        load: get("LoadState").to_owned(),
        state: get("ActiveState").to_owned(),
        sub_state: get("SubState").to_owned(),
        file_state: get("UnitFileState").to_owned(),
        needs_reload: get("NeedDaemonReload") == "yes",
        invocation: get("InvocationID").to_owned(),
        restarts: get("NRestarts").parse().unwrap_or(0),
        exit_code: get("ExecMainStatus").parse().unwrap_or(0),
        result: get("Result").to_owned(),
        pid: get("MainPID").parse().unwrap_or(0),
        started: get("ExecMainStartTimestampMonotonic").parse().ok().filter(|at| *at > 0).map(Duration::from_micros),
    }
}

pub(crate) fn systemctl<const N: usize>(args: [&str; N]) -> Program {
    Program::new("systemctl").args(args).within(150)
}

pub(crate) fn daemon_reload(machine: &Machine) -> Result<(), OpError> {
    machine.run(&systemctl(["daemon-reload"])).map(drop)
}

/// A new unit file is not found until systemd reloads its files.
pub(crate) fn reload_if_needed(machine: &Machine, unit: &str) -> Result<(), OpError> {
    let shown = show(machine, unit)?;
    if shown.needs_reload || !shown.exists() { daemon_reload(machine) } else { Ok(()) }
}

pub(crate) fn enable(machine: &Machine, unit: &str, enabled: bool) -> Result<(), OpError> {
    machine.run(&systemctl([if enabled { "enable" } else { "disable" }, unit])).map(drop)
}

pub(crate) fn stop(machine: &Machine, unit: &str) -> Result<(), OpError> {
    machine.run(&systemctl(["stop", unit]))?;
    forget_failure(machine, unit)
}

/// Ends what has no file any more.
pub(crate) fn end(machine: &Machine, unit: &str) -> Result<(), OpError> {
    if show(machine, unit)?.running() { stop(machine, unit) } else { forget_failure(machine, unit) }
}

/// Otherwise the failed state remains and counts against the start limit.
pub(crate) fn forget_failure(machine: &Machine, unit: &str) -> Result<(), OpError> {
    machine.try_run(&systemctl(["reset-failed", unit])).map(drop)
}

/// Reloads the running unit, which keeps its process.
pub(crate) fn reload(machine: &Machine, unit: &str) -> Result<(), OpError> {
    match machine.run(&systemctl(["reload", unit])) {
        Ok(_) => Ok(()),
        Err(error) => Err(with_journal(machine, unit, &error.full())),
    }
}

/// Starts or restarts, and checks that it stays up: a unit that crash-loops is "active" for a moment each time.
pub(crate) fn start_anew(machine: &Machine, unit: &str) -> Result<(), OpError> {
    forget_failure(machine, unit)?;
    if let Err(error) = machine.run(&systemctl(["restart", unit])) {
        return Err(with_journal(machine, unit, &error.full()));
    }
    let first = show(machine, unit)?;
    if !first.active() {
        return Err(with_journal(machine, unit, &format!("it is {} after its start", first.state)));
    }
    if !machine.is_real() {
        return Ok(());
    }
    let until = Instant::now() + SETTLE;
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(250));
        let now = show(machine, unit)?;
        if !now.active() || now.invocation != first.invocation || now.restarts > first.restarts {
            return Err(with_journal(machine, unit, &format!("it does not stay up ({}, {})", now.state, now.result)));
        }
    }
    Ok(())
}

fn with_journal(machine: &Machine, unit: &str, what: &str) -> OpError {
    let last = Program::new("journalctl").args(["--unit", unit, "--lines", "20", "--no-pager", "--output", "cat"]);
    let journal = machine.try_run(&last.may_be_cut_off()).map(|output| output.stdout()).unwrap_or_default();
    OpError::other(format!("{unit} does not run: {what}; its journal ends with:\n{}", journal.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_version_is_read_as_distributions_write_it() {
        let reported = [
            "Version=252.39-1~deb12u1\n",
            "Version=219\n",
            "Version=systemd 239 (239-82.el8)",
            "Version=v255.4-1ubuntu8",
        ];
        assert_eq!(reported.map(number), [Some(252), Some(219), Some(239), Some(255)]);
        assert_eq!(["", "Version=", "Version=unknown", "252"].map(number), [None; 4]);
    }
}
