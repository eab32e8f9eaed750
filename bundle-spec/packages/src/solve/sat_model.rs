//! What resolvo's SAT solver asks: the same model for a solver that looks at every version and every way.
//!
//! A package is a solvable, its name a name of which one version may be there. What it needs is a union of sets of versions; what it
//! cannot stand constrains names to the other versions. A clause that only holds under conditions becomes a name of its own, with
//! one solvable for each way to make it true: that a condition does not come to pass, or that what must hold then does.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt::Display;
use std::rc::Rc;

use resolvo::{
    Candidates, Condition, ConditionId, Dependencies, DependencyProvider, HintDependenciesAvailable, Interner,
    KnownDependencies, NameId, Requirement as Wanted, SolvableId, SolverCache, StringId, VersionSetId,
    VersionSetUnionId,
};

use super::PackageId;
use super::formula::{self, Clause};
use super::kept::{About, ByName, Interned, Text, TextId};
use super::selection::Selection;
use super::universe::Universe;
use crate::model::Requirement;

/// Of which one version may be there.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name<'u> {
    Package(&'u str),
    /// An installed package that may stand beside others of its name.
    Beside(PackageId),
    /// A clause under conditions.
    Clause(u32),
}

#[derive(PartialEq, Eq, Hash)]
struct Set {
    name: NameId,
    /// Sorted.
    versions: Vec<SolvableId>,
    text: TextId,
}

#[derive(PartialEq, Eq, Hash)]
struct Union {
    sets: Vec<VersionSetId>,
    text: TextId,
}

/// A way to make a clause true.
struct Way {
    of: PackageId,
    dependencies: KnownDependencies,
}

/// What resolvo asks.
pub(super) struct Model<'u> {
    pub(super) universe: &'u Universe<'u>,
    /// What is wrong with what is installed is left alone.
    before: Selection<'u>,
    names: RefCell<Interned<Name<'u>>>,
    texts: RefCell<Interned<Text>>,
    sets: RefCell<Interned<Set>>,
    unions: RefCell<Interned<Union>>,
    ways: RefCell<Vec<Way>>,
    /// Of each clause the first of its ways and the one after its last.
    clauses: RefCell<Vec<(usize, usize)>>,
    /// Of its limit.
    left: Cell<u32>,
    /// Sets and versions of its limit.
    sets_left: Cell<u64>,
}

/// How many comparisons a decision counts as, and so many of what the model has as one more: resolvo goes through what a decision touches.
const DECISION: usize = 1_000;
const TOUCHED: u64 = 16;

impl<'u> Model<'u> {
    pub(super) fn new(universe: &'u Universe<'u>) -> Self {
        Self {
            universe,
            before: Selection::new(universe),
            names: RefCell::default(),
            texts: RefCell::default(),
            sets: RefCell::default(),
            unions: RefCell::default(),
            ways: RefCell::default(),
            clauses: RefCell::default(),
            left: Cell::new(universe.limits.decisions),
            sets_left: Cell::new(universe.limits.sets),
        }
    }

    /// Whether it keeps no more: what resolvo makes of it is no answer.
    pub(super) fn is_full(&self) -> bool {
        self.sets_left.get() == 0
    }

    /// Whether the search ends before it asks again.
    fn is_stopped(&self) -> bool {
        self.is_full() || self.universe.is_spent()
    }

    fn keep(&self, sets: usize) {
        self.sets_left.set(self.sets_left.get().saturating_sub(sets as u64));
    }

    pub(super) fn text_id(&self, text: Text) -> TextId {
        TextId(self.texts.borrow_mut().id(text).0)
    }

    fn text_of(&self, id: TextId) -> Rc<Text> {
        Rc::clone(&self.texts.borrow().values[id.0 as usize])
    }

    /// The package of a solvable; none of a way to make a clause true.
    pub(super) fn package(&self, id: SolvableId) -> Option<PackageId> {
        let id = PackageId(id.into_raw());
        (id.index() < self.universe.len()).then_some(id)
    }

    /// The package that a solvable is, or whose clause it belongs to.
    pub(super) fn owner(&self, id: SolvableId) -> PackageId {
        self.package(id).unwrap_or_else(|| self.ways.borrow()[id.into_raw() as usize - self.universe.len()].of)
    }

