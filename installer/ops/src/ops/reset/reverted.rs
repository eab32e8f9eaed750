//! Ops taken back to what they found long ago, as the node's ledger has it.
//!
//! A mark (`/var/lib/kubexm/reverted`) says that all of it was done: some ops leave what somebody else needs by now (a
//! module in use, a folder that others put files in), and would be taken back in every run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use kubexm_plan::touch::same;
use kubexm_plan::{Found, Op};
use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Traces;
use crate::dirfd::DirFd;
use crate::fsio;
use crate::ops::state_dir;
use crate::place::{Entry, Place};
use crate::{Machine, OpError, Wave, dispatch, paths};

const MARK: &str = "reverted";

pub(super) fn observe(machine: &Machine, ops: &[Op], before: &[Found]) -> Result<Traces, OpError> {
    paired(ops, before.len())?;
    let (mut states, mut folders) = (Vec::new(), BTreeMap::new());
    let mut back = true;
    for (number, (op, then)) in ops.iter().zip(before).enumerate() {
        let now = dispatch::observe(op, machine)?;
        // Of several that changed one thing, the oldest (the last here) says how it was.
        let decides = !ops[number + 1..].iter().any(|older| overlap(op, older));
        back = back && (!decides || is_back(machine, op, &now, then)?);
        look_at_folders(machine, then, &mut folders);
        states.push(now);
    }
    back = back || fsio::read_text(&mark_path(machine))?.is_some_and(|mark| mark.trim() == mark_of(ops));
    Ok(Traces::States { states, folders, back })
}

pub(super) fn revert(machine: &Machine, ops: &[Op], before: &[Found]) -> Result<(), OpError> {
    paired(ops, before.len())?;
    for wave in Wave::ALL {
        for (op, then) in ops.iter().zip(before) {
            match op {
                // What came into it is set aside already, and was not deleted: only the folder itself comes back.
                Op::StateDir(_) if wave == Wave::Data => {
                    places(&then.state).iter().try_for_each(|place| state_dir::restore_access(machine, place))?;
                }
                op => dispatch::restore(op, machine, &then.state, wave)?,
            }
        }
    }
    fsio::write(machine, &format!("{}/{MARK}", paths::STATE), mark_of(ops).as_bytes(), fsio::Access::mode(0o600))
}

/// Back to what the reset found: the oldest first, as they were made.
///
/// A restore brings files and units back. What else held (a module, a parameter, no swap) is made so again; nothing of
/// that needs a text or a slot of the plan that made it.
pub(super) fn restore(
    machine: &Machine,
    ops: &[Op],
    states: &[Found],
    folders: &BTreeMap<String, Access>,
    wave: Wave,
) -> Result<(), OpError> {
    paired(ops, states.len())?;
    match wave {
        Wave::Stop => fsio::remove(&mark_path(machine))?,
        // Out of the cluster's way again, before anything of it is made; parents sort before what is in them.
        Wave::Data => {
            for op in ops.iter().filter(|op| matches!(op, Op::MoveAside(_))) {
                dispatch::make(op, machine)?;
            }
            folders.iter().try_for_each(|(path, access)| access.make(machine, path))?;
        }
        Wave::Start => {}
    }
    for (op, found) in ops.iter().zip(states).rev() {
        // Its files are the store's blobs: no copies of them are kept, they are placed again.
        if !matches!(op, Op::RegistryLayout(_)) {
            dispatch::restore(op, machine, &found.state, wave)?;
        }
        if wave == Wave::Data && found.satisfied && made_again(op) && !dispatch::observe(op, machine)?.satisfied {
            dispatch::make(op, machine)?;
        }
    }
    Ok(())
}

/// Whether an op that held is made so by its own converge, when restoring its files was not all.
const fn made_again(op: &Op) -> bool {
    matches!(
        op,
        Op::KernelModule(_)
            | Op::Sysctl(_)
            | Op::SwapOff(_)
            | Op::SelinuxMode(_)
            | Op::Hostname(_)
            | Op::HostsBlock(_)
            | Op::Resolver(_)
            | Op::RegistryLayout(_)
            | Op::Packages(_)
    )
}

/// Mode and owner of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Access {
    mode: u32,
    uid: u32,
    gid: u32,
}

impl Access {
    fn make(self, machine: &Machine, path: &str) -> Result<(), OpError> {
        let real = machine.path(path);
        if real.symlink_metadata().is_ok() {
            return Ok(());
        }
        DirFd::make(&real)?.set_access(self.mode, Some((self.uid, self.gid)))
    }
}

/// Folders that were not there then, as they are now.
fn look_at_folders(machine: &Machine, then: &Found, folders: &mut BTreeMap<String, Access>) {
    for path in places(&then.state).into_iter().flat_map(|place| place.missing) {
        if let Ok(found) = fs::symlink_metadata(machine.path(&path))
            && found.is_dir()
        {
            folders.insert(path, Access { mode: found.mode() & 0o7777, uid: found.uid(), gid: found.gid() });
        }
    }
}

fn paired(ops: &[Op], states: usize) -> Result<(), OpError> {
    if ops.len() == states {
        return Ok(());
    }
    Err(OpError::other(format!("{} ops and {states} states to take back: plan or journal were changed", ops.len())))
}

fn mark_path(machine: &Machine) -> std::path::PathBuf {
    machine.path(format!("{}/{MARK}", paths::STATE))
}

fn mark_of(ops: &[Op]) -> String {
    Digest::of(serde_json::to_vec(ops).unwrap_or_default()).to_string()
}

fn overlap(one: &Op, other: &Op) -> bool {
    let others = other.touches();
    one.touches().iter().any(|thing| others.iter().any(|other| same(thing, other)))
}

/// Every file that the op had looked at is as it was, and so is what is no file.
fn is_back(machine: &Machine, op: &Op, now: &Found, then: &Found) -> Result<bool, OpError> {
    for place in places(&then.state) {
        let found = Entry::look(machine, &place.path)?;
        // A folder in which others put something by now stays.
        let others = place.entry == Entry::Absent && matches!(found, Entry::Directory { .. });
        if found != place.entry && !others {
            return Ok(false);
        }
    }
    let word = |state: &Value, key: &str| state.get(key).and_then(Value::as_bool).unwrap_or(false);
    Ok(match op {
        Op::Packages(_) => now.state.get("packages") == then.state.get("packages"),
        Op::Unit(_) => ["enabled", "active"].iter().all(|key| word(&now.state, key) == word(&then.state, key)),
        _ => now.satisfied == then.satisfied || !places(&then.state).is_empty(),
    })
}

/// Places anywhere in a state, whatever its kind.
fn places(state: &Value) -> Vec<Place> {
    match Place::deserialize(state) {
        Ok(place) => vec![place],
        Err(_) => match state {
            Value::Array(values) => values.iter().flat_map(places).collect(),
            Value::Object(values) => values.values().flat_map(places).collect(),
            _ => Vec::new(),
        },
    }
}
