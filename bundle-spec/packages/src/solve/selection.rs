//! A set of packages that grows and is rolled back, and what holds of it.

use std::collections::{HashMap, HashSet};

use super::PackageId;
use super::universe::Universe;
use crate::model::{Constraint, Requirement};

/// Packages that are there, or would be.
pub(super) struct Selection<'u> {
    universe: &'u Universe<'u>,
    is_in: Vec<bool>,
    slots: HashMap<(&'u str, &'u str), PackageId>,
    /// What members cannot stand, by the name that it is about.
    against: HashMap<Box<str>, Vec<(PackageId, Constraint)>>,
    /// What members make obsolete, by name.
    obsolete: HashMap<Box<str>, Vec<(PackageId, Constraint)>>,
    trail: Vec<Step>,
}

enum Step {
    Added(PackageId),
    /// An installed package that a newer version took the place of.
    Dropped(PackageId),
}

impl<'u> Selection<'u> {
    /// All that is installed, and nothing else.
    pub(super) fn new(universe: &'u Universe<'u>) -> Self {
        let mut selection = Self {
            universe,
            is_in: vec![false; universe.len()],
            slots: HashMap::new(),
            against: HashMap::new(),
            obsolete: HashMap::new(),
            trail: Vec::new(),
        };
        for id in universe.installed() {
            selection.enter(id);
        }
        // Of several versions of one name the newest is what an upgrade takes the place of.
        for id in universe.installed() {
            if let Some(newest) = universe.installed_as(&universe.package(id).name) {
                selection.slots.insert(universe.slot(newest), newest);
            }
        }
        selection
    }

    pub(super) fn contains(&self, id: PackageId) -> bool {
        self.is_in[id.index()]
    }

    /// Members, by id.
    pub(super) fn members(&self) -> impl Iterator<Item = PackageId> {
        (0..).zip(&self.is_in).filter(|(_, is_in)| **is_in).map(|(id, _)| PackageId(id))
    }

    /// Members that were not installed before.
    pub(super) fn new_members(&self) -> Vec<PackageId> {
        self.members().take_while(|id| !self.universe.is_installed(*id)).collect()
    }

    /// Where the trail is, for [`Self::back_to`].
    pub(super) fn mark(&self) -> usize {
        self.trail.len()
    }

    /// Adds a package that [`Self::stands_against`] has no word against; an installed version of it goes.
    pub(super) fn add(&mut self, id: PackageId) {
        if self.contains(id) {
            return;
        }
        if let Some(&old) = self.slots.get(&self.universe.slot(id)) {
            self.leave(old);
            self.trail.push(Step::Dropped(old));
        }
        self.enter(id);
        self.trail.push(Step::Added(id));
    }

    /// Rolls back all that came after a mark.
    pub(super) fn back_to(&mut self, mark: usize) {
        while self.trail.len() > mark {
            match self.trail.pop() {
                Some(Step::Added(id)) => self.leave(id),
                Some(Step::Dropped(id)) => self.enter(id),
                None => {}
            }
        }
    }

    fn enter(&mut self, id: PackageId) {
        self.is_in[id.index()] = true;
        self.slots.insert(self.universe.slot(id), id);
        let Some(relations) = self.universe.relations(id) else { return };
        for conflict in &relations.conflicts {
            // What is about more than one name is for the verifier to see.
            if let Requirement::One(one) = conflict {
                self.against.entry(one.name.clone()).or_default().push((id, one.clone()));
            }
        }
        for one in &relations.obsoletes {
            self.obsolete.entry(one.name.clone()).or_default().push((id, one.clone()));
        }
    }

    fn leave(&mut self, id: PackageId) {
        self.is_in[id.index()] = false;
        let slot = self.universe.slot(id);
        if self.slots.get(&slot) == Some(&id) {
            self.slots.remove(&slot);
        }
        let Some(relations) = self.universe.relations(id) else { return };
        let conflicts = relations.conflicts.iter().filter_map(|conflict| match conflict {
            Requirement::One(one) => Some(one),
            _ => None,
        });
        forget(&mut self.against, conflicts, id);
        forget(&mut self.obsolete, relations.obsoletes.iter(), id);
    }

    /// Whether it holds of the members.
    pub(super) fn holds(&self, wanted: &Requirement) -> bool {
        self.holds_without(wanted, None)
    }

    /// Whether it holds of the other members.
    pub(super) fn holds_but_for(&self, wanted: &Requirement, one: PackageId) -> bool {
        self.holds_without(wanted, Some(one))
    }

