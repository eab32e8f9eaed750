//! What a node would have to do for some roots, before anything of it changes.

use std::collections::BTreeMap;

use super::closure::solve_within;
use super::limits::Limits;
use super::selection::Selection;
use super::universe::Universe;
use super::{Baseline, Chosen, Closure, Pool, Reason, Root, Unsolvable};
use crate::model::Requirement;

/// So many answers for one node may take as long as an answer may, and all of its answers together may take that long: what it says
/// that it has could make each of them so, or nearly so.
const HARD: usize = 3;

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
    let mut patience = Patience::new(Limits::default());
    let mut together = |places: &[usize]| {
        let wanted: Vec<Root> = places.iter().map(|at| roots[*at].clone()).collect();
        patience.ask(pool, &wanted, baseline)
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
    node_upgrade_within(Limits::default(), pool, roots, baseline)
}

fn node_upgrade_within(
    limits: Limits,
    pool: &Pool,
    roots: &[Root],
    baseline: &Baseline,
) -> (Vec<Chosen>, Vec<(Root, Unsolvable)>) {
    let (mut patience, mut possible, mut left) = (Patience::new(limits), Vec::new(), Vec::new());
    let (mut open, mut chosen) = (vec![roots], Vec::new());
    while let Some(part) = open.pop() {
        let wanted: Vec<Root> = possible.iter().chain(part).cloned().collect();
        match patience.ask(pool, &wanted, baseline) {
            Ok(closure) => (possible, chosen) = (wanted, closure.packages),
            Err(why) => match part {
                [one] => left.push((one.clone(), why)),
                many => {
                    let (first, second) = many.split_at(many.len() / 2);
                    open.extend([second, first].into_iter().filter(|half| !half.is_empty()));
                }
            },
        }
    }
    (chosen, left)
}

/// What the answers for one node may take.
struct Patience {
    /// Of one answer.
    limits: Limits,
    /// Comparisons that are left for all of them.
    left: u64,
    /// Answers that have taken as long as one may.
    hard: Vec<Unsolvable>,
}

impl Patience {
    fn new(limits: Limits) -> Self {
        Self { limits, left: limits.comparisons.saturating_mul(HARD as u64), hard: Vec::new() }
    }

