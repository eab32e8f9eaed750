//! Ops rolled back to what they found long ago, as the node's ledger has it.
//!
//! A mark (`/var/lib/kubexm/reverted`) says that all of it was done: some ops leave what somebody else needs by now (a
//! module in use, a folder that others put files in), and would be rolled back in every run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use kubexm_plan::op::reset::{FolderAccess, Traces};
use kubexm_plan::{AfterReset, ObservedState, Op};
use kubexm_spec::Digest;

use crate::dirfd::DirFd;
use crate::fsio;
use crate::ops::state_dir;
use crate::place::{Entry, Look, Place};
use crate::{Machine, OpError, Wave, dispatch, paths};

const MARK: &str = "reverted";

pub(super) fn observe(machine: &Machine, ops: &[Op], before: &[ObservedState]) -> Result<Traces, OpError> {
    paired(ops, before.len())?;
    let (mut states, mut folders) = (Vec::new(), BTreeMap::new());
    let mut back = true;
    for (number, (op, then)) in ops.iter().zip(before).enumerate() {
        let now = dispatch::observe(op, machine)?;
        // Of several that changed one thing, the oldest (the last here) says how it was.
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
                // What came into it is set aside already, and was not deleted: only the folder itself comes back.
                Op::StateDir(_) if wave == Wave::Data => {
                    op.places(then)?.iter().try_for_each(|place| state_dir::restore_access(machine, place))?;
                }
                op => dispatch::restore(op, machine, then, wave)?,
            }
        }
    }
    machine.write_file(&format!("{}/{MARK}", paths::STATE), mark_of(ops).as_bytes(), fsio::Access::mode(0o600))
}

/// Back to what the reset found: the oldest first, as they were made.
///
/// A restore brings files and units back. What else held (a module, a parameter, no swap) is made so again; nothing of
/// that needs a text or a slot of the plan that made it.
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
        // Parents sort before what is in them.
        Wave::Data => {
            for op in ops.iter().filter(|op| op.after_reset() == AfterReset::MadeFirst) {
                dispatch::make(op, machine)?;
            }
            folders.iter().try_for_each(|(path, access)| make_folder(machine, path, *access))?;
        }
        Wave::Start => {}
    }
    for (op, found) in ops.iter().zip(states).rev() {
        let after = op.after_reset();
        if after != AfterReset::Made {
            dispatch::restore(op, machine, found, wave)?;
        }
        let made = matches!(after, AfterReset::RestoredAndMade | AfterReset::Made) && found.satisfied;
        if wave == Wave::Data && made && !dispatch::observe(op, machine)?.satisfied {
            dispatch::make(op, machine)?;
        }
    }
    Ok(())
}

/// A folder of an op's files, as it was found.
fn make_folder(machine: &Machine, path: &str, access: FolderAccess) -> Result<(), OpError> {
    let real = machine.path(path);
    if real.symlink_metadata().is_ok() {
        return Ok(());
    }
    DirFd::make(&real)?.set_access(access.mode, Some((access.uid, access.gid)))
}

/// Folders that were not there then, as they are now.
fn look_at_folders(machine: &Machine, then: &[Place], folders: &mut BTreeMap<String, FolderAccess>) {
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
    Err(OpError::other(format!("{} ops and {states} states to roll back: plan or journal were changed", ops.len())))
}

fn mark_path(machine: &Machine) -> std::path::PathBuf {
    machine.path(format!("{}/{MARK}", paths::STATE))
}

fn mark_of(ops: &[Op]) -> String {
    Digest::of(serde_json::to_vec(ops).unwrap_or_default()).to_string()
}

fn overlap(one: &Op, other: &Op) -> bool {
    let others = other.alone();
    one.alone().iter().any(|thing| others.iter().any(|other| thing.overlaps(other)))
}

/// Every file that the op had looked at is as it was, and so is what is no file.
fn is_back(machine: &Machine, op: &Op, now: &ObservedState, then: &ObservedState) -> Result<bool, OpError> {
    for place in op.places(then)? {
        let found = Entry::look(machine, &place.path)?;
        // A folder in which others put something by now stays.
        let others = place.entry == Entry::Absent && matches!(found, Entry::Directory { .. });
        if found != place.entry && !others {
            return Ok(false);
        }
    }
    Ok(op.is_back(now, then)?)
}
