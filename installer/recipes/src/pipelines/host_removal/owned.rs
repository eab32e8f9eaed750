//! What a node has from kubexm, according to its ledger.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use kubexm_plan::ledger::{Outcome, Record, SCHEMA};
use kubexm_plan::op::{AsideWas, MoveAside, StateDir, Unit, WantedPackage};
use kubexm_plan::{
    ObservedState, Op, PathEntry, PathState, RemovalScope, Resource, StateError, StepId, etcd, network, runtime,
    state_folders,
};
use kubexm_spec::one_line;

use super::host::ResetHost;
use crate::error::RecipeError;

/// Folder of the units that kubexm writes.
const UNITS: &str = "/etc/systemd/system";

/// The most bytes of paths in folders that existed before: each is kept with the path of its folder. A host lists 65,536 of a folder.
const PATHS: usize = 256 << 20;
/// The most comparisons of what ops change, which take seconds: a ledger of ten thousand records takes some ten million.
const COMPARISONS: usize = 2_000_000_000;

/// What may still be made of a ledger, which is what the host reports.
struct Room {
    paths: usize,
    comparisons: usize,
}

impl Room {
    fn keep(&mut self, bytes: usize) -> Result<(), StateError> {
        let none =
            || StateError::Unreadable(format!("with those before it, it has more than {} MiB of paths", PATHS >> 20));
        self.paths = self.paths.checked_sub(bytes).ok_or_else(none)?;
        Ok(())
    }

    fn compare(&mut self, count: usize) -> Result<(), StateError> {
        let none = || StateError::Unreadable("with those before it, it changes more than any host has".to_owned());
        self.comparisons = self.comparisons.checked_sub(count).ok_or_else(none)?;
        Ok(())
    }
}

/// What is to be removed from a host.
#[derive(Clone, Debug, Default)]
pub(in crate::pipelines) struct Owned {
    /// Units whose file kubexm wrote, or that use something to be removed, the last started first.
    pub units: Vec<Unit>,
    /// An init or join was started.
    pub kubernetes: bool,
    /// Folders and files that the started services write.
    pub folders: Vec<String>,
    /// Those of `folders` that existed before, with the entries in them that are kept.
    pub spared: BTreeMap<String, Vec<String>>,
    /// Folders whose earlier content was moved aside.
    pub moved: BTreeSet<String>,
    /// Parent folders that were created for `folders`, the deepest first.
    pub parents: Vec<String>,
    /// Ops to roll back, the newest first.
    pub ops: Vec<Op>,
    /// The state before the first change of each op.
    pub before: Vec<ObservedState>,
}

impl Owned {
    /// Deletes a folder that kubexm made, or used, with all that is in it: it is moved aside first, as every other one.
    pub fn delete_folder(&mut self, path: &str) {
        let ours = self.ops.iter().any(|op| matches!(op, Op::Dir(dir) if dir.path == path));
        if ours && !self.folders.iter().any(|folder| folder == path) {
            self.folders.push(path.to_owned());
            self.folders.sort();
        }
    }
}