    pub(super) fn set_text(&self, id: VersionSetId) -> Rc<Text> {
        self.text_of(self.sets.borrow().values[id.0 as usize].text)
    }

    pub(super) fn text(&self, wanted: Wanted) -> Rc<Text> {
        match wanted {
            Wanted::Single(set) => self.set_text(set),
            Wanted::Union(union) => self.text_of(self.unions.borrow().values[union.0 as usize].text),
        }
    }

    fn name(&self, name: Name<'u>) -> NameId {
        NameId::from_raw(self.names.borrow_mut().id(name).0)
    }

    pub(super) fn name_of(&self, id: PackageId) -> NameId {
        let universe = self.universe;
        let name = &*universe.package(id).name;
        if universe.is_installed(id) && universe.installed_as(name) != Some(id) {
            return self.name(Name::Beside(id));
        }
        self.name(Name::Package(name))
    }

    pub(super) fn versions(&self, name: NameId) -> Vec<SolvableId> {
        let name = *self.names.borrow().values[name.into_raw() as usize];
        match name {
            Name::Package(name) => {
                self.universe.versions(name).into_iter().map(|id| SolvableId::from_raw(id.0)).collect()
            }
            Name::Beside(id) => vec![SolvableId::from_raw(id.0)],
            Name::Clause(at) => {
                let (start, end) = self.clauses.borrow()[at as usize];
                (start..end).map(|at| self.way(at)).collect()
            }
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "fewer than packages times relations that were looked at")]
    fn way(&self, at: usize) -> SolvableId {
        SolvableId::from_raw((self.universe.len() + at) as u32)
    }

    pub(super) fn set(&self, name: NameId, mut versions: Vec<SolvableId>, text: TextId) -> VersionSetId {
        self.keep(1);
        // Nobody asks for more: any of those that are there will do until the search is stopped.
        if self.is_full() && !self.sets.borrow().values.is_empty() {
            return VersionSetId(0);
        }
        versions.sort_unstable();
        let count = versions.len();
        let (id, is_new) = self.sets.borrow_mut().id(Set { name, versions, text });
        self.keep(if is_new { count } else { 0 });
        VersionSetId(id)
    }

    /// Some version of some name of these, in their order.
    pub(super) fn one_of(&self, packages: &[PackageId], text: TextId) -> Wanted {
        let mut by_name = ByName::default();
        for id in packages.iter().copied().filter(|id| self.universe.may_be_chosen(*id)) {
            by_name.push(self.name_of(id), SolvableId::from_raw(id.0));
        }
        let by_name = by_name.versions;
        let mut sets: Vec<VersionSetId> =
            by_name.into_iter().map(|(name, versions)| self.set(name, versions, text)).collect();
        match (sets.len(), sets.pop()) {
            (1, Some(only)) => Wanted::Single(only),
            (_, Some(last)) => {
                sets.push(last);
                let union = Union { sets, text };
                Wanted::Union(VersionSetUnionId(self.unions.borrow_mut().id(union).0))
            }
            // A name that nothing has.
            (_, None) => Wanted::Single(self.set(self.name(Name::Package("")), Vec::new(), text)),
        }
    }

    /// None of these beside `owner`.
    fn none_of(&self, owner: PackageId, packages: &[PackageId], text: TextId) -> Vec<VersionSetId> {
        let (mut by_name, own) = (ByName::default(), self.name_of(owner));
        // Versions of one name exclude each other anyway.
        for (id, name) in packages.iter().map(|id| (*id, self.name_of(*id))).filter(|(_, name)| *name != own) {
            by_name.push(name, SolvableId::from_raw(id.0));
        }
        let by_name = by_name.versions;
        let allowed = |(name, not): (NameId, Vec<SolvableId>)| {
            let not: HashSet<SolvableId> = not.into_iter().collect();
            let mut versions = self.versions(name);
            versions.retain(|id| !not.contains(id));
            self.set(name, versions, text)
        };
        by_name.into_iter().take_while(|_| !self.is_full()).map(allowed).collect()
    }

