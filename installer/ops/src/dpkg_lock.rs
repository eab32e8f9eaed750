//! Whether dpkg, or a program that uses it (apt, unattended-upgrades), is running or was interrupted.
//!
//! Both leave entries in the folder of updates; a running program holds a record lock (fcntl(2)) on one of two files:
//! dpkg's own, or that of its frontends (dpkg(1), since 1.19.1).
//! dpkg's, the second that of its frontends (dpkg(1), since 1.19.1).

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::process::{Flock, FlockType, fcntl_getlk};

use crate::{Machine, fsio};

const LOCKS: [&str; 2] = ["/var/lib/dpkg/lock", "/var/lib/dpkg/lock-frontend"];
const PAUSE: Duration = Duration::from_secs(1);
/// Operations of dpkg that are not in its status file yet.
const UPDATES: &str = "/var/lib/dpkg/updates";

/// Whether dpkg has done something that is not in its status file yet.
pub(crate) fn is_cut_off(machine: &Machine) -> bool {
    let mut entries = std::fs::read_dir(machine.path(UPDATES)).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()))
}

/// Waits until no such program runs, at most this many seconds; the caller's next command waits or fails by itself.
pub(crate) fn wait(machine: &Machine, seconds: u64) {
    let until = Instant::now() + Duration::from_secs(seconds);
    while holder(machine).is_some() && Instant::now() < until {
        std::thread::sleep(PAUSE);
    }
}

/// The holder of dpkg's locks: `apt-get (process 812)`; none if they are free, or cannot be queried.
pub(crate) fn holder(machine: &Machine) -> Option<String> {
    LOCKS.iter().find_map(|path| {
        let file = File::open(machine.path(path)).ok()?;
        let held = fcntl_getlk(&file, &Flock::from(FlockType::WriteLock)).ok()??;
        // A process of another pid namespace has no pid here.
        let Some(pid) = held.pid.map(|pid| pid.as_raw_nonzero().get()).filter(|pid| *pid > 0) else {
            return Some("a process that is not visible from here".to_owned());
        };
        let name = fsio::read(&machine.path(format!("/proc/{pid}/comm"))).ok().flatten().unwrap_or_default();
        Some(format!("{} (process {pid})", String::from_utf8_lossy(&name).trim()))
    })
}
