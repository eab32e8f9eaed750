//! Relations as clauses for the solver.

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

/// Why a relation is not written as clauses, as what follows "which is".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Unfit {
    /// It comes to more than [`CLAUSES`].
    TooLarge,
    /// `with` or `without` of what is about more than one package.
    Mixed,
}

/// What follows "which is".
impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => write!(f, "too large to be solved: it has more than {CLAUSES} clauses"),
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
            let mut found = Vec::new();
            for one in all {
                found.extend(of(one, is)?);
            }
            fits(found)
        }
        All(all) | Any(all) => {
            let mut found = vec![Clause::default()];
            for one in all {
                found = either(&found, &of(one, is)?)?;
            }
            Ok(found)
        }
        // (then or not condition) and (condition or otherwise)
        If { condition, then, otherwise } if is => {
            let mut found = either(&of(then, true)?, &of(condition, false)?)?;
            if let Some(otherwise) = otherwise {
                found.extend(either(&of(condition, true)?, &of(otherwise, true)?)?);
            }
            Ok(found)
        }
        // (condition and not then) or (not condition and not otherwise)
        If { condition, then, otherwise } => match otherwise {
            None => fits([of(condition, true)?, of(then, false)?].concat()),
            Some(otherwise) => fits(
                [
                    either(&of(condition, true)?, &of(otherwise, false)?)?,
                    either(&of(condition, false)?, &of(then, false)?)?,
                ]
                .concat(),
            ),
        },
        // (then and not condition) or (otherwise and condition)
        Unless { condition, then, otherwise } if is => match otherwise {
            None => fits([of(then, true)?, of(condition, false)?].concat()),
            Some(otherwise) => fits(
                [
                    either(&of(then, true)?, &of(condition, true)?)?,
                    either(&of(otherwise, true)?, &of(condition, false)?)?,
                ]
                .concat(),
            ),
        },
        // (not then or condition) and (not otherwise or not condition)
        Unless { condition, then, otherwise } => {
            let mut found = either(&of(then, false)?, &of(condition, true)?)?;
            if let Some(otherwise) = otherwise {
                found.extend(either(&of(otherwise, false)?, &of(condition, false)?)?);
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
    if found.len() <= CLAUSES { Ok(found) } else { Err(Unfit::TooLarge) }
}

/// One of two holds.
fn either(one: &[Clause], other: &[Clause]) -> Result<Vec<Clause>, Unfit> {
    if one.len().saturating_mul(other.len()) > CLAUSES {
        return Err(Unfit::TooLarge);
    }
    let mut found = Vec::with_capacity(one.len() * other.len());
    for first in one {
        for second in other {
            let mut clause = first.clone();
            for set in &second.when {
                if !clause.when.contains(set) {
                    clause.when.push(set.clone());
                }
            }
            for id in &second.then {
                if !clause.then.contains(id) {
                    clause.then.push(*id);
                }
            }
            found.push(clause);
        }
    }
    Ok(found)
}
