//! What the services of a node's timers do ([`kubexm_plan::timers`]): the work of a controller's run, by the host itself. The caller holds
//! the host's lock.

mod backup_folder;
mod certs;
mod encrypted_backup;
mod etcd_backup;
mod lease;
mod record;

use std::collections::BTreeSet;

use kubexm_plan::timers::{CERTS, ETCD_BACKUP, HostTimer, TIMERS, TimerRun};
use serde::de::DeserializeOwned;

use crate::{Machine, OpError, fsio};

pub(crate) use record::look;

/// The timers that a host has, or has a part of.
pub(crate) fn present(machine: &Machine) -> BTreeSet<String> {
    let has = |path: String| machine.path(path).symlink_metadata().is_ok();
    let there = |timer: &HostTimer| has(timer.config()) || has(format!("/etc/systemd/system/{}", timer.timer()));
    TIMERS.into_iter().filter(there).map(|timer| timer.name.to_owned()).collect()
}

/// What was done; it is recorded, also if it failed.
pub fn run(machine: &Machine, timer: HostTimer, now: i64) -> Result<TimerRun, OpError> {
    let done = match timer {
        CERTS => certs::renew(machine, &config(machine, timer)?, now).map(|what| (what, None)),
        ETCD_BACKUP => etcd_backup::back_up(machine, &config(machine, timer)?, now),
        other => return Err(OpError::other(format!("{} is no timer; this is a fault of the program", other.name))),
    };
    let run = match done {
        Ok((what, mount)) => TimerRun { ended: now, failed: false, what, mount },
        Err(error) => {
            // Where the backups were is known still.
            let mount = record::read(machine, timer)?.and_then(|last| last.mount);
            TimerRun { ended: now, failed: true, what: error.full(), mount }
        }
    };
    record::write(machine, timer, &run)?;
    Ok(run)
}

/// Records that nothing was done, and why: the host was locked all the time.
pub fn left_out(machine: &Machine, timer: HostTimer, now: i64, why: String) -> Result<TimerRun, OpError> {
    let mount = record::read(machine, timer)?.and_then(|last| last.mount);
    let run = TimerRun { ended: now, failed: true, what: why, mount };
    // The run that had the host may have taken the timer away, and nobody would look for a record that comes after that.
    if machine.path(timer.config()).is_file() {
        record::write(machine, timer, &run)?;
    }
    Ok(run)
}

fn config<T: DeserializeOwned>(machine: &Machine, timer: HostTimer) -> Result<T, OpError> {
    let path = timer.config();
    let missing = || {
        OpError::other(format!(
            "{path} is not there: `kubexm-install create` writes it where cluster.yaml asks for the timer"
        ))
    };
    let bytes = fsio::read(&machine.path(&path))?.ok_or_else(missing)?;
    serde_json::from_slice(&bytes).map_err(|error| {
        OpError::other(format!(
            "{path} cannot be read ({error}): remove it, and run `kubexm-install create`, which writes it anew"
        ))
    })
}
