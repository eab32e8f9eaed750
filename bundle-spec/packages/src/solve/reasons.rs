//! Why each package of a closure is in it.

use std::collections::{HashMap, VecDeque};

use super::closure::Asked;
use super::selection::Selection;
use super::universe::Universe;
use super::{Because, PackageId};
use crate::model::Requirement;

/// From the roots on, breadth first: the first that needs a package is told as the reason. What nobody needs has none.
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
    for new in selection.new_members() {
        if found.contains_key(&new) {
            continue;
        }
        let Some(old) = universe.installed_as(&universe.package(new).name) else { continue };
        let lacking = selection.lacks(old).first().copied();
        if let (Some(at), Some(relations)) = (lacking, universe.relations(old)) {
            let wants = universe.words(&relations.requires[at]);
            found.insert(new, Because::InStep { wants });
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
        for need in &relations.requires {
            for id in first(universe, selection, need) {
                if id != by {
                    found.entry(id).or_insert_with(|| {
                        queue.push_back(id);
                        Because::Needed { by: universe.package(by).name.clone(), wants: universe.words(need) }
                    });
                }
            }
        }
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
