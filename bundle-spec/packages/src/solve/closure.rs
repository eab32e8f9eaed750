//! One solve, from the roots' own packages to a verified closure.

use kubexm_spec::Family;

use super::asked::Asked;
use super::limits::Limits;
use super::selection::Selection;
use super::universe::Universe;
use super::verify::verify;
use super::{Baseline, Chosen, Closure, PackageId, Pool, Reason, Root, Unsolvable, depth, forced, reasons, sat};
use crate::model::{Constraint, Requirement};

/// The packages that the roots need beyond what is installed already.
///
/// The same input, in whatever order the pool was filled, gives the same answer. Nothing of the baseline is removed or made older.
///
/// # Errors
/// Where there is no such set: why, in sentences.
pub fn solve(pool: &Pool, roots: &[Root], baseline: &Baseline) -> Result<Closure, Unsolvable> {
    solve_within(Limits::default(), pool, roots, baseline).0
}

/// The answer, and how many comparisons it took.
pub(super) fn solve_within(
    limits: Limits,
    pool: &Pool,
    roots: &[Root],
    baseline: &Baseline,
) -> (Result<Closure, Unsolvable>, u64) {
    let universe = Universe::within(limits, pool, baseline);
    let answer = match closure_of(&universe, roots) {
        // Whatever it is: nothing satisfied anything any more.
        _ if universe.is_spent() => Err(vec![stopped(&universe)]),
        answer => answer,
    };
    let answer = answer.map_err(|reasons| Unsolvable { reasons, needs_files: universe.needs_files() });
    (answer, universe.spent())
}

fn stopped(universe: &Universe<'_>) -> Reason {
    Reason::TooHard { why: universe.too_many_comparisons() }
}

