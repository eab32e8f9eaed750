//! Random small universes against a search that tries every set.

use kubexm_packages::model::{Comparison, Package, Requirement};
use kubexm_packages::solve::{Baseline, Pool, Root, solve};
use kubexm_spec::Family::{self, Deb, Rpm};
use proptest::prelude::*;

use crate::solve::common::{package, repos};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A line of [`package`]: of six names in up to two versions, with some needs, conflicts and provides.
fn line(family: Family) -> impl Strategy<Value = String> {
    let name = 0..NAMES.len();
    let one = (0..8_usize, 0..4_u8).prop_map(move |(at, version)| {
        let name = NAMES.get(at).copied().unwrap_or(["v", "w"][at % 2]);
        match (version, family) {
            (1, Deb) => format!("{name} (>= 2)"),
            (2, Deb) => format!("{name} (= 1)"),
            (1, Rpm) => format!("{name} >= 2"),
            (2, Rpm) => format!("{name} = 1"),
            _ => name.to_owned(),
        }
    });
    let need = prop_oneof![
        3 => one.clone(),
        2 => (one.clone(), one.clone()).prop_map(move |(x, y)| match family {
            Deb => format!("{x} | {y}"),
            Rpm => format!("({x} or {y})"),
        }),
        1 => (one.clone(), one.clone(), one.clone(), 0..6_u8).prop_map(move |(x, y, z, kind)| match (family, kind) {
            (Deb, _) => format!("{x} | {y} | {z}"),
            (Rpm, 0) => format!("({x} if {y})"),
            (Rpm, 1) => format!("({x} if {y} else {z})"),
            (Rpm, 2) => format!("(({x} and {y}) or {z})"),
            (Rpm, 3) => format!("({x} unless {y})"),
            (Rpm, 4) => format!("({x} unless {y} else {z})"),
            (Rpm, _) => format!("(({x} with {y}) or ({z} without {x}))"),
        }),
    ];
    let against = prop_oneof![
        4 => one.clone(),
        1 => (one.clone(), one.clone()).prop_map(move |(x, y)| if family == Rpm { format!("({x} and {y})") } else { x }),
    ];
    let provide = prop_oneof![Just("v"), Just("w"), Just("v (= 1)"), Just("w (= 2)")];
    let needs = prop::collection::vec(need, 0..3);
    let (against, provides) = (prop::collection::vec(against, 0..2), prop::collection::vec(provide, 0..2));
    let obsoletes = prop::option::weighted(0.1, one);
    (name, 1..3_u8, needs, against, provides, obsoletes).prop_map(
        move |(name, version, needs, against, provides, gone)| {
            let mut line = format!("{} {version}", NAMES[name]);
            if family == Deb {
                line += &format!(
                    "; Depends: {}; Conflicts: {}; Provides: {}",
                    needs.join(", "),
                    against.join(", "),
                    provides.join(", ")
                );
                return line.replace("Provides: ;", "").trim_end_matches("; Provides: ").to_owned();
            }
            needs.iter().for_each(|need| line += &format!("; R: {need}"));
            against.iter().for_each(|one| line += &format!("; C: {one}"));
            provides.iter().for_each(|one| line += &format!("; P: {one}"));
            gone.filter(|one| !one.starts_with('(')).iter().for_each(|one| line += &format!("; O: {one}"));
            line
        },
    )
}

fn universe(family: Family) -> impl Strategy<Value = (Vec<Package>, Vec<usize>)> {
    let lines = prop::collection::vec(line(family), 1..8);
    (lines, prop::collection::vec(0..NAMES.len(), 1..3)).prop_map(move |(lines, roots)| {
        let mut packages: Vec<Package> = lines.iter().map(|line| package(family, line)).collect();
        // One package of a name and version.
        packages.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
        packages.dedup_by(|one, other| one.name == other.name && one.version == other.version);
        (packages, roots)
    })
}

/// Written anew from the documents of both families, so that it shares no mistake with the code under test.
struct Judge<'p> {
    family: Family,
    set: Vec<&'p Package>,
}

