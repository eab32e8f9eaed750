//! What the service of a node's timer runs: the work of [`kubexm_ops::timers`] under the host's lock.

use std::path::Path;
use std::time::{Duration, SystemTime};

use kubexm_ops::{Machine, OpError, timers};
use kubexm_plan::timers::{HostTimer, TimerRun};
use kubexm_spec::error_chain;

use crate::clock::unix_seconds;
use crate::link::agent::lock::{HostLock, LockError, LockTimeouts, Presence};
use crate::link::agent::{LOCK_PATH, PRESENT_PATH};

/// A run of a controller that has the host: most have ended by then.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// Waits for the host, then does the work. Its outcome is recorded on the host, also where it has failed.
pub fn run(timer: HostTimer) -> Result<TimerRun, OpError> {
    let machine = Machine::real();
    // The program is not removed meanwhile.
    let _present = Presence::take(Path::new(PRESENT_PATH));
    let patience = LockTimeouts { other: PATIENCE, own: PATIENCE };
    let now = || unix_seconds(SystemTime::now());
    match HostLock::acquire(Path::new(LOCK_PATH), &timer.service(), patience, &|| false) {
        Ok(_lock) => timers::run(&machine, timer, now()),
        Err(LockError::Held { holder, .. }) => {
            let why =
                format!("the host was locked for {} minutes by {holder}: nothing was done", PATIENCE.as_secs() / 60);
            timers::left_out(&machine, timer, now(), why)
        }
        Err(error) => timers::left_out(&machine, timer, now(), error_chain(&error)),
    }
}
