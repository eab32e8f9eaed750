//! Whether a set is what was asked for: the judge over every way to a closure.

use std::collections::HashSet;

use super::PackageId;
use super::asked::Asked;
use super::selection::Selection;
use super::universe::Universe;
use crate::model::Requirement;

/// What is wrong with a set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Violation {
    /// A root that nothing satisfies.
    Root(usize),
    /// A member and the place of what it needs and does not have.
    Lacks(PackageId, usize),
    /// A member and what it cannot be with, or itself where that is more than one name.
    Against(PackageId, PackageId),
}

/// All that is wrong, and was not wrong already with what is installed; no answer where all comparisons are used up.
pub(super) fn verify(universe: &Universe<'_>, selection: &Selection<'_>, asked: &[Asked<'_>]) -> Vec<Violation> {
    let before: HashSet<Violation> = wrong(universe, &Selection::new(universe)).into_iter().collect();
    let mut found: Vec<Violation> =
        wrong(universe, selection).into_iter().filter(|violation| !before.contains(violation)).collect();
    let unsatisfied = (0..asked.len()).filter(|at| !asked[*at].ways.iter().any(|id| selection.contains(*id)));
    found.extend(unsatisfied.map(Violation::Root));
    found
}

pub(super) fn wrong(universe: &Universe<'_>, selection: &Selection<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut slots = HashSet::new();
    for id in selection.members() {
        if universe.is_spent() {
            break;
        }
        found.extend(selection.lacks(id).into_iter().map(|at| Violation::Lacks(id, at)));
        if !slots.insert(universe.slot(id)) {
            found.push(Violation::Against(id, id));
        }
        // What two installed packages have against each other was so before. A list of a node may have it of each two.
        let is_new = |other: &PackageId| !(universe.is_installed(id) && universe.is_installed(*other));
        let others = |other: &PackageId| {
            let is_one = *other != id && is_new(other) && selection.contains(*other);
            if is_one {
                universe.keep();
            }
            is_one && !universe.is_spent()
        };
        let Some(relations) = universe.relations(id) else { continue };
        for conflict in &relations.conflicts {
            match conflict {
                Requirement::One(one) => {
                    let all = universe.satisfying(one).into_iter().filter(others);
                    found.extend(all.map(|other| Violation::Against(id, other)));
                }
                other if selection.holds_but_for(other, id) => found.push(Violation::Against(id, id)),
                _ => {}
            }
        }
        for obsolete in relations.obsoletes.iter().take_while(|_| !universe.is_spent()) {
            universe.spend(1);
            let all = universe.pool.named(&obsolete.name).chain(universe.installed_as(&obsolete.name));
            let gone = all.inspect(|_| universe.spend(1)).filter(others);
            let gone = gone.filter(|other| universe.is_named(*other, obsolete));
            found.extend(gone.map(|other| Violation::Against(id, other)));
        }
    }
    found
}