    fn dependencies(&self, id: PackageId) -> KnownDependencies {
        let universe = self.universe;
        let mut known = KnownDependencies::default();
        let Some(relations) = universe.relations(id) else { return known };
        let installed = universe.is_installed(id);
        let lacked = if installed { self.before.lacks(id) } else { Vec::new() };
        for (at, need) in relations.requires.iter().enumerate().take_while(|_| !self.is_stopped()) {
            // The places rise. A node may say that it lacks a million things.
            if lacked.binary_search(&at).is_ok() {
                continue;
            }
            let text = Text::of(universe.words(need), about(need));
            match formula::holds(universe, need) {
                Ok(clauses) => self.clauses(id, &clauses, text, &mut known),
                Err(why) => known.requirements.push(self.one_of(&[], self.text_id(text.unfit(why))).into()),
            }
        }
        for conflict in relations.conflicts.iter().take_while(|_| !self.is_stopped()) {
            // What is beside it already may stay, and nothing else of that kind may come.
            let beside = installed && self.before.holds_but_for(conflict, id);
            if beside && !matches!(conflict, Requirement::One(_)) {
                continue;
            }
            let words = format!("conflicts with {}", universe.words(conflict)).into();
            let text = Text::of(words, about(conflict));
            match formula::holds_not(universe, conflict, id) {
                Ok(mut clauses) => {
                    if beside {
                        let sets = clauses.iter_mut().flat_map(|clause| &mut clause.when);
                        sets.for_each(|set| set.retain(|other| !self.before.contains(*other)));
                    }
                    self.clauses(id, &clauses, text, &mut known);
                }
                Err(why) => known.requirements.push(self.one_of(&[], self.text_id(text.unfit(why))).into()),
            }
        }
        for obsolete in relations.obsoletes.iter().take_while(|_| !self.is_stopped()) {
            let all = universe.pool.named(&obsolete.name).chain(universe.installed_as(&obsolete.name));
            let fits = |other: &PackageId| {
                universe.spend(1);
                universe.is_named(*other, obsolete)
            };
            let all: Vec<PackageId> =
                all.filter(fits).filter(|other| !(installed && self.before.contains(*other))).collect();
            let words = format!("obsoletes {}", super::words::constraint(universe.family(), obsolete)).into();
            let text = Text::of(words, About::Name(obsolete.name.clone()));
            known.constrains.extend(self.none_of(id, &all, self.text_id(text)));
        }
        known
    }

    fn clauses(&self, owner: PackageId, clauses: &[Clause], text: Text, known: &mut KnownDependencies) {
        let text = self.text_id(text);
        for clause in clauses.iter().take_while(|_| !self.is_full()) {
            self.clause(owner, clause, text, known);
        }
    }

    fn clause(&self, owner: PackageId, clause: &Clause, text: TextId, known: &mut KnownDependencies) {
        // A condition that the owner brings about itself is no condition.
        let when: Vec<&[PackageId]> =
            clause.when.iter().map(Vec::as_slice).filter(|set| !set.contains(&owner)).collect();
        match (when.as_slice(), clause.then.is_empty()) {
            ([], _) => known.requirements.push(self.one_of(&clause.then, text).into()),
            ([one], true) => known.constrains.extend(self.none_of(owner, one, text)),
            (all, no_then) => {
                let absent = all.iter().map(|set| KnownDependencies {
                    requirements: Vec::new(),
                    constrains: self.none_of(owner, set, text),
                });
                let mut ways: Vec<KnownDependencies> = absent.collect();
                if !no_then {
                    let requirements = vec![self.one_of(&clause.then, text).into()];
                    ways.push(KnownDependencies { requirements, constrains: Vec::new() });
                }
                known.requirements.push(Wanted::Single(self.choice(owner, ways, text)).into());
            }
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "fewer than packages times relations that were looked at")]
    fn choice(&self, owner: PackageId, ways: Vec<KnownDependencies>, text: TextId) -> VersionSetId {
        let start = self.ways.borrow().len();
        self.ways.borrow_mut().extend(ways.into_iter().map(|dependencies| Way { of: owner, dependencies }));
        let end = self.ways.borrow().len();
        self.clauses.borrow_mut().push((start, end));
        let name = self.name(Name::Clause((self.clauses.borrow().len() - 1) as u32));
        self.set(name, (start..end).map(|at| self.way(at)).collect(), text)
    }
}

