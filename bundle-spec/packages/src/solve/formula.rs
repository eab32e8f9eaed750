//! Relations as clauses for the solver.

use std::collections::HashSet;
use std::fmt;

use super::PackageId;
use super::universe::Universe;
use crate::model::Requirement;

/// If of each set in `when` a package is there, one of `then` must be there; with an empty `then` that must not come to pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clause {
    /// Each of them sorted.
    pub(super) when: Vec<Vec<PackageId>>,
    /// The preferred first.
    pub(super) then: Vec<PackageId>,
}

/// Boolean dependencies that come to more clauses than this are not looked at: no real one does.
const CLAUSES: usize = 4096;

/// The most packages in the clauses of one relation, each as often as it is in one: a name may be that of a hundred thousand.
const NAMED: usize = 1_000_000;

/// Why a relation is not written as clauses, as what follows "which is".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Unfit {
    /// It comes to more than [`CLAUSES`], or names more than [`NAMED`].
    TooLarge,
    /// `with` or `without` of what is about more than one package.
    Mixed,
}

/// What follows "which is".
impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => {
                write!(
                    f,
                    "too large to be solved: it has more than {CLAUSES} clauses, or more than {NAMED} packages in them"
                )
            }
            Self::Mixed => f.write_str("cannot be solved: its `with` or `without` is about more than one package"),
        }
    }
}

/// That it holds.
pub(super) fn holds(universe: &Universe<'_>, wanted: &Requirement) -> Result<Vec<Clause>, Unfit> {
    clauses(universe, wanted, true)
}

/// That it does not hold, of packages other than `except`.
pub(super) fn holds_not(
    universe: &Universe<'_>,
    wanted: &Requirement,
    except: PackageId,
) -> Result<Vec<Clause>, Unfit> {
    let mut found = clauses(universe, wanted, false)?;
    for clause in &mut found {
        clause.then.retain(|id| *id != except);
        clause.when.iter_mut().for_each(|set| set.retain(|id| *id != except));
    }
    // A condition that nothing can bring about.
    found.retain(|clause| !clause.when.iter().any(Vec::is_empty));
    Ok(found)
}

fn clauses(universe: &Universe<'_>, wanted: &Requirement, is: bool) -> Result<Vec<Clause>, Unfit> {
    use Requirement::{All, Any, If, Unless};
    let of = |one: &Requirement, is| clauses(universe, one, is);
    match wanted {
        All(all) | Any(all) if matches!(wanted, All(_)) == is => {
            let (mut found, mut size) = (Vec::new(), 0);
            for one in all {
                let more = of(one, is)?;
                size += named(&more);
                if size > NAMED {
                    return Err(Unfit::TooLarge);
                }
                found.extend(more);
            }
            fits(found)
        }
        All(all) | Any(all) => {
            let mut found = vec![Clause::default()];
            for one in all {
                found = either(universe, &found, &of(one, is)?)?;
            }
            Ok(found)
        }
        // (then or not condition) and (condition or otherwise)
        If { condition, then, otherwise } if is => {
            let mut found = either(universe, &of(then, true)?, &of(condition, false)?)?;
            if let Some(otherwise) = otherwise {
                found.extend(either(universe, &of(condition, true)?, &of(otherwise, true)?)?);
            }
            fits(found)
        }
        // (condition and not then) or (not condition and not otherwise)
        If { condition, then, otherwise } => match otherwise {
            None => fits([of(condition, true)?, of(then, false)?].concat()),
            Some(otherwise) => fits(
                [
                    either(universe, &of(condition, true)?, &of(otherwise, false)?)?,
                    either(universe, &of(condition, false)?, &of(then, false)?)?,
                ]
                .concat(),
            ),
        },
        // (then and not condition) or (otherwise and condition)
        Unless { condition, then, otherwise } if is => match otherwise {
            None => fits([of(then, true)?, of(condition, false)?].concat()),
            Some(otherwise) => fits(
                [
                    either(universe, &of(then, true)?, &of(condition, true)?)?,
                    either(universe, &of(otherwise, true)?, &of(condition, false)?)?,
                ]
                .concat(),
            ),
        },
        // (not then or condition) and (not otherwise or not condition)
        Unless { condition, then, otherwise } => {
            let mut found = either(universe, &of(then, false)?, &of(condition, true)?)?;
            if let Some(otherwise) = otherwise {
                found.extend(either(universe, &of(otherwise, false)?, &of(condition, false)?)?);
            }
            Ok(found)
        }
        single => {
            let mut all = universe.single(single).ok_or(Unfit::Mixed)?;
            if is {
                return Ok(vec![Clause { when: Vec::new(), then: all }]);
            }
            all.sort_unstable();
            // What nothing satisfies does not hold.
            Ok(if all.is_empty() { Vec::new() } else { vec![Clause { when: vec![all], then: Vec::new() }] })
        }
    }
}

