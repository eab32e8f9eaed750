//! Why each package of a closure is in it.

use std::collections::{HashMap, VecDeque};

use super::asked::Asked;
use super::selection::Selection;
use super::universe::Universe;
use super::{Because, PackageId};
use crate::model::Requirement;

/// From the roots on, breadth first: the first that needs a package is reported as the reason. A package that nothing
/// needs has none.
pub(super) fn reasons(
    universe: &Universe<'_>,
    selection: &Selection<'_>,
    asked: &[Asked<'_>],
) -> HashMap<PackageId, Because> {
    let mut found: HashMap<PackageId, Because> = HashMap::new();
    let mut queue = VecDeque::new();
    for root in asked {
        if let Some(id) = root.ways.iter().copied().find(|id| selection.contains(*id)) {
            found.entry(id).or_insert_with(|| {
                queue.push_back(id);
                Because::Root(root.name.into())
            });
        }
    }
    follow(universe, selection, &mut found, &mut queue);
    // What is installed and stays may need new versions of what it has, and new versions of its own.
    for id in universe.installed() {
        if selection.contains(id) {
            queue.push_back(id);
        }
    }
    follow(universe, selection, &mut found, &mut queue);
    for new in selection.new_members().into_iter().take_while(|_| !universe.is_spent()) {
        if found.contains_key(&new) {
            continue;
        }
        let Some(old) = universe.installed_as(&universe.package(new).name) else { continue };
        let lacking = selection.lacks(old).first().copied();
        if let (Some(at), Some(relations)) = (lacking, universe.relations(old)) {
            let wants = universe.words(&relations.requires[at]);
            found.insert(new, Because::InStep { wants });
            queue.push_back(new);
        } else if let Some(because) = ended_conflict(universe, selection, new, old) {
            found.insert(new, because);
            queue.push_back(new);
        }
    }
    follow(universe, selection, &mut found, &mut queue);
    found
}

fn follow(
    universe: &Universe<'_>,
    selection: &Selection<'_>,
    found: &mut HashMap<PackageId, Because>,
    queue: &mut VecDeque<PackageId>,
) {
    while let Some(by) = queue.pop_front() {
        let Some(relations) = universe.relations(by) else { continue };
        let by_name = || universe.package(by).name.clone();
        let mut reported = |id: PackageId, wants: &dyn Fn() -> Box<str>| {
            if id != by {
                found.entry(id).or_insert_with(|| {
                    queue.push_back(id);
                    Because::Needed { by: by_name(), wants: wants() }
                });
            }
        };
        for need in &relations.requires {
            for id in first(universe, selection, need) {
                reported(id, &|| universe.words(need));
            }
        }
        // A conflict may bring something, too: what makes it come to nothing.
        for conflict in relations.conflicts.iter().filter(|one| !matches!(one, Requirement::One(_))) {
            for id in against(universe, selection, conflict) {
                let name = &universe.package(id).name;
                reported(id, &|| format!("{name}, as it conflicts with {}", universe.words(conflict)).into());
            }
        }
    }
}

/// Of an upgrade that another member's conflict with the old version asks for, or the old version's with another member.
fn ended_conflict(
    universe: &Universe<'_>,
    selection: &Selection<'_>,
    new: PackageId,
    old: PackageId,
) -> Option<Because> {
    let name = |id: PackageId| universe.package(id).name.clone();
    let hits = |against: &Requirement, id: PackageId| universe.single(against).is_some_and(|all| all.contains(&id));
    for by in selection.members().filter(|by| *by != new) {
        let Some(relations) = universe.relations(by) else { continue };
        if let Some(against) = relations.conflicts.iter().find(|against| hits(against, old)) {
            let wants = format!("{}, as it conflicts with {}", universe.shown(new), universe.words(against));
            return Some(Because::Needed { by: name(by), wants: wants.into() });
        }
    }
    let relations = universe.relations(old)?;
    relations.conflicts.iter().find_map(|against| {
        let by = universe.single(against)?.into_iter().find(|id| *id != new && selection.contains(*id))?;
        let wants =
            format!("{}, as {} conflicts with {}", universe.shown(new), universe.shown(old), universe.words(against));
        Some(Because::Needed { by: name(by), wants: wants.into() })
    })
}

/// The members that make it false, of what a member cannot stand: of `(a unless b)` it is b.
fn against(universe: &Universe<'_>, selection: &Selection<'_>, conflict: &Requirement) -> Vec<PackageId> {
    use Requirement::{All, Any, If, Unless};
    match conflict {
        Any(all) => all.iter().flat_map(|one| against(universe, selection, one)).collect(),
        All(all) => {
            let first = all.iter().find(|one| !selection.holds(one));
            first.map_or_else(Vec::new, |one| against(universe, selection, one))
        }
        If { condition, then, otherwise } | Unless { condition, then, otherwise } => {
            let (with, without) = match conflict {
                If { .. } => (Some(then), otherwise.as_ref()),
                _ => (otherwise.as_ref(), Some(then)),
            };
            if !selection.holds(condition) {
                return without.map_or_else(Vec::new, |one| against(universe, selection, one));
            }
            let mut found = with.map_or_else(Vec::new, |one| against(universe, selection, one));
            // The condition is a reason where the conflict would be there without it.
            if without.is_none_or(|one| selection.holds(one)) {
                found.extend(first(universe, selection, condition));
            }
            found
        }
        // It is not there, and nobody is the reason.
        _ => Vec::new(),
    }
}

/// The members that make it true: of several the first as it is written, and of one name's the package of that name.
fn first(universe: &Universe<'_>, selection: &Selection<'_>, need: &Requirement) -> Vec<PackageId> {
    use Requirement::{All, Any, If, Unless};
    match need {
        All(all) => all.iter().flat_map(|one| first(universe, selection, one)).collect(),
        Any(all) => {
            all.iter().find(|one| selection.holds(one)).map_or_else(Vec::new, |one| first(universe, selection, one))
        }
        If { condition, then, otherwise } | Unless { condition, then, otherwise } => {
            let when = selection.holds(condition) == matches!(need, If { .. });
            let wanted = if when { Some(then) } else { otherwise.as_ref() };
            wanted.map_or_else(Vec::new, |one| first(universe, selection, one))
        }
        single => {
            let all = universe.single(single).unwrap_or_default();
            all.into_iter().find(|id| selection.contains(*id)).into_iter().collect()
        }
    }
}
