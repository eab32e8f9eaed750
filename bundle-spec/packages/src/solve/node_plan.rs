//! What a node would have to do for some roots, before anything of it changes.

use std::collections::{BTreeMap, BTreeSet};

use super::limits::Limits;
use super::selection::Selection;
use super::universe::Universe;
use super::{Baseline, Chosen, PackageId, Pool, Root, Unsolvable, solve};
use crate::model::Requirement;

/// So many answers for one node may take as long as an answer may: what it says that it has could make each of them so.
const HARD: usize = 3;

/// So many sentences say what would be left lacking something: a node may say anything of itself, and they are one in the end.
const LACKING: usize = 100;

/// What a node would have to do. Nothing is ever removed or made older.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlan {
    /// How each root is, in the order in which they were given.
    pub roots: Vec<(Root, PackageState)>,
    /// Packages that come, by name.
    pub install: Vec<Chosen>,
    /// Packages that take the place of an older version, by name. There is no rollback from an upgrade: the old package is not at
    /// hand.
    pub upgrade: Vec<Chosen>,
    /// Paths that something needs and no package is known to have.
    pub needs_files: Vec<Box<str>>,
}

/// How a root is on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackageState {
    /// It is there.
    Satisfied {
        /// `socat 1.7.4.4-2`, or the program that does it: `/usr/sbin/conntrack`.
        by: Box<str>,
    },
    /// Packages come; nothing that is there changes.
    Install,
    /// Something that is there is upgraded for it.
    Upgrade,
    /// It cannot be installed beside what the node has, or beside the roots before it.
    Conflict(Unsolvable),
}

impl NodePlan {
    /// Whether every root is there or can come.
    pub fn is_possible(&self) -> bool {
        !self.roots.iter().any(|(_, standing)| matches!(standing, PackageState::Conflict(_)))
    }
}

/// How the roots stand on a node, and what would have to be done for them. `present` says of roots by name that what they are
/// wanted for is done by a program that is there already.
pub fn node_plan(pool: &Pool, roots: &[Root], baseline: &Baseline, present: &BTreeMap<Box<str>, Box<str>>) -> NodePlan {
    let mut standings: Vec<Option<PackageState>> =
        roots.iter().map(|root| satisfied(pool, baseline, root, present)).collect();
    let open: Vec<usize> = (0..roots.len()).filter(|at| standings[*at].is_none()).collect();
    let mut patience = Patience::default();
    let mut together = |places: &[usize]| {
        let wanted: Vec<Root> = places.iter().map(|at| roots[*at].clone()).collect();
        patience.ask(|| solve(pool, &wanted, baseline))
    };
    let mut possible = open.clone();
    let mut closure = together(&open);
    if closure.is_err() {
        // Which of them it is: each one beside those before it that can come.
        possible.clear();
        for at in open {
            possible.push(at);
            if let Err(unsolvable) = together(&possible) {
                possible.pop();
                standings[at] = Some(PackageState::Conflict(unsolvable));
            }
        }
        closure = together(&possible);
    }
    for at in possible {
        let alone = together(&[at]);
        let upgrades = alone.is_ok_and(|alone| alone.packages.iter().any(|one| one.replaces.is_some()));
        standings[at] = Some(if upgrades { PackageState::Upgrade } else { PackageState::Install });
    }
    let (packages, needs_files) = closure.map_or_else(
        |unsolvable| (Vec::new(), unsolvable.needs_files),
        |closure| (closure.packages, closure.needs_files),
    );
    let (upgrade, install) = packages.into_iter().partition(|one| one.replaces.is_some());
    let standings = standings.into_iter().map(|standing| standing.unwrap_or(PackageState::Install));
    NodePlan { roots: roots.iter().cloned().zip(standings).collect(), install, upgrade, needs_files }
}

/// What a node would have to do so that it has all of these packages in these versions, none of which it has. Those that cannot come are left
/// out, with the reason; they are found by halving, since most of the time there is none.
pub fn node_upgrade(pool: &Pool, roots: &[Root], baseline: &Baseline) -> (Vec<Chosen>, Vec<(Root, Unsolvable)>) {
    let (mut patience, mut possible, mut left) = (Patience::default(), Vec::new(), Vec::new());
    let mut open = vec![roots];
    while let Some(part) = open.pop() {
        let wanted: Vec<Root> = possible.iter().chain(part).cloned().collect();
        match patience.ask(|| solve(pool, &wanted, baseline)) {
            Ok(_) => possible = wanted,
            Err(why) => match part {
                [one] => left.push((one.clone(), why)),
                many => {
                    let (first, second) = many.split_at(many.len() / 2);
                    open.extend([second, first].into_iter().filter(|half| !half.is_empty()));
                }
            },
        }
    }
    let chosen = solve(pool, &possible, baseline).map_or_else(|_| Vec::new(), |closure| closure.packages);
    (chosen, left)
}

/// Answers for one node that have taken as long as one may.
#[derive(Default)]
struct Patience(Vec<Unsolvable>);

impl Patience {
    /// After too many of them the last one is every other's answer.
    fn ask<T>(&mut self, ask: impl FnOnce() -> Result<T, Unsolvable>) -> Result<T, Unsolvable> {
        if let Some(last) = self.0.get(HARD - 1) {
            return Err(last.clone());
        }
        let answer = ask();
        self.0.extend(answer.as_ref().err().filter(|why| why.is_too_hard()).cloned());
        answer
    }
}

