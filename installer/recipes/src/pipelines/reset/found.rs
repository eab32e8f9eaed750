//! What kubexm put on a node, according to the node's ledger.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::ledger::{Outcome, Record, SCHEMA};
use kubexm_plan::op::{AsideWas, MoveAside, StateDir, Unit};
use kubexm_plan::{Entry, ObservedState, Op, Place, Scope, StateError, StepId, Thing, network, runtime, state_folders};

use super::host::ResetHost;
use crate::error::RecipeError;

/// Folder of the units that kubexm writes.
const UNITS: &str = "/etc/systemd/system";

/// What is to be removed from a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Ours {
    /// Units whose file kubexm wrote, or that use something to be removed, the last started first.
    pub units: Vec<Unit>,
    /// An init or join was started.
    pub kubernetes: bool,
    /// Folders and files that the started services write.
    pub folders: Vec<String>,
    /// Those of them that existed before, with the names in them that are kept.
    pub spared: BTreeMap<String, Vec<String>>,
    /// Folders whose earlier content was moved aside.
    pub moved: BTreeSet<String>,
    /// Folders that were made for moving it aside, the deepest first.
    pub parents: Vec<String>,
    /// Ops to roll back, the newest first.
    pub ops: Vec<Op>,
    /// The state before the first change of each op.
    pub before: Vec<ObservedState>,
}

/// Reads a host's ledger; refuses a host of another cluster, and a ledger that a newer program wrote.
pub(super) fn ours(cluster: &str, host: &ResetHost<'_>) -> Result<Ours, RecipeError> {
    if let Some(why) = &host.facts.unreadable_stamp {
        return Err(RecipeError::UnreadableStamp { host: host.name.to_owned(), why: why.clone() });
    }
    if let Some(record) = host.ledger.iter().find(|record| record.schema > SCHEMA) {
        return Err(RecipeError::NewerLedger { host: host.name.to_owned(), found: record.schema, known: SCHEMA });
    }
    let made = made(host.ledger);
    let stamped = host.facts.stamp.as_ref().map(|stamp| stamp.cluster.as_str());
    let mut recorded = made.iter().flat_map(|record| &record.ops).filter_map(|op| match op {
        Op::Stamp(stamp) => Some(stamp.cluster.as_str()),
        _ => None,
    });
    // The ledger may still have an older cluster's stamp, if that cluster was removed by other means: the last stamp
    // decides, and older records are removed with it.
    if let Some(other) = stamped.or_else(|| recorded.next_back()).filter(|name| *name != cluster) {
        return Err(RecipeError::OtherCluster {
            host: host.name.to_owned(),
            found: other.to_owned(),
            wanted: cluster.to_owned(),
        });
    }
    let mut ours = Ours::default();
    let mut oldest: Vec<Thing> = Vec::new();
    for (step, op, found) in made.iter().flat_map(|record| looks(record)) {
        let filled = sort_in(op, found, &mut ours).map_err(unreadable(host, step, op))?;
        let touched = touched(op);
        let known = touched.iter().all(|thing| oldest.iter().any(|older| older.overlaps(thing)));
        // An archive's newer version may have more files than the older one.
        if op.scope() != Scope::Host || (known && !matches!(op, Op::Unpacked(_))) {
            continue;
        }
        oldest.extend(touched);
        // Set aside as a whole, with what a package had put there earlier.
        if matches!(op, Op::File(file) if ours.folders.contains(&file.path)) {
            continue;
        }
        // Set aside, and deleted in the last step.
        if filled {
            continue;
        }
        ours.ops.insert(0, op.clone());
        ours.before.insert(0, found.clone());
    }
    let files: BTreeSet<&str> = made.iter().flat_map(|r| &r.ops).filter_map(file).collect();
    // And those that use something that is set aside: a package's unit with its configuration.
    let folders = &ours.folders;
    ours.units.retain(|unit| {
        files.contains(format!("{UNITS}/{}", unit.name).as_str())
            || unit.loaded.iter().any(|path| folders.contains(path))
    });
    if ours.kubernetes {
        state_folders::of_kubernetes(&network::ALL)
            .into_iter()
            .try_for_each(|path| share(path, host, &made, &mut ours))?;
    }
    let runtime = |unit: &Unit| runtime::ALL.into_iter().find(|runtime| runtime.unit == unit.name);
    let runtimes: Vec<_> = ours.units.iter().filter_map(runtime).collect();
    for path in runtimes.into_iter().flat_map(|runtime| runtime.state) {
        share(path, host, &made, &mut ours)?;
    }
    ours.folders.sort();
    ours.folders.dedup();
    // A path below another sorts after it.
    ours.parents.sort_by(|one, other| other.cmp(one));
    ours.parents.dedup();
    Ok(ours)
}

