//! Rolls ops back to the state that they found, from the node's ledger.
//!
//! A marker file (`/var/lib/kubexm/reverted`) records that all of it was done: some ops leave things that are in use by
//! now (a loaded module, a folder with files of others), and would otherwise be rolled back again in every run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use kubexm_plan::op::reset::{FolderAccess, Traces};
use kubexm_plan::{ObservedState, Op, ResetRollback};
use kubexm_spec::Digest;

use crate::dirfd::DirFd;
use crate::fsio;
use crate::ops::state_dir;
use crate::path_state::{Look, PathEntry, PathState};
use crate::{Machine, OpError, Wave, dispatch, paths};

const MARK: &str = "reverted";

pub(super) fn observe(machine: &Machine, ops: &[Op], before: &[ObservedState]) -> Result<Traces, OpError> {
    paired(ops, before.len())?;
    let (mut states, mut folders) = (Vec::new(), BTreeMap::new());
    let mut back = true;
    for (number, (op, then)) in ops.iter().zip(before).enumerate() {
        let now = dispatch::observe(op, machine)?;
        // Of several ops that changed one resource, the oldest (the last here) has the original state.
        let decides = !ops[number + 1..].iter().any(|older| overlap(op, older));
        back = back && (!decides || is_back(machine, op, &now, then)?);
        look_at_folders(machine, &op.places(then)?, &mut folders);
        states.push(now);
    }
    back = back || fsio::read_text(&mark_path(machine))?.is_some_and(|mark| mark.trim() == mark_of(ops));
    Ok(Traces::States { states, folders, back })
}

pub(super) fn revert(machine: &Machine, ops: &[Op], before: &[ObservedState]) -> Result<(), OpError> {
    paired(ops, before.len())?;
    for wave in Wave::ALL {
        for (op, then) in ops.iter().zip(before) {
            match op {
                // Its content was moved aside already, and not deleted: only the folder itself is restored.
                Op::StateDir(_) if wave == Wave::Data => {
                    op.places(then)?.iter().try_for_each(|place| state_dir::restore_access(machine, place))?;
                }
                op => dispatch::restore(op, machine, then, wave)?,
            }
        }
    }
    machine.write_file(&format!("{}/{MARK}", paths::STATE), mark_of(ops).as_bytes(), fsio::Access::mode(0o600))
}

/// Restores the state that the reset found: the oldest op first, in the order in which they were made.
///
/// Restoring brings back files and units. Other ops that were satisfied (a module, a parameter, no swap) are converged
/// again; none of them needs a text or slot of its plan.
pub(super) fn restore(
    machine: &Machine,
    ops: &[Op],
    states: &[ObservedState],
    folders: &BTreeMap<String, FolderAccess>,
    wave: Wave,
) -> Result<(), OpError> {
    paired(ops, states.len())?;
    match wave {
        Wave::Stop => fsio::remove(&mark_path(machine))?,
        // Parent folders sort before their content.
        Wave::Data => {
            for op in ops.iter().filter(|op| op.reset_rollback() == ResetRollback::MadeFirst) {
                dispatch::make(op, machine)?;
            }
            folders.iter().try_for_each(|(path, access)| make_folder(machine, path, *access))?;
        }
        Wave::Start => {}
    }
    for (op, found) in ops.iter().zip(states).rev() {
        let after = op.reset_rollback();
        if after != ResetRollback::Made {
            dispatch::restore(op, machine, found, wave)?;
        }
        let made = matches!(after, ResetRollback::RestoredAndMade | ResetRollback::Made) && found.satisfied;
        if wave == Wave::Data && made && !dispatch::observe(op, machine)?.satisfied {
            dispatch::make(op, machine)?;
        }
    }
    Ok(())
}

/// A folder of an op's files, as it was observed.
fn make_folder(machine: &Machine, path: &str, access: FolderAccess) -> Result<(), OpError> {
    let real = machine.path(path);
    if real.symlink_metadata().is_ok() {
        return Ok(());
    }
    DirFd::make(&real)?.set_access(access.mode, Some((access.uid, access.gid)))
}

/// Folders that did not exist then, with their current mode and owner.
fn look_at_folders(machine: &Machine, then: &[PathState], folders: &mut BTreeMap<String, FolderAccess>) {
    for path in then.iter().flat_map(|place| &place.missing) {
        if let Ok(found) = fs::symlink_metadata(machine.path(path))
            && found.is_dir()
        {
            folders
                .insert(path.clone(), FolderAccess { mode: found.mode() & 0o7777, uid: found.uid(), gid: found.gid() });
        }
    }
}

fn paired(ops: &[Op], states: usize) -> Result<(), OpError> {
    if ops.len() == states {
        return Ok(());
    }
    Err(OpError::other(format!(
        "{states} recorded states for {} ops to roll back: plan or journal were changed by hand; put the originals back, then run again",
        ops.len()
    )))
}

fn mark_path(machine: &Machine) -> std::path::PathBuf {
    machine.path(format!("{}/{MARK}", paths::STATE))
}

fn mark_of(ops: &[Op]) -> String {
    Digest::of(serde_json::to_vec(ops).unwrap_or_default()).to_string()
}

fn overlap(one: &Op, other: &Op) -> bool {
    let others = other.alone();
    one.alone().iter().any(|resource| others.iter().any(|other| resource.overlaps(other)))
}

/// Whether every file of the op is as it was, and so is everything that is not a file.
fn is_back(machine: &Machine, op: &Op, now: &ObservedState, then: &ObservedState) -> Result<bool, OpError> {
    for place in op.places(then)? {
        let found = PathEntry::look(machine, &place.path)?;
        // A folder in which others have put something by now is kept.
        let others = place.entry == PathEntry::Absent && matches!(found, PathEntry::Directory { .. });
        if found != place.entry && !others {
            return Ok(false);
        }
    }
    Ok(op.is_back(now, then)?)
}