fn satisfied(
    pool: &Pool,
    baseline: &Baseline,
    root: &Root,
    present: &BTreeMap<Box<str>, Box<str>>,
) -> Option<PackageState> {
    if let Some(by) = present.get(&root.name) {
        return Some(PackageState::Satisfied { by: by.clone() });
    }
    let universe = Universe::new(pool, baseline);
    let Requirement::One(wanted) = Universe::wanted_by(root) else { return None };
    let there = Selection::new(&universe);
    let by = universe.satisfying(&wanted).into_iter().find(|id| there.contains(*id))?;
    Some(PackageState::Satisfied { by: universe.shown(by) })
}

/// What some installed packages need and do not find any more once others have left for those that come, in sentences: nothing is
/// ever left behind broken. `rest` is the baseline without what leaves. Where it takes too long to say, that is what is said.
pub fn left_lacking(pool: &Pool, baseline: &Baseline, rest: &Baseline, coming: &NodePlan) -> Vec<String> {
    left_lacking_within(Limits::default(), pool, (baseline, rest), coming)
}

fn left_lacking_within(
    limits: Limits,
    pool: &Pool,
    (baseline, rest): (&Baseline, &Baseline),
    coming: &NodePlan,
) -> Vec<String> {
    let lacks = |baseline: &Baseline, coming: &[PackageId]| {
        let universe = Universe::within(limits, pool, baseline);
        let mut there = Selection::new(&universe);
        coming.iter().for_each(|id| there.add(*id));
        let mut found = BTreeSet::new();
        for id in universe.installed().filter(|id| there.contains(*id)) {
            let Some(relations) = universe.relations(id) else { continue };
            let needs = there.lacks(id).into_iter().map(|at| universe.words(&relations.requires[at]));
            found.extend(needs.map(|words| format!("{} needs {words}", universe.shown(id))));
            if universe.is_spent() {
                return Err(universe.too_many_comparisons().into_string());
            }
        }
        Ok(found)
    };
    let coming: Vec<PackageId> = coming.install.iter().chain(&coming.upgrade).map(|one| one.package).collect();
    let both = lacks(baseline, &[]).and_then(|before| Ok((before, lacks(rest, &coming)?)));
    match both {
        Ok((before, after)) => listed(after.into_iter().filter(|reported| !before.contains(reported))),
        Err(why) => vec![why],
    }
}

/// The first of them, and how many more there are.
fn listed(mut all: impl Iterator<Item = String>) -> Vec<String> {
    let mut first: Vec<String> = all.by_ref().take(LACKING).collect();
    match all.count() {
        0 => {}
        more => first.push(format!("{more} more need something")),
    }
    first
}

#[cfg(test)]
mod tests {
    use kubexm_spec::Family;

    use super::super::{Reason, Repo};
    use super::*;
    use crate::rpm::installed;

    #[test]
    fn what_a_node_has_a_thousand_times_does_not_keep_a_plan_computing() {
        let one = |at: usize, count: usize| {
            let lines = |kind: &str| format!("{kind}\tx\t0\t\n").repeat(count);
            format!("N\tp{at}\t0\t1\t1\tx86_64\n{}{}", lines("P"), lines("R"))
        };
        let list: String = (0..10).map(|at| one(at, 1_000)).collect();
        let baseline = Baseline { packages: installed::read(&list).unwrap(), ..Baseline::default() };
        let repo = Repo { id: "baseos".to_owned(), base: String::new(), priority: 0 };
        let pool = Pool::new(Family::Rpm, "x86_64", vec![repo], Vec::new());
        let plan = node_plan(&pool, &[], &baseline, &BTreeMap::new());
        let few = Limits { comparisons: 1_000_000, ..Limits::default() };
        let told = left_lacking_within(few, &pool, (&baseline, &baseline), &plan);
        assert!(told.len() == 1 && told[0].contains("compared 1000000 times"), "{told:?}");
        let small = Baseline { packages: installed::read(&one(0, 10)).unwrap(), ..Baseline::default() };
        assert!(left_lacking_within(few, &pool, (&small, &small), &plan).is_empty());
    }

    #[test]
    fn a_node_for_which_no_answer_is_found_is_not_asked_about_again_and_again() {
        let (mut patience, mut asked) = (Patience::default(), 0);
        let mut ask = |reason: Option<Reason>| {
            patience.ask(|| {
                asked += 1;
                let reasons = Vec::from_iter(reason);
                if reasons.is_empty() { Ok(()) } else { Err(Unsolvable { reasons, needs_files: Vec::new() }) }
            })
        };
        let no = Reason::Installed { package: "a 1".into() };
        (0..10).for_each(|_| assert!(ask(Some(no.clone())).is_err() && ask(None).is_ok()));
        let hard = Reason::TooHard { why: "x".into() };
        (0..10).for_each(|_| assert_eq!(ask(Some(hard.clone())).unwrap_err().reasons, std::slice::from_ref(&hard)));
        assert!(ask(None).is_err());
        assert_eq!(asked, 20 + HARD);
    }

    #[test]
    fn what_would_be_left_lacking_is_told_in_a_hundred_sentences() {
        let needs: String = (0..150).map(|at| format!("N\tp{at}\t0\t1\t1\tnoarch\nR\told\t0\t\n")).collect();
        let with = |list: &str| Baseline { packages: installed::read(list).unwrap(), ..Baseline::default() };
        let (before, rest) = (with(&format!("N\told\t0\t1\t1\tnoarch\n{needs}")), with(&needs));
        let pool = Pool::new(Family::Rpm, "x86_64", Vec::new(), Vec::new());
        let plan = node_plan(&pool, &[], &before, &BTreeMap::new());
        let told = left_lacking(&pool, &before, &rest, &plan);
        assert_eq!((told.len(), told[0].as_str()), (101, "p0 1-1 needs old"));
        assert_eq!(told[100], "50 more need something");
    }
}