impl Judge<'_> {
    fn is(&self, package: &Package, wanted: &kubexm_packages::model::Constraint) -> bool {
        let holds = |found: &str| match &wanted.version {
            None => true,
            Some((Comparison::Equal, version)) => found == &**version,
            Some((Comparison::GreaterOrEqual, version)) => found >= &**version,
            Some(other) => panic!("{other:?}"),
        };
        let provided = |provide: &kubexm_packages::model::Provide| {
            provide.name == wanted.name
                && match &provide.version {
                    Some((_, version)) => holds(version),
                    None => wanted.version.is_none() || self.family == Rpm,
                }
        };
        (package.name == wanted.name && holds(&package.version)) || package.provides.iter().any(provided)
    }

    fn one_is(&self, package: &Package, wanted: &Requirement) -> bool {
        match wanted {
            Requirement::One(one) => self.is(package, one),
            Requirement::With(all) => all.iter().all(|one| self.one_is(package, one)),
            Requirement::Without(one, other) => self.one_is(package, one) && !self.one_is(package, other),
            other => panic!("{other:?}"),
        }
    }

    fn holds(&self, wanted: &Requirement, except: Option<&Package>) -> bool {
        let inner = |one: &Requirement| self.holds(one, except);
        let or = |one: &Option<Box<Requirement>>, default| one.as_ref().map_or(default, |one| inner(one));
        match wanted {
            Requirement::All(all) => all.iter().all(inner),
            Requirement::Any(all) => all.iter().any(inner),
            Requirement::If { condition, then, otherwise } => {
                if inner(condition) {
                    inner(then)
                } else {
                    or(otherwise, true)
                }
            }
            Requirement::Unless { condition, then, otherwise } => {
                if inner(condition) {
                    or(otherwise, false)
                } else {
                    inner(then)
                }
            }
            single => self.set.iter().any(|package| Some(*package) != except && self.one_is(package, single)),
        }
    }

    fn is_right(&self) -> bool {
        self.set.iter().all(|package| {
            let relations = package.relations().unwrap();
            let alone = self.set.iter().filter(|other| other.name == package.name).count() == 1;
            alone
                && relations.requires.iter().all(|need| self.holds(need, None))
                && !relations.conflicts.iter().any(|against| self.holds(against, Some(package)))
                && !relations.obsoletes.iter().any(|gone| {
                    self.set.iter().any(|other| {
                        other != package && other.name == gone.name && {
                            let by_name = Package { provides: Vec::new(), ..(*other).clone() };
                            self.is(&by_name, gone)
                        }
                    })
                })
        })
    }
}

fn there_is_a_way(family: Family, packages: &[Package], roots: &[&str]) -> bool {
    (0_u32..1 << packages.len()).any(|bits| {
        let set = packages.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0).map(|(_, package)| package);
        let judge = Judge { family, set: set.collect() };
        roots.iter().all(|root| judge.set.iter().any(|package| &*package.name == *root)) && judge.is_right()
    })
}

fn agrees(family: Family, packages: &[Package], roots: &[usize], shuffled: &[Package]) -> Result<(), TestCaseError> {
    let names: Vec<&str> = roots
        .iter()
        .map(|at| NAMES[*at])
        .filter(|name| packages.iter().any(|one| one.name == (*name).into()))
        .collect();
    let wanted: Vec<Root> = names.iter().map(|name| Root::named(*name)).collect();
    let pool = Pool::new(family, "any", repos(), packages.to_vec());
    let solved = solve(&pool, &wanted, &Baseline::empty());
    let again = Pool::new(family, "any", repos(), shuffled.to_vec());
    prop_assert_eq!(&solved, &solve(&again, &wanted, &Baseline::empty()), "the order of the input changes the answer");
    // dnf takes what makes a root obsolete in its place, and a provider in that of a name: the brute force does not.
    let mut possible = there_is_a_way(family, packages, &names);
    match &solved {
        Ok(closure) => {
            let set: Vec<&Package> = closure.packages.iter().map(|one| pool.package(one.package)).collect();
            let judge = Judge { family, set };
            prop_assert!(judge.is_right(), "{:?}", judge.set);
            possible = true;
        }
        Err(unsolvable) => prop_assert!(!unsolvable.reasons.is_empty(), "no reason is reported"),
    }
    prop_assert_eq!(solved.is_ok(), possible, "{:?}", solved);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1500), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn deb_finds_an_answer_where_there_is_one_and_a_right_one(
        ((packages, roots), shuffled) in universe(Deb).prop_flat_map(|found| (Just(found.clone()), Just(found.0).prop_shuffle()))
    ) {
        agrees(Deb, &packages, &roots, &shuffled)?;
    }

    #[test]
    fn rpm_finds_an_answer_where_there_is_one_and_a_right_one(
        ((packages, roots), shuffled) in universe(Rpm).prop_flat_map(|found| (Just(found.clone()), Just(found.0).prop_shuffle()))
    ) {
        agrees(Rpm, &packages, &roots, &shuffled)?;
    }
}