/// Reads a host's ledger; refuses a host of another cluster, and a ledger that a newer program wrote.
pub(in crate::pipelines) fn of_host(cluster: &str, host: &ResetHost<'_>) -> Result<Owned, RecipeError> {
    if let Some(why) = &host.facts.unreadable_stamp {
        return Err(RecipeError::UnreadableStamp { host: host.name.to_owned(), why: one_line(why) });
    }
    if let Some(record) = host.ledger.iter().find(|record| record.schema > SCHEMA) {
        return Err(RecipeError::NewerLedger { host: host.name.to_owned(), found: record.schema, known: SCHEMA });
    }
    let changes = changes(host.ledger);
    let stamped = host.facts.stamp.as_ref().map(|stamp| stamp.cluster.as_str());
    let mut recorded = changes.iter().flat_map(|record| &record.ops).filter_map(|op| match op {
        Op::Stamp(stamp) => Some(stamp.cluster.as_str()),
        _ => None,
    });
    // The ledger may still have an older cluster's stamp, if that cluster was removed by other means: the last
    // stamp decides, and older records are removed with it.
    if let Some(other) = stamped.or_else(|| recorded.next_back()).filter(|name| *name != cluster) {
        return Err(RecipeError::ClusterMismatch {
            host: host.name.to_owned(),
            found: one_line(other),
            wanted: cluster.to_owned(),
        });
    }
    let mut owned = Owned::default();
    let mut room = Room { paths: PATHS, comparisons: COMPARISONS };
    let mut oldest: Vec<Resource> = Vec::new();
    for (step, op, found) in changes.iter().flat_map(|record| observations(record)) {
        let touched = touched(op);
        let each: usize = touched.iter().map(steps).sum();
        let compared = each.saturating_mul(oldest.len()).saturating_add(owned.units.len() + owned.folders.len());
        room.compare(compared).map_err(unreadable(host, step, op))?;
        let is_service_folder = classify(op, found, &mut owned).map_err(unreadable(host, step, op))?;
        let known = touched.iter().all(|resource| oldest.iter().any(|older| older.overlaps(resource)));
        // An archive's newer version may have more files than the older one. Where it was there already, a later step has changed nothing
        // of it, and kept no copy.
        let has_more = matches!(op, Op::Unpacked(_)) && !found.satisfied;
        if op.scope() != RemovalScope::Host || (known && !has_more) {
            continue;
        }
        oldest.extend(touched);
        // The whole folder is moved aside, with what a package had put there earlier.
        if matches!(op, Op::File(file) if owned.folders.contains(&file.path)) {
            continue;
        }
        // Moved aside, and deleted in the last step.
        if is_service_folder {
            continue;
        }
        owned.ops.push(op.clone());
        owned.before.push(found.clone());
    }
    supersede(&mut owned.ops, &changes);
    owned.ops.reverse();
    owned.before.reverse();
    let files: BTreeSet<&str> = changes.iter().flat_map(|r| &r.ops).filter_map(file).collect();
    // Units that kubexm wrote, and those that use something that is moved aside: a package's unit with its
    // configuration.
    let folders: HashSet<&String> = owned.folders.iter().collect();
    owned.units.retain(|unit| {
        files.contains(format!("{UNITS}/{}", unit.name).as_str())
            || unit.loaded.iter().any(|path| folders.contains(path))
    });
    let dirs = state_dirs(&changes);
    if owned.kubernetes {
        state_folders::of_kubernetes(&network::ALL)
            .into_iter()
            .chain(of_kubeadm(&changes))
            .try_for_each(|path| keep_earlier_content(path, host, &dirs, (&mut owned, &mut room)))?;
    }
    let runtime = |unit: &Unit| runtime::ALL.into_iter().find(|runtime| runtime.unit == unit.name);
    let runtimes: Vec<_> = owned.units.iter().filter_map(runtime).collect();
    for path in runtimes.into_iter().flat_map(|runtime| runtime.state) {
        keep_earlier_content(path, host, &dirs, (&mut owned, &mut room))?;
    }
    for path in data_of_etcd(&changes).into_iter().chain(of_services(&changes, &owned.units, &files)) {
        keep_earlier_content(path, host, &dirs, (&mut owned, &mut room))?;
    }
    owned.folders.sort();
    owned.folders.dedup();
    // A path below another sorts after it.
    owned.parents.sort_by(|one, other| other.cmp(one));
    owned.parents.dedup();
    Ok(owned)
}

/// A package that kubexm has installed, and upgraded later, is kubexm's in its last version.
fn supersede(ops: &mut [Op], changes: &[&Record]) {
    let all = changes.iter().flat_map(|record| &record.ops);
    let packages = all.filter_map(|op| if let Op::Packages(packages) = op { Some(&packages.packages) } else { None });
    let last: BTreeMap<&String, &WantedPackage> = packages.flatten().collect();
    for op in ops {
        let Op::Packages(packages) = op else { continue };
        for (name, package) in &mut packages.packages {
            if let Some(last) = last.get(name) {
                package.version.clone_from(&last.version);
            }
        }
    }
}

/// Folders of the services whose unit kubexm wrote: those that any step of the unit's module names (`harbor.programs` and
/// `harbor.serve`).
fn of_services<'a>(changes: &[&'a Record], units: &[Unit], files: &BTreeSet<&str>) -> BTreeSet<&'a str> {
    let is_ours = |op: &Op| match op {
        Op::Unit(unit) => {
            files.contains(format!("{UNITS}/{}", unit.name).as_str()) && units.iter().any(|kept| kept.name == unit.name)
        }
        _ => false,
    };
    let module =
        |record: &'a Record| record.step.0.rsplit_once('.').map_or(record.step.0.as_str(), |(module, _)| module);
    let modules: BTreeSet<&str> =
        changes.iter().filter(|record| record.ops.iter().any(is_ours)).map(|record| module(record)).collect();
    let ops = changes.iter().filter(|record| modules.contains(module(record))).flat_map(|record| &record.ops);
    ops.filter_map(|op| if let Op::StateDir(dir) = op { Some(dir.path.as_str()) } else { None }).collect()
}