/// An error: the earlier state is unknown, and a wrong guess would delete somebody else's data.
fn unreadable<'a>(
    host: &'a ResetHost<'_>,
    step: &'a StepId,
    op: &'a Op,
) -> impl FnOnce(StateError) -> RecipeError + 'a {
    move |source| RecipeError::UnreadableState {
        host: host.name.to_owned(),
        step: step.to_string(),
        op: op.name(),
        source,
    }
}

/// One record for each step of each run that changed something and was not rolled back, in their order. Steps of an
/// earlier reset are not among them.
fn made(ledger: &[Record]) -> Vec<&Record> {
    let key = |record: &'_ Record| (record.run.clone(), record.step.clone());
    let mut last: BTreeMap<(String, StepId), &Outcome> = BTreeMap::new();
    for record in ledger {
        last.insert(key(record), &record.outcome);
    }
    let mut seen = BTreeSet::new();
    ledger
        .iter()
        .filter(|record| last.get(&key(record)).is_some_and(|outcome| **outcome != Outcome::Restored))
        .filter(|record| !record.step.0.contains("/reset."))
        .filter(|record| seen.insert(key(record)))
        .collect()
}

/// Each op of a record with its earlier state and its step.
fn looks(record: &Record) -> impl Iterator<Item = (&StepId, &Op, &ObservedState)> {
    record.ops.iter().zip(&record.before).map(|(op, found)| (&record.step, op, found))
}

/// Records what an op made; returns whether that is a folder made for a service, which is removed as a whole.
fn sort_in(op: &Op, found: &ObservedState, ours: &mut Ours) -> Result<bool, StateError> {
    ours.kubernetes |= op.changes(&Thing::Kubeadm);
    match op {
        Op::Unit(unit) => {
            // The newest record names the files it runs with.
            ours.units.retain(|older| older.name != unit.name);
            ours.units.insert(0, unit.clone());
        }
        Op::MoveAside(_) => {
            let folders = found.state::<MoveAside>()?.folders;
            let moved = folders.into_iter().filter(|folder| folder.was == AsideWas::Occupied);
            ours.moved.extend(moved.map(|folder| folder.path));
        }
        // A folder that existed before belongs to somebody else, with what the service put into it.
        Op::StateDir(dir) => {
            let place: Place = found.state::<StateDir>()?;
            if place.entry == Entry::Absent {
                ours.folders.push(dir.path.clone());
                ours.parents.extend(place.missing);
                return Ok(true);
            }
        }
        _ => {}
    }
    Ok(false)
}

/// In a folder that existed before, only new content is kubexm's. If the ledger does not record the earlier content,
/// nothing in it is.
fn share(path: &str, host: &ResetHost<'_>, made: &[&Record], ours: &mut Ours) -> Result<(), RecipeError> {
    let mut looks = made.iter().flat_map(|record| looks(record));
    let oldest = looks.find(|(_, op, _)| matches!(op, Op::StateDir(dir) if dir.path == path));
    let Some((step, op, found)) = oldest else { return Ok(()) };
    let Some(held) = found.state::<StateDir>().map_err(unreadable(host, step, op))?.held else { return Ok(()) };
    let mut spared = BTreeMap::from([(path.to_owned(), Vec::new())]);
    for entry in &held {
        let whole = format!("{path}/{}", entry.trim_end_matches('/'));
        if let Some((folder, name)) = whole.rsplit_once('/') {
            spared.entry(folder.to_owned()).or_default().push(name.to_owned());
        }
        if entry.ends_with('/') {
            spared.entry(whole).or_default();
        }
    }
    ours.folders.extend(spared.keys().cloned());
    ours.spared.append(&mut spared);
    Ok(())
}

fn file(op: &Op) -> Option<&str> {
    match op {
        Op::File(file) => Some(&file.path),
        _ => None,
    }
}

/// Whether an older op covers all of it.
fn touched(op: &Op) -> Vec<Thing> {
    let things = op.touches().into_iter().map(|touch| touch.thing);
    match op {
        // A later run's entries are different ones: each removes its own.
        Op::Packages(_) => things.filter(|thing| matches!(thing, Thing::Package(_))).collect(),
        _ => things.collect(),
    }
}
