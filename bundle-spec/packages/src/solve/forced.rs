//! libsolv's way to a closure: first all that is forced, then one choice, then again what is forced by it.
//!
//! A choice among several packages is left for as long as anything else can be done, since it may have been made by then. Of
//! those that satisfy something, the repositories with the highest priority count, of each name the best version, none that
//! another one of them makes obsolete, none that cannot be with what is there (policy_filter_unwanted); then by name.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::PackageId;
use super::asked::Asked;
use super::depth::GaveUp;
use super::selection::Selection;
use super::universe::Universe;
use crate::model::{Relations, Requirement};

/// Adds what was asked for, and all that it needs.
pub(super) fn close<'u>(
    universe: &'u Universe<'u>,
    selection: &mut Selection<'u>,
    asked: &[Asked<'_>],
) -> Result<(), GaveUp> {
    let mut walk =
        Walk { universe, selection, open: Vec::new(), roots: asked.iter().map(|root| root.ways.clone()).collect() };
    loop {
        if walk.forced()? {
            continue;
        }
        if !walk.choose()? {
            break;
        }
    }
    Ok(())
}

struct Walk<'w, 'u> {
    universe: &'w Universe<'u>,
    selection: &'w mut Selection<'u>,
    /// Members whose needs are not all known to be met.
    open: Vec<(PackageId, Rc<Relations>)>,
    roots: Vec<Vec<PackageId>>,
}

impl<'w, 'u> Walk<'w, 'u>
where
    'u: 'w,
{
    /// Does all that leaves no choice; whether anything was done.
    fn forced(&mut self) -> Result<bool, GaveUp> {
        let mut done = false;
        for at in 0..self.roots.len() {
            if let Some(options) = self.root(at)
                && let [only] = self.best(options.clone())[..]
            {
                self.add(only)?;
                done = true;
            }
        }
        let mut at = 0;
        while at < self.open.len() {
            let relations = Rc::clone(&self.open[at].1);
            for need in &relations.requires {
                match self.options(need)? {
                    None => {}
                    Some(options) => match self.best(options)[..] {
                        [] => return Err(GaveUp),
                        [only] => {
                            self.add(only)?;
                            done = true;
                        }
                        _ => {}
                    },
                }
            }
            at += 1;
        }
        Ok(done)
    }

    /// Makes one choice; false where there is none left.
    fn choose(&mut self) -> Result<bool, GaveUp> {
        for at in 0..self.roots.len() {
            if let Some(options) = self.root(at) {
                let first = *self.best(options.clone()).first().ok_or(GaveUp)?;
                self.add(first)?;
                return Ok(true);
            }
        }
        // libsolv sorts its rules by the package they are of, the last one of the last repository first.
        let mut order: Vec<usize> = (0..self.open.len()).collect();
        order.sort_by_key(|at| {
            let package = self.universe.package(self.open[*at].0);
            std::cmp::Reverse((package.repo, &package.name, self.open[*at].0))
        });
        for at in order {
            let relations = Rc::clone(&self.open[at].1);
            for need in &relations.requires {
                if let Some(options) = self.options(need)? {
                    let first = *self.best(options).first().ok_or(GaveUp)?;
                    self.add(first)?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// What would satisfy a root; none where it is satisfied.
    fn root(&self, at: usize) -> Option<&Vec<PackageId>> {
        let options = &self.roots[at];
        (!options.iter().any(|id| self.selection.contains(*id))).then_some(options)
    }

    fn add(&mut self, id: PackageId) -> Result<(), GaveUp> {
        if self.selection.stands_against(id).is_some() {
            return Err(GaveUp);
        }
        let relations = self.universe.relations(id).ok_or(GaveUp)?;
        self.selection.add(id);
        self.open.push((id, relations));
        Ok(())
    }

    /// What would satisfy something; none where it is satisfied. What needs several packages to act together is left to the
    /// solver.
    fn options(&self, need: &Requirement) -> Result<Option<Vec<PackageId>>, GaveUp> {
        if self.universe.is_spent() {
            return Err(GaveUp);
        }
        if self.selection.holds(need) {
            return Ok(None);
        }
        match need {
            Requirement::All(all) => {
                for one in all {
                    if let Some(options) = self.options(one)? {
                        return Ok(Some(options));
                    }
                }
                Ok(None)
            }
            Requirement::If { condition, then, otherwise } => {
                let wanted = if self.selection.holds(condition) { Some(then) } else { otherwise.as_ref() };
                wanted.map_or(Ok(None), |one| self.options(one))
            }
            // What must not come later is for the verifier to see.
            Requirement::Unless { condition, then, otherwise } => {
                let wanted = if self.selection.holds(condition) { otherwise.as_ref() } else { Some(then) };
                wanted.map_or(Err(GaveUp), |one| self.options(one))
            }
            single => self.universe.single(single).map(Some).ok_or(GaveUp),
        }
    }

    fn best(&self, mut options: Vec<PackageId>) -> Vec<PackageId> {
        let universe = self.universe;
        options.retain(|id| !universe.is_installed(*id) && universe.may_be_chosen(*id));
        let priority = |id: PackageId| universe.pool.repo(universe.package(id)).map(|repo| repo.priority);
        let highest = options.iter().map(|id| priority(*id)).max().flatten();
        options.retain(|id| priority(*id) == highest);
        // Ids rise by name, and within a name from the best version to the worst.
        options.sort_unstable();
        options.dedup_by_key(|id| &universe.package(*id).name);
        let gone = self.made_obsolete(&options);
        options.retain(|id| !gone.contains(id));
        options.retain(|id| self.selection.stands_against(*id).is_none());
        options
    }

    /// Those of them that another one makes obsolete. Each has its own name. Few packages make others obsolete: only those are looked
    /// at, since a name may be provided by thousands.
    fn made_obsolete(&self, options: &[PackageId]) -> HashSet<PackageId> {
        let universe = self.universe;
        let obsoleting = universe.pool.obsoleting();
        let mut gone = HashSet::new();
        let mut by_its_name: HashMap<&str, PackageId> = HashMap::new();
        for one in options.iter().filter(|id| obsoleting.binary_search(id).is_ok()) {
            let Some(relations) = universe.relations(*one) else { continue };
            if by_its_name.is_empty() {
                by_its_name.extend(options.iter().map(|id| (&*universe.package(*id).name, *id)));
            }
            universe.spend(relations.obsoletes.len());
            for wanted in &relations.obsoletes {
                let other = by_its_name.get(&*wanted.name).copied().filter(|other| other != one);
                gone.extend(other.filter(|other| universe.is_named(*other, wanted)));
            }
        }
        gone
    }
}