/// An unreadable state stops the reset: a wrong guess would delete somebody else's data.
fn unreadable<'a>(
    host: &'a ResetHost<'_>,
    step: &'a StepId,
    op: &'a Op,
) -> impl FnOnce(StateError) -> RecipeError + 'a {
    move |source| RecipeError::UnreadableState {
        host: host.name.to_owned(),
        step: one_line(&step.0),
        op: op.name(),
        source,
    }
}

/// One record for each step of each run that changed something and was not rolled back, in their order. Steps of an
/// earlier reset are not among them.
fn changes(ledger: &[Record]) -> Vec<&Record> {
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

/// Each op of a record with its step and the state that it found.
fn observations(record: &Record) -> impl Iterator<Item = (&StepId, &Op, &ObservedState)> {
    record.ops.iter().zip(&record.before).map(|(op, found)| (&record.step, op, found))
}

/// The first observation of each folder that a service fills.
type Dirs<'r> = HashMap<&'r str, (&'r StepId, &'r Op, &'r ObservedState)>;

fn state_dirs<'r>(changes: &[&'r Record]) -> Dirs<'r> {
    let mut dirs = Dirs::new();
    for (step, op, found) in changes.iter().flat_map(|record| observations(record)) {
        if let Op::StateDir(dir) = op {
            dirs.entry(&dir.path).or_insert((step, op, found));
        }
    }
    dirs
}

/// Records what an op has changed; returns whether that is a new folder of a service, which is removed as a whole.
fn classify(op: &Op, found: &ObservedState, owned: &mut Owned) -> Result<bool, StateError> {
    owned.kubernetes |= op.changes(&Resource::Kubeadm);
    match op {
        Op::Unit(unit) => {
            // The newest record names the files it runs with.
            owned.units.retain(|older| older.name != unit.name);
            owned.units.insert(0, unit.clone());
        }
        Op::MoveAside(_) => {
            let folders = found.state::<MoveAside>()?.folders;
            let moved = folders.into_iter().filter(|folder| folder.was == AsideWas::Occupied);
            owned.moved.extend(moved.map(|folder| folder.path));
        }
        // A folder that existed before is not removed as a whole: see `keep_earlier_content`.
        Op::StateDir(dir) => {
            let place: PathState = found.state::<StateDir>()?;
            if place.entry == PathEntry::Absent {
                owned.folders.push(dir.path.clone());
                owned.parents.extend(place.missing);
                return Ok(true);
            }
        }
        _ => {}
    }
    Ok(false)
}

/// In a folder that existed before, only new content is removed; nothing, if the ledger does not record the earlier
/// content.
fn keep_earlier_content(
    path: &str,
    host: &ResetHost<'_>,
    dirs: &Dirs<'_>,
    (owned, room): (&mut Owned, &mut Room),
) -> Result<(), RecipeError> {
    let Some(&(step, op, found)) = dirs.get(path) else { return Ok(()) };
    let Some(held) = found.state::<StateDir>().map_err(unreadable(host, step, op))?.held else { return Ok(()) };
    let mut spared = BTreeMap::from([(path.to_owned(), Vec::new())]);
    for entry in &held {
        room.keep(path.len() + entry.len()).map_err(unreadable(host, step, op))?;
        let whole = format!("{path}/{}", entry.trim_end_matches('/'));
        if let Some((folder, name)) = whole.rsplit_once('/') {
            spared.entry(folder.to_owned()).or_default().push(name.to_owned());
        }
        if entry.ends_with('/') {
            spared.entry(whole).or_default();
        }
    }
    owned.folders.extend(spared.keys().cloned());
    owned.spared.append(&mut spared);
    Ok(())
}

/// The folders that steps with an init or a join name: etcd's may be another one than the usual.
fn of_kubeadm<'r>(changes: &[&'r Record]) -> BTreeSet<&'r str> {
    let of_kubeadm = |record: &&&Record| record.ops.iter().any(|op| op.changes(&Resource::Kubeadm));
    let folder = |op: &'r Op| if let Op::StateDir(dir) = op { Some(dir.path.as_str()) } else { None };
    changes.iter().filter(of_kubeadm).flat_map(|record| &record.ops).filter_map(folder).collect()
}

