//! What a node's ledger says is ours.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::ledger::{Outcome, Record, SCHEMA};
use kubexm_plan::op::Unit;
use kubexm_plan::touch::same;
use kubexm_plan::{Act, Found, Op, StepId};

use super::ResetHost;
use crate::error::RecipeError;
use crate::paths;

const CONTAINERD: &str = "containerd.service";
/// Where units that we write lie.
const UNITS: &str = "/etc/systemd/system";

/// What is to be taken away from a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Ours {
    /// Units whose file we wrote, or that run with something that goes, the one started last first.
    pub units: Vec<Unit>,
    /// An init or join was begun.
    pub kubernetes: bool,
    /// Folders that what we started fills, and files that it writes.
    pub folders: Vec<String>,
    /// Those of them that were there before, with the names in them that stay.
    pub spared: BTreeMap<String, Vec<String>>,
    /// Folders whose earlier content was moved aside.
    pub moved: BTreeSet<String>,
    /// Folders that were made for those, the deepest first.
    pub parents: Vec<String>,
    /// Ops to take back, the newest first.
    pub ops: Vec<Op>,
    /// What each found before its first change.
    pub before: Vec<Found>,
}

/// Reads a host's ledger; refuses a host of another cluster, and a ledger that a newer program wrote.
pub(super) fn ours(cluster: &str, host: &ResetHost<'_>) -> Result<Ours, RecipeError> {
    if let Some(record) = host.ledger.iter().find(|record| record.schema > SCHEMA) {
        return Err(RecipeError::NewerLedger { host: host.name.to_owned(), found: record.schema, known: SCHEMA });
    }
    let made = made(host.ledger);
    let stamped = host.facts.stamp.as_ref().map(|stamp| stamp.cluster.as_str());
    let mut recorded = made.iter().flat_map(|record| &record.ops).filter_map(|op| match op {
        Op::Stamp(stamp) => Some(stamp.cluster.as_str()),
        _ => None,
    });
    // An older cluster's stamp may be in the ledger yet, when that one was taken away by other means: what was stamped last
    // says whose host it is, and what is older goes with it.
    if let Some(other) = stamped.or_else(|| recorded.next_back()).filter(|name| *name != cluster) {
        return Err(RecipeError::OtherCluster {
            host: host.name.to_owned(),
            found: other.to_owned(),
            wanted: cluster.to_owned(),
        });
    }
    let mut ours = Ours::default();
    let mut oldest: Vec<String> = Vec::new();
    for (op, found) in made.iter().flat_map(|record| record.ops.iter().zip(&record.before)) {
        sort_in(op, found, &mut ours);
        let touched = touched(op);
        let known = touched.iter().all(|thing| oldest.iter().any(|older| same(older, thing)));
        // An archive's newer version may have brought more files than the older one.
        if !is_reverted(op) || (known && !matches!(op, Op::Unpacked(_))) {
            continue;
        }
        oldest.extend(touched);
        // Set aside as a whole, with what a package had put there before us.
        if matches!(op, Op::File(file) if ours.folders.contains(&file.path)) {
            continue;
        }
        // Set aside, and deleted in the last step.
        if matches!(op, Op::StateDir(_)) && was_absent(found) {
            continue;
        }
        ours.ops.insert(0, op.clone());
        ours.before.insert(0, found.clone());
    }
    let files: BTreeSet<&str> = made.iter().flat_map(|r| &r.ops).filter_map(file).collect();
    // And those that run with something that is set aside: a package's unit with its configuration.
    let folders = &ours.folders;
    ours.units.retain(|unit| {
        files.contains(format!("{UNITS}/{}", unit.name).as_str())
            || unit.loaded.iter().any(|path| folders.contains(path))
    });
    if ours.kubernetes {
        paths::OF_KUBERNETES.iter().for_each(|path| share(path, &made, &mut ours));
    }
    if ours.units.iter().any(|unit| unit.name == CONTAINERD) {
        paths::OF_CONTAINERD.iter().for_each(|path| share(path, &made, &mut ours));
    }
    ours.folders.sort();
    ours.folders.dedup();
    // What is below another sorts after it.
    ours.parents.sort_by(|one, other| other.cmp(one));
    ours.parents.dedup();
    Ok(ours)
}

/// One record for each step of each run that changed something and was not taken back, in their order. Steps of an
/// earlier reset are none of what it takes back.
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

fn sort_in(op: &Op, found: &Found, ours: &mut Ours) {
    match op {
        Op::Unit(unit) => {
            // The newest says what it runs with.
            ours.units.retain(|older| older.name != unit.name);
            ours.units.insert(0, unit.clone());
        }
        Op::Act(Act::KubeadmInit { .. } | Act::KubeadmJoin { .. }) => ours.kubernetes = true,
        Op::MoveAside(_) => {
            let folders = found.state.get("folders").and_then(|all| all.as_array()).into_iter().flatten();
            let moved = folders.filter(|folder| folder.get("was").is_some_and(|was| was == "occupied"));
            let paths = moved.filter_map(|folder| folder.get("path").and_then(|path| path.as_str()));
            ours.moved.extend(paths.map(str::to_owned));
        }
        // One that was there before is somebody's, with what the service put into it.
        Op::StateDir(dir) if was_absent(found) => {
            ours.folders.push(dir.path.clone());
            let missing = found.state.get("missing").and_then(|all| all.as_array()).into_iter().flatten();
            ours.parents.extend(missing.filter_map(|path| path.as_str().map(str::to_owned)));
        }
        _ => {}
    }
}

/// Of a folder that was there before us only what came into it since is ours. Where the ledger does not say what was in
/// it, nothing is.
fn share(path: &str, made: &[&Record], ours: &mut Ours) {
    let mut looks = made.iter().flat_map(|record| record.ops.iter().zip(&record.before));
    let oldest = looks.find_map(|(op, found)| match op {
        Op::StateDir(dir) if dir.path == path => Some(found),
        _ => None,
    });
    let Some(held) = oldest.and_then(|found| found.state.get("held")).and_then(|held| held.as_array()) else { return };
    let mut spared = BTreeMap::from([(path.to_owned(), Vec::new())]);
    for entry in held.iter().filter_map(|entry| entry.as_str()) {
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
}

fn was_absent(found: &Found) -> bool {
    found.state.pointer("/entry/is").is_some_and(|is| is == "absent")
}

fn file(op: &Op) -> Option<&str> {
    match op {
        Op::File(file) => Some(&file.path),
        _ => None,
    }
}

/// As [`Op::touches`], which leaves out what two steps may do side by side.
fn touched(op: &Op) -> Vec<String> {
    match op {
        Op::Dir(dir) => vec![dir.path.clone()],
        Op::StateDir(dir) => vec![format!("state of {}", dir.path)],
        // A later run's are others: each takes its own away.
        Op::Packages(packages) => packages.packages.keys().map(|name| format!("package {name}")).collect(),
        op => op.touches(),
    }
}

/// What is in the cluster dies with it; the store and the stamp go in the last step.
fn is_reverted(op: &Op) -> bool {
    let of_the_cluster =
        matches!(op, Op::KubeObject(_) | Op::NodeUntainted(_) | Op::NodeLabel(_) | Op::ImageLoaded(_) | Op::Act(_));
    let of_the_end = matches!(op, Op::Blobs(_) | Op::Stamp(_) | Op::Reset(_));
    !of_the_cluster && !of_the_end
}
