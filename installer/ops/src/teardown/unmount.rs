//! Unmounting: the newest mount first, never forced, and only mounts of pods.

use super::foreign;
use super::mounts::{Mount, all, below};
use crate::system::Program;
use crate::{Machine, OpError};

/// Unmounts everything strictly below a folder, the newest first; never forced and never lazily, so a mount that is in
/// use stops it. All mounts are examined first: if one is not a pod's, or is used by a process of the host, the error
/// names it and none is unmounted.
/// then none is unmounted.
pub fn unmount_below(machine: &Machine, path: &str) -> Result<(), OpError> {
    foreign::refuse(machine, path)?;
    loop {
        let mounted = below(machine, path)?;
        let Some(last) = mounted.last() else { return Ok(()) };
        unmount(machine, last)?;
        if below(machine, path)?.len() >= mounted.len() {
            return Err(OpError::other(format!(
                "{} was unmounted and is mounted again: something on this host mounts it; stop that, then run again",
                last.point
            )));
        }
    }
}

/// Unmounts one mount point, if it is one.
pub fn unmount_point(machine: &Machine, path: &str) -> Result<(), OpError> {
    match all(machine)?.into_iter().rfind(|mount| mount.point == path) {
        Some(mount) => unmount(machine, &mount),
        None => Ok(()),
    }
}

fn unmount(machine: &Machine, mount: &Mount) -> Result<(), OpError> {
    machine.run(&Program::new("umount").args(["--", &mount.point])).map(drop).map_err(|error| {
        OpError::other(format!(
            "cannot unmount {} ({} of {}): {}; nothing below it is deleted; end what uses it (`fuser -vm {}` names it), \
             then run again",
            mount.point,
            mount.filesystem,
            mount.source,
            error.full(),
            mount.point
        ))
    })
}
