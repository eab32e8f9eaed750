//! The records of timers, and whether they wait for their next time.

use kubexm_plan::cluster_facts::TimerFacts;
use kubexm_plan::timers::{HostTimer, RECORDS, TIMERS, TimerRun};

use crate::fsio::{self, Access};
use crate::{Machine, OpError, systemd};

/// None if there is none, or none that can be read: the next run writes another one.
pub(super) fn read(machine: &Machine, timer: HostTimer) -> Result<Option<TimerRun>, OpError> {
    Ok(fsio::read(&machine.path(timer.record()))?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

pub(super) fn write(machine: &Machine, timer: HostTimer, run: &TimerRun) -> Result<(), OpError> {
    let text = serde_json::to_vec(run)
        .map_err(|error| OpError::other(format!("the record of {} cannot be written as JSON: {error}", timer.name)))?;
    fsio::private_folder(&machine.path(RECORDS))?;
    machine.write_file(&timer.record(), &text, Access::mode(0o600))
}

/// A service that was killed, or could not start, has recorded nothing: what it recorded before says that all is well.
fn ended_without_a_record(
    machine: &Machine,
    timer: HostTimer,
    last: Option<TimerRun>,
) -> Result<Option<TimerRun>, OpError> {
    let shown = systemd::show(machine, &timer.service())?;
    if !shown.failed() || last.as_ref().is_some_and(|last| last.failed) {
        return Ok(last);
    }
    let (ended, mount, before) = match last {
        Some(last) => (last.ended, last.mount, format!("; before that: {}", last.what)),
        None => (0, None, String::new()),
    };
    let what = format!(
        "{} ended since then and recorded nothing ({}): `journalctl -u {}` on this host says why{before}",
        timer.service(),
        shown.result,
        timer.service()
    );
    Ok(Some(TimerRun { ended, failed: true, what, mount }))
}

/// The timers that the host has.
pub(crate) fn look(machine: &Machine, host: &str) -> Result<Vec<TimerFacts>, OpError> {
    let there: Vec<HostTimer> = TIMERS.into_iter().filter(|timer| machine.path(timer.config()).is_file()).collect();
    let mut found = Vec::new();
    for timer in there {
        let waits = systemd::show(machine, &timer.timer())?.active();
        let last = ended_without_a_record(machine, timer, read(machine, timer)?)?;
        found.push(TimerFacts { host: host.to_owned(), timer: timer.timer(), waits, last });
    }
    Ok(found)
}