/// Right unless all comparisons were used up.
fn closure_of(universe: &Universe<'_>, roots: &[Root]) -> Result<Closure, Vec<Reason>> {
    let (mut asked, mut unknown) = (Vec::new(), Vec::new());
    for root in roots {
        match packages_of(universe, root) {
            Ok(ways) => asked.push(Asked { name: &root.name, words: universe.words(&Universe::wanted_by(root)), ways }),
            Err(reason) => unknown.push(reason),
        }
    }
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let selection = greedy(universe, &asked);
    if universe.is_spent() {
        return Err(vec![stopped(universe)]);
    }
    if let Some(selection) = selection {
        return Ok(closure(universe, &selection, &asked));
    }
    let found = sat::search(universe, &asked)?;
    let selection = without_idle(universe, &found, &asked);
    if !verify(universe, &selection, &asked).is_empty() {
        let why = "the solution that was found is not valid; please report it".into();
        return Err(vec![Reason::TooHard { why }]);
    }
    Ok(closure(universe, &selection, &asked))
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
            let of_it = |one: &Constraint| {
                // The other names need no look at each version.
                *one.name == *root.name && !universe.is_spent() && {
                    universe.spend(named.len());
                    named.iter().any(|other| universe.is_named(*other, one))
                }
            };
            for id in universe.pool.obsoleting().iter().copied().filter(|id| universe.may_be_chosen(*id)) {
                if universe.is_spent() {
                    return Err(stopped(universe));
                }
                if universe.relations(id).is_some_and(|relations| relations.obsoletes.iter().any(of_it)) {
                    found.push(id);
                }
            }
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

#[cfg(test)]
mod tests {
    use kubexm_spec::Digest;

    use super::super::Repo;
    use super::*;
    use crate::model::{Deferred, MultiArch, Package, Provide, RepoId};
    use crate::rpm::dependency::{Kind, Lines};

    fn package(name: &str, provides: &[String], lines: &[(Kind, String)]) -> Package {
        let mut relations = Lines::default();
        lines.iter().for_each(|(kind, wanted)| relations.push(*kind, wanted, None));
        Package {
            name: name.into(),
            version: "1".into(),
            arch: "noarch".into(),
            repo: RepoId(0),
            location: name.into(),
            size: 1,
            digest: Digest::of(name),
            installed_size: 0,
            provides: provides.iter().map(|name| Provide { name: name.as_str().into(), version: None }).collect(),
            files: Vec::new(),
            multi_arch: MultiArch::No,
            module: None,
            essential: false,
            priority: 3,
            relations: Deferred::Rpm(relations.finish()),
        }
    }

    fn answer(limits: Limits, packages: Vec<Package>, root: &str) -> Result<usize, String> {
        let repo = Repo { id: "el9".to_owned(), base: "https://mirror.test".to_owned(), priority: 0 };
        let pool = Pool::new(Family::Rpm, "x86_64", vec![repo], packages);
        let found = solve_within(limits, &pool, &[Root::named(root)], &Baseline::empty()).0;
        found.map(|closure| closure.packages.len()).map_err(|error| error.to_string())
    }

    #[test]
    fn packages_that_need_each_other_in_too_many_ways_are_given_up_by_name() {
        // A ring of packages, each of which needs a hundred names that all of them provide.
        let names: Vec<String> = (0..100).map(|number| format!("x{number}")).collect();
        let of = |number: usize| {
            let mut lines: Vec<_> = names.iter().map(|name| (Kind::Requires, name.clone())).collect();
            lines.push((Kind::Requires, format!("p{}", (number + 1) % 200)));
            package(&format!("p{number}"), &names, &lines)
        };
        let all = || (0..200).map(of).collect();
        assert_eq!(answer(Limits::default(), all(), "p0"), Ok(200));
        let few = Limits { comparisons: 1_000_000, ..Limits::default() };
        let told = answer(few, all(), "p0").unwrap_err();
        assert!(told.starts_with("the search was stopped: packages were compared 1000000 times"), "{told}");
        assert_eq!(answer(few, all(), "p0").unwrap_err(), told);
    }

    #[test]
    fn what_one_package_has_a_million_times_is_given_up_within_it() {
        let many = |kind: Kind, name: &str| vec![(kind, name.to_owned()); 200_000];
        let provider = |count: usize| package("x", &vec!["a".to_owned(); count], &[]);
        let conflicts = vec![package("root", &[], &many(Kind::Conflicts, "a")), provider(200_000)];
        let version = |at: usize| Package { version: at.to_string().into(), ..package("k", &[], &[]) };
        let mut obsoletes: Vec<Package> = (0..20_000).map(version).collect();
        obsoletes.push(package("root", &[], &many(Kind::Obsoletes, "k")));
        // A choice between two is looked at once for each need.
        let names: Vec<String> = (0..20_000).map(|at| format!("n{at}")).collect();
        let needs: Vec<(Kind, String)> = names.iter().map(|name| (Kind::Requires, name.clone())).collect();
        let choices = vec![package("root", &[], &needs), package("x", &names, &[]), package("y", &names, &[])];
        let few = Limits { comparisons: 1_000_000, ..Limits::default() };
        for packages in [conflicts, obsoletes, choices] {
            let message = answer(few, packages, "root").unwrap_err();
            assert!(message.starts_with("the search was stopped: packages were compared 1000000 times"), "{message}");
        }
    }

    #[test]
    fn a_relation_that_is_kept_and_a_version_of_kilobytes_count_as_what_they_cost() {
        // A dependency that names a thousand packages, of each of three hundred.
        let wide = format!("(a{})", " or a".repeat(1_000));
        let mut all: Vec<Package> = (0..300)
            .map(|at| package(&format!("p{at}"), &["x".to_owned()], &[(Kind::Requires, wide.clone())]))
            .collect();
        all.push(package("root", &[], &[(Kind::Requires, "x".to_owned())]));
        let few = Limits { comparisons: 5_000_000, ..Limits::default() };
        let message = answer(few, all, "root").unwrap_err();
        assert!(message.contains("compared 5000000 times"), "{message}");

        let long = "1".repeat(4096);
        let version = Some((crate::model::Comparison::GreaterOrEqual, long.as_str()));
        let mut lines = Lines::default();
        (0..100).for_each(|_| lines.push(Kind::Requires, "x", version));
        let root = Package { relations: Deferred::Rpm(lines.finish()), ..package("root", &[], &[]) };
        let provide =
            Provide { name: "x".into(), version: Some((crate::model::Comparison::Equal, long.as_str().into())) };
        let provider = |at: usize| Package { provides: vec![provide.clone()], ..package(&format!("p{at}"), &[], &[]) };
        let all: Vec<Package> = (0..100).map(provider).chain(std::iter::once(root)).collect();
        let few = Limits { comparisons: 1_000_000, ..Limits::default() };
        let message = answer(few, all, "root").unwrap_err();
        assert!(message.contains("compared 1000000 times"), "{message}");
    }

    #[test]
    fn a_search_that_would_not_end_is_given_up_by_name() {
        // Of fourteen each needs one of thirteen places, which it can share with nobody: a proof of that is as long as their ways.
        let (many, places) = (14, 13);
        let at = |one: usize, place: usize| format!("g{one}x{place}");
        let mut all = Vec::new();
        let needs = (0..many).map(|one| {
            let ways: Vec<String> = (0..places).map(|place| at(one, place)).collect();
            (Kind::Requires, format!("({})", ways.join(" or ")))
        });
        all.push(package("all", &[], &needs.collect::<Vec<_>>()));
        for one in 0..many {
            for place in 0..places {
                let name = format!("place{place}");
                all.push(package(&at(one, place), std::slice::from_ref(&name), &[(Kind::Conflicts, name.clone())]));
            }
        }
        let told = answer(Limits { decisions: 5_000, ..Limits::default() }, all, "all").unwrap_err();
        assert!(told.starts_with("the search was stopped: 5000 decisions gave neither"), "{told}");
        assert!(told.contains("for all;"), "{told}");
    }

    #[test]
    fn one_relation_that_everybody_satisfies_is_kept_once_and_sets_without_end_are_given_up_by_name() {
        // Greed finds nothing: a root that also needs what is nowhere.
        let of = |relations: usize, providers: usize| {
            let provides: Vec<String> = (0..relations).map(|at| format!("v{at}")).collect();
            let needs = provides.iter().cloned().chain(std::iter::once("nothing".to_owned()));
            let needs: Vec<_> = needs.map(|name| (Kind::Requires, name)).collect();
            let others = (0..providers).map(|at| package(&format!("p{at}"), &provides, &[]));
            std::iter::once(package("root", &[], &needs)).chain(others).collect::<Vec<_>>()
        };
        let message = answer(Limits::default(), of(5, 20), "root").unwrap_err();
        assert!(message.contains("needs nothing"), "{message}");
        let few = Limits { sets: 1_000, ..Limits::default() };
        let message = answer(few, of(100, 20), "root").unwrap_err();
        assert!(message.contains("for root more than 1000 packages came into question"), "{message}");
    }

    #[test]
    fn a_long_relation_is_no_long_reason_of_each_package_that_it_brings() {
        let names: Vec<String> = (0..50).map(|at| format!("{}{at}", "n".repeat(100))).collect();
        let whole = format!("({})", names.join(" and "));
        let mut all: Vec<Package> = names.iter().map(|name| package(name, &[], &[])).collect();
        all.push(package("root", &[], &[(Kind::Requires, whole.clone())]));
        let repo = Repo { id: "el9".to_owned(), base: "https://mirror.test".to_owned(), priority: 0 };
        let pool = Pool::new(Family::Rpm, "x86_64", vec![repo], all);
        let closure = solve(&pool, &[Root::named("root")], &Baseline::empty()).unwrap();
        let longest = closure.packages.iter().map(|chosen| format!("{:?}", chosen.because).len()).max();
        assert_eq!(closure.packages.len(), 51);
        assert!(whole.len() > 5_000 && longest < Some(1_500), "{longest:?}");
    }
}
