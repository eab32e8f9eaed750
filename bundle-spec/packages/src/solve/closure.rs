//! One solve, from the roots' own packages to a verified closure.

use kubexm_spec::Family;

use super::asked::Asked;
use super::selection::Selection;
use super::universe::Universe;
use super::verify::verify;
use super::{Baseline, Chosen, Closure, PackageId, Pool, Reason, Root, Unsolvable, depth, forced, reasons, sat};
use crate::model::Requirement;
use crate::solve::satisfy::by_name;

/// The packages that the roots need beyond what is installed already.
///
/// The same input, in whatever order the pool was filled, gives the same answer. Nothing of the baseline is removed or made older.
///
/// # Errors
/// Where there is no such set: why, in sentences.
pub fn solve(pool: &Pool, roots: &[Root], baseline: &Baseline) -> Result<Closure, Unsolvable> {
    let universe = Universe::new(pool, baseline);
    let refused = |reasons| Unsolvable { reasons, needs_files: universe.needs_files() };
    let (mut asked, mut unknown) = (Vec::new(), Vec::new());
    for root in roots {
        match packages_of(&universe, root) {
            Ok(ways) => asked.push(Asked { name: &root.name, words: universe.words(&Universe::wanted_by(root)), ways }),
            Err(reason) => unknown.push(reason),
        }
    }
    if !unknown.is_empty() {
        return Err(refused(unknown));
    }
    if let Some(selection) = greedy(&universe, &asked) {
        return Ok(closure(&universe, &selection, &asked));
    }
    let found = sat::search(&universe, &asked).map_err(refused)?;
    let selection = without_idle(&universe, &found, &asked);
    if !verify(&universe, &selection, &asked).is_empty() {
        let why = "the solution that was found is not valid; please report it".into();
        return Err(refused(vec![Reason::TooHard { why }]));
    }
    Ok(closure(&universe, &selection, &asked))
}

fn greedy<'u>(universe: &'u Universe<'u>, asked: &[Asked<'_>]) -> Option<Selection<'u>> {
    let mut selection = Selection::new(universe);
    let closed = match universe.family() {
        Family::Deb => {
            let open = asked.iter().filter(|root| !root.ways.iter().any(|id| selection.contains(*id)));
            let first: Vec<PackageId> = open.filter_map(|root| root.ways.first().copied()).collect();
            depth::close(universe, &mut selection, &first)
        }
        Family::Rpm => forced::close(universe, &mut selection, asked),
    };
    (closed.is_ok() && verify(universe, &selection, asked).is_empty()).then_some(selection)
}

/// What may stand for a root, the preferred first. Debian's tool asks people to choose among several that only provide a name;
/// dnf chooses itself, and takes what makes the wanted one obsolete.
fn packages_of(universe: &Universe<'_>, root: &Root) -> Result<Vec<PackageId>, Reason> {
    let Requirement::One(wanted) = Universe::wanted_by(root) else { return Ok(Vec::new()) };
    let (installed, all): (Vec<PackageId>, Vec<PackageId>) =
        universe.satisfying(&wanted).into_iter().partition(|id| universe.is_installed(*id));
    if !installed.is_empty() {
        return Ok(installed.into_iter().chain(all.into_iter().filter(|id| universe.may_be_chosen(*id))).collect());
    }
    let choosable: Vec<PackageId> = all.iter().copied().filter(|id| universe.may_be_chosen(*id)).collect();
    let named: Vec<PackageId> =
        choosable.iter().copied().filter(|id| universe.package(*id).name == root.name).collect();
    if !named.is_empty() {
        let mut found = Vec::new();
        if universe.family() == Family::Rpm {
            let obsoletes = |id: &PackageId| {
                universe.may_be_chosen(*id)
                    && universe.relations(*id).is_some_and(|relations| {
                        relations.obsoletes.iter().any(|one| {
                            named.iter().any(|other| by_name(universe.family(), universe.package(*other), one))
                        })
                    })
            };
            found.extend(universe.pool.obsoleting().iter().copied().filter(obsoletes));
        }
        found.extend(named);
        return Ok(found);
    }
    let wants = universe.words(&Requirement::One(wanted.clone()));
    let mut names: Vec<Box<str>> = choosable.iter().map(|id| universe.package(*id).name.clone()).collect();
    names.dedup();
    if names.len() > 1 && universe.family() == Family::Deb {
        return Err(Reason::Ambiguous { wants, providers: names });
    }
    if !choosable.is_empty() {
        return Ok(choosable);
    }
    if let Some(id) = all.first() {
        return Err(match (universe.unreadable(*id), universe.installed_as(&universe.package(*id).name)) {
            (Some(why), _) => Reason::Unreadable { package: universe.shown(*id), why: why.into() },
            (None, Some(installed)) => Reason::Installed { package: universe.shown(installed) },
            (None, None) => Reason::UnknownRoot { wants, versions: Vec::new(), near: Vec::new() },
        });
    }
    let versions: Vec<Box<str>> =
        universe.pool.named(&root.name).map(|id| universe.package(id).version.clone()).collect();
    let near = if versions.is_empty() {
        universe.pool.near(&root.name).into_iter().map(Into::into).collect()
    } else {
        Vec::new()
    };
    Err(Reason::UnknownRoot { wants, versions, near })
}

/// What the solver found, without what nothing needs.
fn without_idle<'u>(universe: &'u Universe<'u>, found: &[PackageId], asked: &[Asked<'_>]) -> Selection<'u> {
    let with = |ids: &mut dyn Iterator<Item = PackageId>| {
        let mut selection = Selection::new(universe);
        ids.for_each(|id| selection.add(id));
        selection
    };
    let whole = with(&mut found.iter().copied());
    let needed = reasons::reasons(universe, &whole, asked);
    let lean = with(&mut found.iter().copied().filter(|id| needed.contains_key(id)));
    if verify(universe, &lean, asked).is_empty() { lean } else { whole }
}

fn closure(universe: &Universe<'_>, selection: &Selection<'_>, asked: &[Asked<'_>]) -> Closure {
    let mut because = reasons::reasons(universe, selection, asked);
    let chosen = selection.new_members().into_iter().map(|id| {
        let package = universe.package(id);
        Chosen {
            package: id,
            replaces: universe.installed_as(&package.name).map(|old| universe.package(old).version.clone()),
            // Something that holds only together with others; it is there for the roots' sake.
            because: because.remove(&id).unwrap_or_else(|| {
                super::Because::Root(asked.first().map_or_else(|| package.name.clone(), |root| root.name.into()))
            }),
        }
    });
    Closure { packages: chosen.collect(), needs_files: universe.needs_files() }
}