    /// After too much of it the last reason is every other's answer.
    fn ask(&mut self, pool: &Pool, wanted: &[Root], baseline: &Baseline) -> Result<Closure, Unsolvable> {
        if let Some(last) = self.hard.get(HARD - 1) {
            return Err(last.clone());
        }
        if self.left == 0 {
            let why =
                "all that may be compared for one node has been; what it says that it has installed is odd".into();
            return Err(Unsolvable { reasons: vec![Reason::TooHard { why }], needs_files: Vec::new() });
        }
        let limits = Limits { comparisons: self.limits.comparisons.min(self.left), ..self.limits };
        let (answer, spent) = solve_within(limits, pool, wanted, baseline);
        self.left -= spent.min(self.left);
        self.hard.extend(answer.as_ref().err().filter(|why| why.is_too_hard()).cloned());
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

#[cfg(test)]
mod tests {
    use kubexm_spec::Family;

    use super::super::Repo;
    use super::*;
    use crate::rpm::installed;

    /// Packages of a bundle in version 2, with a name of its own that each provides.
    fn bundle(names: usize) -> (Pool, Vec<Root>) {
        let list: String = (0..names).map(|at| format!("N\tp{at}\t0\t2\t1\tx86_64\n")).collect();
        let mut packages = installed::read(&list).unwrap();
        packages.iter_mut().for_each(|one| one.repo = crate::model::RepoId(0));
        let repo = Repo { id: "baseos".to_owned(), base: String::new(), priority: 0 };
        let exactly = |at: usize| Root {
            name: format!("p{at}").into(),
            version: Some((crate::model::Comparison::Equal, "2-1".into())),
        };
        (Pool::new(Family::Rpm, "x86_64", vec![repo], packages), (0..names).map(exactly).collect())
    }

    /// A node that has each in version 1, and something that none of them can be with.
    fn refusing(names: usize, lines: usize) -> Baseline {
        let mut list: String = (0..names).map(|at| format!("N\tp{at}\t0\t1\t1\tx86_64\n")).collect();
        list.push_str("N\tother\t0\t1\t1\tx86_64\n");
        (0..names).for_each(|at| list.push_str(&format!("C\tp{at}\t12\t2\n")));
        (0..lines).for_each(|at| list.push_str(&format!("C\tq{at}\t0\t\n")));
        Baseline { packages: installed::read(&list).unwrap(), ..Baseline::default() }
    }

    /// Of this thread, in nanoseconds: another test beside it takes none of it.
    fn processor_time() -> u64 {
        let all = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        all.split(' ').next().unwrap().parse().unwrap()
    }

    #[test]
    fn answers_for_one_node_that_are_just_not_too_hard_are_too_much_together() {
        let (names, lines) = (64, 1_000);
        let (pool, roots) = bundle(names);
        let baseline = refusing(names, lines);
        let one = solve_within(Limits::default(), &pool, &roots[..1], &baseline).1;
        assert!(one > lines as u64 * 100, "each line counts: {one}");
        let enough = Limits { comparisons: one * names as u64, ..Limits::default() };
        let (chosen, left) = node_upgrade_within(enough, &pool, &roots, &baseline);
        assert!(chosen.is_empty() && left.iter().all(|(_, why)| !why.is_too_hard()), "{left:?}");
        // An answer takes half of what one may take, so the account is used up after six of them.
        let few = Limits { comparisons: one * 2 + 1, ..Limits::default() };
        let mut patience = Patience::new(few);
        let answers: Vec<bool> =
            (0..20).map(|_| patience.ask(&pool, &roots[..1], &baseline).is_err_and(|why| why.is_too_hard())).collect();
        assert_eq!(answers.iter().filter(|hard| !**hard).count(), HARD * 2, "{answers:?}");
        let (chosen, left) = node_upgrade_within(few, &pool, &roots, &baseline);
        assert_eq!((chosen.len(), left.len()), (0, names));
        assert!(left.iter().any(|(_, why)| why.is_too_hard()));
    }

    #[test]
    fn a_node_for_which_no_answer_is_found_is_not_asked_about_again_and_again() {
        let (pool, roots) = bundle(1);
        let mut patience = Patience::new(Limits { comparisons: 1_000_000, ..Limits::default() });
        let hard = refusing(1, 20_000);
        let last: Vec<Unsolvable> = (0..5).map(|_| patience.ask(&pool, &roots, &hard).unwrap_err()).collect();
        assert!(last.iter().all(Unsolvable::is_too_hard), "{last:?}");
        assert_eq!(patience.hard.len(), HARD);
        assert!(patience.ask(&pool, &roots, &Baseline::default()).is_err());
    }

    /// One that lacks very much already: each thing was looked for among all others.
    #[test]
    fn what_an_installed_package_lacks_already_costs_no_more_than_its_lines() {
        let (pool, roots) = bundle(1);
        let of = |lines: usize| {
            let mut baseline = refusing(1, 0);
            let list = format!("N\tlacking\t0\t1\t1\tx86_64\n{}", "R\tx\t0\t\n".repeat(lines));
            baseline.packages.extend(installed::read(&list).unwrap());
            let begun = processor_time();
            let (answer, _) = solve_within(Limits::default(), &pool, &roots, &baseline);
            assert!(answer.is_err_and(|why| !why.is_too_hard()));
            processor_time() - begun
        };
        // Four times as much takes four times as long, and not sixteen.
        let (some, more) = (of(25_000), of(100_000));
        assert!(more < some * 9, "{some} ns, {more} ns");
    }

    /// A list of a hundred KiB would make a gigabyte of what each package has against each other one.
    #[test]
    fn what_installed_packages_have_against_each_other_is_not_looked_at() {
        let list: String = (0..2_000).map(|at| format!("N\tz{at}\t0\t1\t1\tx86_64\nP\tx\t0\t\nC\tx\t0\t\n")).collect();
        let baseline = Baseline { packages: installed::read(&list).unwrap(), ..Baseline::default() };
        let (pool, _) = bundle(1);
        let universe = Universe::new(&pool, &baseline);
        assert!(super::super::verify::wrong(&universe, &Selection::new(&universe)).is_empty());
        let plan = node_plan(&pool, &[Root::named("p0")], &baseline, &BTreeMap::new());
        assert_eq!(plan.install.len(), 1);
    }
}