fn about(wanted: &Requirement) -> About {
    match wanted {
        Requirement::One(one) => About::One(Rc::new(one.clone())),
        _ => About::Several,
    }
}

impl Interner for Model<'_> {
    type NameId = NameId;
    type SolvableId = SolvableId;

    fn display_solvable(&self, solvable: SolvableId) -> impl Display + '_ {
        self.universe.shown(self.owner(solvable))
    }

    fn display_name(&self, name: NameId) -> impl Display + '_ {
        match *self.names.borrow().values[name.into_raw() as usize] {
            Name::Package(name) => name.to_owned(),
            Name::Beside(id) => self.universe.shown(id).into(),
            Name::Clause(at) => format!("clause {at}"),
        }
    }

    fn display_version_set(&self, version_set: VersionSetId) -> impl Display + '_ {
        self.set_text(version_set).words.to_string()
    }

    fn display_string(&self, _: StringId) -> impl Display + '_ {
        ""
    }

    fn version_set_name(&self, version_set: VersionSetId) -> NameId {
        self.sets.borrow().values[version_set.0 as usize].name
    }

    fn solvable_name(&self, solvable: SolvableId) -> NameId {
        if let Some(id) = self.package(solvable) {
            return self.name_of(id);
        }
        let at = solvable.into_raw() as usize - self.universe.len();
        let clause = self.clauses.borrow().partition_point(|(_, end)| *end <= at);
        self.name(Name::Clause(u32::try_from(clause).unwrap_or(u32::MAX)))
    }

    fn version_sets_in_union(&self, union: VersionSetUnionId) -> impl Iterator<Item = VersionSetId> {
        self.unions.borrow().values[union.0 as usize].sets.clone().into_iter()
    }

    fn resolve_condition(&self, _: ConditionId) -> Condition {
        // None is ever given: what holds under conditions is a clause of its own.
        Condition::Requirement(VersionSetId(0))
    }
}

impl DependencyProvider for Model<'_> {
    fn should_cancel_with_value(&self) -> Option<Box<dyn Any>> {
        let left = self.left.get().saturating_sub(1);
        self.left.set(left);
        let sets = self.universe.limits.sets - self.sets_left.get();
        self.universe.spend(DECISION + usize::try_from(sets / TOUCHED).unwrap_or(usize::MAX));
        let stop: Box<dyn Any> = Box::new(());
        (left == 0 || self.universe.is_spent() || self.is_full()).then_some(stop)
    }

    async fn filter_candidates(
        &self,
        candidates: &[SolvableId],
        version_set: VersionSetId,
        inverse: bool,
    ) -> Vec<SolvableId> {
        let sets = self.sets.borrow();
        let versions = &sets.values[version_set.0 as usize].versions;
        candidates.iter().copied().filter(|id| versions.binary_search(id).is_ok() != inverse).collect()
    }

    async fn get_candidates(&self, name: NameId) -> Option<Candidates<SolvableId>> {
        let candidates = self.versions(name);
        let hint_dependencies_available = HintDependenciesAvailable::None;
        Some(Candidates { candidates, hint_dependencies_available, ..Candidates::default() })
    }

    async fn sort_candidates(&self, _: &SolverCache<Self>, solvables: &mut [SolvableId]) {
        // Ids of one name rise from the best version to the worst, and from a clause's first way to its last; what is installed
        // stays where it can.
        let installed = |id: SolvableId| self.package(id).is_some_and(|id| self.universe.is_installed(id));
        solvables.sort_by_key(|id| (!installed(*id), *id));
    }

    async fn get_dependencies(&self, solvable: SolvableId) -> Dependencies {
        Dependencies::Known(match self.package(solvable) {
            Some(id) => self.dependencies(id),
            None => self.ways.borrow()[solvable.into_raw() as usize - self.universe.len()].dependencies.clone(),
        })
    }
}