/// The data folders of an etcd of kubexm's: those that a step with its unit names.
fn data_of_etcd<'r>(changes: &[&'r Record]) -> BTreeSet<&'r str> {
    let of_etcd =
        |record: &&&Record| record.ops.iter().any(|op| matches!(op, Op::Unit(unit) if unit.name == etcd::UNIT));
    let folder = |op: &'r Op| if let Op::StateDir(dir) = op { Some(dir.path.as_str()) } else { None };
    changes.iter().filter(of_etcd).flat_map(|record| &record.ops).filter_map(folder).collect()
}

fn file(op: &Op) -> Option<&str> {
    match op {
        Op::File(file) => Some(&file.path),
        _ => None,
    }
}

/// So many bytes of a name or path are as quick to look at as the rest of a comparison.
const QUICK: usize = 16;

/// As how many comparisons one with this counts.
fn steps(resource: &Resource) -> usize {
    1 + resource.to_string().len() / QUICK
}

/// What an op changes, compared with older ops to find out whether it is new.
fn touched(op: &Op) -> Vec<Resource> {
    let resources = op.resource_changes().into_iter().map(|change| change.resource);
    match op {
        // Each run installs its own packages, and only those decide.
        Op::Packages(_) => resources.filter(|resource| matches!(resource, Resource::Package(_))).collect(),
        _ => resources.collect(),
    }
}

#[cfg(test)]
mod tests {
    use kubexm_plan::Undo;
    use kubexm_plan::op::{Link, Sysctl};
    use kubexm_spec::cluster::Roles;
    use serde_json::{Value, json};

    use super::*;

    fn record(step: &str, ops: Vec<(Op, Value)>) -> Record {
        let (ops, before): (Vec<Op>, Vec<Value>) = ops.into_iter().unzip();
        Record {
            schema: SCHEMA,
            run: "r".to_owned(),
            sequence: 0,
            step: StepId(format!("node1/{step}")),
            ops,
            undo: Undo::RestoreBefore,
            before: before.iter().map(|found| ObservedState::opaque(found, false)).collect(),
            outcome: Outcome::Done,
        }
    }

    fn of(ledger: &[Record]) -> Result<Owned, String> {
        let facts = crate::sample::facts("node1", 11);
        let roles = Roles { control_plane: true, worker: true, etcd: true, registry: false, load_balancer: false };
        let host = ResetHost { name: "node1", roles, facts: &facts, ledger };
        of_host("demo", &host).map_err(|error| match error {
            RecipeError::UnreadableState { source, .. } => source.to_string(),
            other => other.to_string(),
        })
    }

    #[test]
    fn a_long_path_in_a_ledger_is_not_kept_once_for_each_thing_in_its_folder() {
        let held = |length: usize| {
            let path = format!("/{}", "x".repeat(length));
            let names: Vec<String> = (0..300).map(|at| format!("{at}/")).collect();
            let found = json!({"path": path, "entry": {"is": "directory", "mode": 493}, "held": names});
            let loaded = vec![format!("{UNITS}/{}", etcd::UNIT)];
            let unit =
                Unit { name: etcd::UNIT.to_owned(), enabled: true, running: Some(true), loaded, reloaded: Vec::new() };
            record("etcd.unit", vec![(StateDir::at(&path).into(), found), (unit.into(), json!("off"))])
        };
        assert_eq!(of(&[held(1_000)]).unwrap().folders.len(), 301);
        assert!(of(&[held(1 << 20)]).unwrap_err().contains("more than 256 MiB of paths"));
    }

    #[test]
    fn what_a_ledger_changes_is_not_compared_without_end() {
        let sysctl = |step: &str, count: usize| {
            let values = (0..count).map(|at| (format!("a{at}"), String::new())).collect();
            let op = Sysctl { path: "/etc/sysctl.d/x.conf".to_owned(), values, remembered: BTreeSet::new() };
            record(step, vec![(op.into(), Value::Null)])
        };
        let both = |count: usize| of(&[sysctl("os.one", count), sysctl("os.two", count)]);
        assert_eq!(both(100).unwrap().ops.len(), 1);
        assert!(both(50_000).unwrap_err().contains("changes more than any host has"));
    }

    #[test]
    fn paths_of_kilobytes_count_as_what_they_take_to_compare() {
        let link = |at: usize| {
            let link = Link { path: format!("/{at:0>16384}"), target: "/x".to_owned(), accepted: Vec::new() };
            record(&format!("os.link-{at}"), vec![(link.into(), json!({"path": "/x", "entry": {"is": "absent"}}))])
        };
        let of_many = |count: usize| of(&(0..count).map(link).collect::<Vec<_>>()).map(|owned| owned.ops.len());
        assert_eq!(of_many(100), Ok(100));
        assert!(of_many(5_000).unwrap_err().contains("changes more than any host has"));
    }
}