/// What is there after `added` has come to `installed`: an older version of the same name goes. None where that would make
/// something older, or come twice.
fn after<'p>(installed: &'p [Package], added: &[&'p Package]) -> Option<Vec<&'p Package>> {
    let mut set: Vec<&Package> = added.to_vec();
    for (at, one) in added.iter().enumerate() {
        let twice = added[at + 1..].iter().any(|other| other.name == one.name);
        let back = installed.iter().any(|old| old.name == one.name && old.version >= one.version);
        if twice || back {
            return None;
        }
    }
    set.extend(installed.iter().filter(|old| !added.iter().any(|one| one.name == old.name)));
    Some(set)
}

/// Whether all holds that held before or came anew.
fn is_no_worse(family: Family, installed: &[Package], set: Vec<&Package>) -> bool {
    let before = Judge { family, set: installed.iter().collect() };
    let now = Judge { family, set };
    now.set.iter().all(|package| {
        let relations = package.relations().unwrap();
        let is_old = installed.contains(package);
        let needs = |need: &Requirement| now.holds(need, None) || (is_old && !before.holds(need, None));
        // What stood beside it before may stay; nothing else that it cannot stand may come.
        let against = |one: &Requirement| {
            let mut hits = now.set.iter().filter(|other| *other != package && now.one_is(other, one));
            hits.all(|other| is_old && installed.contains(other))
        };
        relations.requires.iter().all(needs) && relations.conflicts.iter().all(against)
    })
}

fn agrees_over(
    family: Family,
    packages: &[Package],
    installed: &[Package],
    roots: &[usize],
) -> Result<(), TestCaseError> {
    let there = |name: &str| packages.iter().chain(installed).any(|one| &*one.name == name);
    let names: Vec<&str> = roots.iter().map(|at| NAMES[*at]).filter(|name| there(name)).collect();
    let wanted: Vec<Root> = names.iter().map(|name| Root::named(*name)).collect();
    let pool = Pool::new(family, "any", repos(), packages.to_vec());
    let baseline = Baseline { packages: installed.to_vec(), ..Baseline::default() };
    let solved = solve(&pool, &wanted, &baseline);
    let right = |added: &[&Package]| {
        after(installed, added).is_some_and(|set| {
            names.iter().all(|name| set.iter().any(|one| Judge { family, set: Vec::new() }.is(one, &any_version(name))))
                && is_no_worse(family, installed, set)
        })
    };
    let possible = (0_u32..1 << packages.len()).any(|bits| {
        let added = packages.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0).map(|(_, one)| one);
        right(&added.collect::<Vec<_>>())
    });
    if let Ok(closure) = &solved {
        let added: Vec<&Package> = closure.packages.iter().map(|one| pool.package(one.package)).collect();
        prop_assert!(right(&added), "{:?}", added);
    }
    prop_assert_eq!(solved.is_ok(), possible, "{:?}", solved);
    Ok(())
}

fn any_version(name: &str) -> kubexm_packages::model::Constraint {
    kubexm_packages::model::Constraint {
        name: name.into(),
        arch: kubexm_packages::model::ArchWanted::Own,
        version: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1500), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn over_what_is_installed_an_answer_is_found_where_there_is_one_and_a_right_one(
        ((packages, roots), (installed, _)) in (universe(Deb), universe(Deb))
    ) {
        let mut installed = installed;
        installed.truncate(3);
        // One version of a name.
        installed.dedup_by(|one, other| one.name == other.name);
        agrees_over(Deb, &packages, &installed, &roots)?;
    }
}