    fn holds_without(&self, wanted: &Requirement, except: Option<PackageId>) -> bool {
        use Requirement::{All, Any, If, One, Unless, With, Without};
        let inner = |one: &Requirement| self.holds_without(one, except);
        let counts = |id: &PackageId| self.contains(*id) && Some(*id) != except;
        match wanted {
            One(one) => self.universe.satisfying(one).iter().any(counts),
            All(all) => all.iter().all(inner),
            Any(all) => all.iter().any(inner),
            If { condition, then, otherwise } => {
                if inner(condition) {
                    inner(then)
                } else {
                    otherwise.as_ref().is_none_or(|one| inner(one))
                }
            }
            Unless { condition, then, otherwise } => {
                if inner(condition) {
                    otherwise.as_ref().is_some_and(|one| inner(one))
                } else {
                    inner(then)
                }
            }
            With(_) | Without(..) => self.universe.single(wanted).is_some_and(|all| all.iter().any(counts)),
        }
    }

    /// The first member that this package could not be with: it has its slot (and is no older installed version of it), one of
    /// them cannot stand the other, or makes it obsolete. Itself where that is about more than one name, and where all comparisons are
    /// used up: nothing more is added then.
    pub(super) fn stands_against(&self, id: PackageId) -> Option<PackageId> {
        let universe = self.universe;
        let old = self.slots.get(&universe.slot(id)).copied();
        if let Some(old) = old
            && old != id
            && !(universe.is_installed(old) && universe.may_be_chosen(id) && !universe.is_installed(id))
        {
            return Some(old);
        }
        let counts = |other: &PackageId| *other != id && Some(*other) != old && self.contains(*other);
        let relations = universe.relations(id)?;
        for conflict in &relations.conflicts {
            if universe.is_spent() {
                return Some(id);
            }
            let found = match conflict {
                Requirement::One(one) => universe.satisfying(one).into_iter().find(counts),
                other if self.holds_without(other, Some(id)) => Some(id),
                _ => None,
            };
            if found.is_some() {
                return found;
            }
        }
        let package = universe.package(id);
        for obsolete in &relations.obsoletes {
            universe.spend(1);
            if universe.is_spent() {
                return Some(id);
            }
            let mut all = universe.pool.named(&obsolete.name).chain(universe.installed_as(&obsolete.name));
            // What is installed and made obsolete would have to be removed, and nothing is.
            let gone = all.find(|other| {
                universe.spend(1);
                counts(other) && universe.is_named(*other, obsolete)
            });
            if gone.is_some() {
                return gone;
            }
        }
        // Less than comparisons: a kernel provides thousands of symbols.
        universe.spend((package.provides.len() + package.files.len()) / 16);
        let names =
            std::iter::once(&package.name).chain(package.provides.iter().map(|one| &one.name)).chain(&package.files);
        for name in names {
            if universe.is_spent() {
                return Some(id);
            }
            let of_members = self.against.get(name).into_iter().flatten();
            let mut hit = of_members.filter(|(by, wanted)| {
                universe.spend(1);
                counts(by) && universe.satisfies(id, wanted)
            });
            if let Some((by, _)) = hit.next() {
                return Some(*by);
            }
        }
        let of_members = self.obsolete.get(&package.name).into_iter().flatten();
        let mut gone = of_members.filter(|(by, wanted)| {
            universe.spend(1);
            counts(by) && universe.is_named(id, wanted)
        });
        gone.next().map(|(by, _)| *by)
    }

    /// What a member needs and does not have, as places in its list.
    pub(super) fn lacks(&self, id: PackageId) -> Vec<usize> {
        let Some(relations) = self.universe.relations(id) else { return Vec::new() };
        (0..relations.requires.len()).filter(|at| !self.holds(&relations.requires[*at])).collect()
    }
}

/// Takes out what a package says of these, of each name once: it may say it a hundred thousand times, as others may.
fn forget<'c>(
    said: &mut HashMap<Box<str>, Vec<(PackageId, Constraint)>>,
    of: impl Iterator<Item = &'c Constraint>,
    id: PackageId,
) {
    let names: HashSet<&str> = of.map(|one| &*one.name).collect();
    for name in names {
        if let Some(all) = said.get_mut(name) {
            all.retain(|(by, _)| *by != id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use kubexm_spec::Family;

    use super::super::{Baseline, Pool};
    use super::*;
    use crate::rpm::installed;

    #[test]
    fn a_package_that_says_often_what_others_say_too_leaves_at_once() {
        let says = |name: &str| {
            let lines = |kind: &str| format!("{kind}\tx\t0\t\n").repeat(100_000);
            format!("N\t{name}\t0\t1\t1\tnoarch\n{}{}", lines("C"), lines("O"))
        };
        let packages = installed::read(&(says("a") + &says("b"))).unwrap();
        let pool = Pool::new(Family::Rpm, "x86_64", Vec::new(), Vec::new());
        let baseline = Baseline { packages, ..Baseline::default() };
        let universe = Universe::new(&pool, &baseline);
        let mut selection = Selection::new(&universe);
        let begun = Instant::now();
        selection.leave(PackageId(1));
        // 20,000 million steps.
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
        assert!(!selection.contains(PackageId(1)) && selection.against["x"].len() == 100_000);
    }
}