fn fits(found: Vec<Clause>) -> Result<Vec<Clause>, Unfit> {
    if found.len() <= CLAUSES && named(&found) <= NAMED { Ok(found) } else { Err(Unfit::TooLarge) }
}

/// How many packages clauses name, and sets of them.
fn named(clauses: &[Clause]) -> usize {
    let of_sets = |clause: &Clause| clause.when.iter().map(|set| 1 + set.len()).sum::<usize>();
    clauses.iter().map(|clause| 1 + clause.then.len() + of_sets(clause)).sum()
}

/// One of two holds.
fn either(universe: &Universe<'_>, one: &[Clause], other: &[Clause]) -> Result<Vec<Clause>, Unfit> {
    if one.len().saturating_mul(other.len()) > CLAUSES {
        return Err(Unfit::TooLarge);
    }
    // Each of one side stands beside each of the other's.
    let size = named(one) * other.len() + named(other) * one.len();
    universe.spend(size);
    if size > NAMED || universe.is_spent() {
        return Err(Unfit::TooLarge);
    }
    let mut found = Vec::with_capacity(one.len() * other.len());
    for first in one {
        let (sets, then): (HashSet<_>, HashSet<_>) = (first.when.iter().collect(), first.then.iter().collect());
        for second in other {
            let mut clause = first.clone();
            clause.when.extend(second.when.iter().filter(|set| !sets.contains(set)).cloned());
            clause.then.extend(second.then.iter().filter(|id| !then.contains(id)));
            found.push(clause);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use kubexm_spec::{Digest, Family};

    use super::super::{Baseline, Pool, Repo};
    use super::*;
    use crate::model::{Deferred, MultiArch, Package, Provide, RepoId};
    use crate::rpm::dependency::parse;

    #[test]
    fn a_relation_whose_clauses_would_name_each_of_many_packages_a_thousand_times_is_not_written() {
        let names = |letter: char| (0..60).map(|at| format!("{letter}{at}")).collect::<Vec<_>>();
        let provides: Vec<Provide> =
            names('a').into_iter().chain(names('b')).map(|name| Provide { name: name.into(), version: None }).collect();
        let package = |at: usize| Package {
            name: format!("p{at}").into(),
            version: "1".into(),
            arch: "noarch".into(),
            repo: RepoId(0),
            location: "".into(),
            size: 0,
            digest: Digest::of("p"),
            installed_size: 0,
            provides: provides.clone(),
            files: Vec::new(),
            multi_arch: MultiArch::No,
            module: None,
            essential: false,
            priority: 3,
            relations: Deferred::Ready(Box::default()),
        };
        let wanted = parse(&format!("(({}) or ({}))", names('a').join(" and "), names('b').join(" and "))).unwrap();
        let all = parse(&format!("({})", names('a').join(" and "))).unwrap();
        let of = |providers: usize, wanted: &Requirement| {
            let repo = Repo { id: "el9".to_owned(), base: String::new(), priority: 0 };
            let pool = Pool::new(Family::Rpm, "x86_64", vec![repo], (0..providers).map(package).collect());
            let nothing = Baseline::empty();
            holds(&Universe::new(&pool, &nothing), wanted).map(|clauses| clauses.len())
        };
        assert_eq!(of(100, &wanted), Ok(3600));
        // 3600 clauses of 300 packages, where those of both sides are the same.
        assert_eq!(of(300, &wanted), Err(Unfit::TooLarge));
        assert_eq!(of(15_000, &all), Ok(60));
        assert_eq!(of(20_000, &all), Err(Unfit::TooLarge));
    }
}
