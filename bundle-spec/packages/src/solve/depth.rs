//! apt's algorithm for a closure: depth first, in the order in which packages list their dependencies
//! (pkgDepCache::MarkInstall).
//!
//! All roots are there before anything else is looked at. Of a group of alternatives the first is taken that can be
//! installed with all it needs; a real package comes before those that provide its name, and those come by priority,
//! then by name. (apt takes the last of several with one priority in the order in which its cache met them; that
//! cannot be predicted.) What could not be installed once is not tried again.

use std::collections::HashSet;
use std::rc::Rc;

use super::PackageId;
use super::selection::Selection;
use super::universe::Universe;
use crate::model::{Constraint, Relations, Requirement};

/// Greed did not find it; that does not mean that there is none.
pub(super) struct GaveUp;

/// Adds what the roots' packages need. The roots' own packages, already chosen, are given in their order.
pub(super) fn close<'u>(
    universe: &'u Universe<'u>,
    selection: &mut Selection<'u>,
    roots: &[PackageId],
) -> Result<(), GaveUp> {
    let mut walk = Walk { universe, selection, hopeless: HashSet::new() };
    let mut frames = Vec::new();
    for &root in roots {
        if walk.selection.contains(root) {
            continue;
        }
        // A root that is against another one, or against what is installed.
        frames.push(walk.enter(root).ok_or(GaveUp)?);
    }
    for frame in frames {
        walk.descend(frame)?;
    }
    Ok(())
}

struct Walk<'w, 'u> {
    universe: &'w Universe<'u>,
    selection: &'w mut Selection<'u>,
    hopeless: HashSet<PackageId>,
}

/// A package whose needs are being looked at.
struct Frame {
    id: PackageId,
    relations: Rc<Relations>,
    /// Which need is next.
    at: usize,
    /// What is tried for it, the next one last; none before it was looked at.
    tries: Option<Vec<PackageId>>,
    /// The trail before the package came.
    mark: usize,
    /// Installed packages that need what this one took the place of: they have to be upgraded with it.
    behind: Vec<PackageId>,
}

impl<'w, 'u> Walk<'w, 'u>
where
    'u: 'w,
{
    /// An explicit stack: chains of needs may be as long as the pool.
    fn descend(&mut self, root: Frame) -> Result<(), GaveUp> {
        let mut stack = vec![root];
        while let Some(frame) = stack.last_mut() {
            if self.universe.is_spent() {
                return Err(GaveUp);
            }
            match self.next(frame) {
                Next::Done => {
                    stack.pop();
                    if let Some(parent) = stack.last_mut() {
                        parent.tries = None;
                    }
                }
                Next::Into(child) => stack.push(child),
                Next::Stuck => {
                    let (id, mark) = (frame.id, frame.mark);
                    stack.pop();
                    if stack.is_empty() {
                        return Err(GaveUp);
                    }
                    self.selection.back_to(mark);
                    self.hopeless.insert(id);
                }
            }
        }
        Ok(())
    }

    fn next(&mut self, frame: &mut Frame) -> Next {
        while let Some(owner) = frame.behind.last().copied() {
            if !self.selection.contains(owner) || self.selection.lacks(owner).is_empty() {
                frame.behind.pop();
                continue;
            }
            let newer = self.universe.versions(&self.universe.package(owner).name);
            let newer = newer.into_iter().find(|id| self.universe.is_candidate(*id));
            return newer.and_then(|id| self.enter(id)).map_or(Next::Stuck, Next::Into);
        }
        loop {
            let Some(need) = frame.relations.requires.get(frame.at) else { return Next::Done };
            if frame.tries.is_none() {
                if self.selection.holds(need) {
                    frame.at += 1;
                    continue;
                }
                frame.tries = Some(self.ways(need));
            }
            let tries = frame.tries.get_or_insert_default();
            while let Some(id) = tries.pop() {
                if let Some(child) = self.enter(id) {
                    return Next::Into(child);
                }
            }
            return Next::Stuck;
        }
    }

    /// Adds a package, if nothing is against it.
    fn enter(&mut self, id: PackageId) -> Option<Frame> {
        if self.hopeless.contains(&id) || self.selection.contains(id) || self.selection.stands_against(id).is_some() {
            return None;
        }
        let relations = self.universe.relations(id)?;
        let mark = self.selection.mark();
        let replaces = self.universe.installed_as(&self.universe.package(id).name).is_some();
        let before: HashSet<PackageId> = if replaces { self.short() } else { HashSet::new() };
        self.selection.add(id);
        let behind = if replaces {
            let mut behind: Vec<PackageId> =
                self.short().into_iter().filter(|owner| !before.contains(owner) && *owner != id).collect();
            behind.sort_unstable();
            behind
        } else {
            Vec::new()
        };
        Some(Frame { id, relations, at: 0, tries: None, mark, behind })
    }

    /// Installed packages that lack something.
    fn short(&self) -> HashSet<PackageId> {
        let installed = self.universe.installed().filter(|id| self.selection.contains(*id));
        installed.filter(|id| !self.selection.lacks(*id).is_empty()).collect()
    }

    /// Candidates for a group of alternatives, the first last.
    fn ways(&self, need: &Requirement) -> Vec<PackageId> {
        let mut found = Vec::new();
        let single = std::slice::from_ref(need);
        for alternative in if let Requirement::Any(all) = need { all } else { single } {
            let Requirement::One(one) = alternative else { continue };
            found.extend(preferred(self.universe, one));
        }
        // What is installed is upgraded before something else comes beside it.
        let installed = |id: &PackageId| self.universe.installed_as(&self.universe.package(*id).name).is_some();
        let (mut ways, new): (Vec<_>, Vec<_>) = found.into_iter().partition(installed);
        ways.extend(new);
        ways.reverse();
        ways
    }
}

enum Next {
    Done,
    Into(Frame),
    Stuck,
}

/// Candidates for one name, the preferred first.
fn preferred(universe: &Universe<'_>, wanted: &Constraint) -> Vec<PackageId> {
    universe.satisfying(wanted).into_iter().filter(|id| universe.is_candidate(*id)).collect()
}
