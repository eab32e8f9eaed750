//! The package changes that a host needs for its roots, split into those that can be rolled back and those that cannot.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_packages::family::compare;
use kubexm_packages::model::{Comparison, Package};
use kubexm_packages::solve::{
    Baseline, Chosen, NodePlan, PackageId, PackageState, Root, left_lacking, node_plan, solve,
};
use kubexm_plan::Facts;
use kubexm_plan::op::WantedPackage;
use kubexm_spec::lock::PackageRoot;

use super::carried::CarriedSet;
use super::missing_roots::{CannotInstall, MissingRoots, missing_roots};
use crate::context::PlanContext;

/// The packages to install on a host. Nothing is downgraded, and only what is in `replaced` is removed.
#[derive(Debug)]
pub struct NodePackages<'a> {
    /// The package set of the bundle.
    pub carried: &'a CarriedSet,
    /// Roots that will be installed, by [`PackageRoot::name`].
    pub to_install: Vec<&'a PackageRoot>,
    /// Roots that conflict with installed packages.
    pub conflicts: Vec<Conflict<'a>>,
    /// Upgrades, by name.
    pub upgrades: Vec<Upgrade>,
    /// The part that cannot be rolled back, with its dependencies; none if everything can. Installed first.
    pub irreversible: Option<Part>,
    /// The part that can be rolled back.
    pub restorable: Option<Part>,
    /// Packages to remove (name, installed version) of which the bundle has another version, which a rollback installs.
    pub restored_differently: Vec<(String, String)>,
    /// Packages whose earlier installation was interrupted.
    pub cut_off: Vec<String>,
    /// Packages that the administrator holds at their version.
    pub held: Vec<String>,
}

/// Packages that are installed in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// By name.
    pub packages: BTreeMap<String, WantedPackage>,
    /// Packages that they replace, as in the bundle.
    pub replaced: BTreeMap<String, WantedPackage>,
}

/// A root that cannot be installed.
#[derive(Debug)]
pub struct Conflict<'a> {
    pub root: &'a PackageRoot,
    /// Why, in full sentences.
    pub why: String,
}

/// A package that replaces an older version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    pub name: String,
    /// The installed version.
    pub from: String,
    pub to: String,
}

impl NodePackages<'_> {
    /// All packages to install.
    pub fn packages(&self) -> impl Iterator<Item = (&String, &WantedPackage)> {
        self.parts().flat_map(|part| &part.packages)
    }

    /// All packages to remove.
    pub fn replaced(&self) -> impl Iterator<Item = (&String, &WantedPackage)> {
        self.parts().flat_map(|part| &part.replaced)
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.irreversible.iter().chain(&self.restorable)
    }

    /// All packages to install, with the metadata of the bundle's packages.
    pub fn carried_packages(&self) -> impl Iterator<Item = &Package> {
        self.packages().filter_map(|(name, _)| self.carried.package(name))
    }

    /// Whether a program is installed by it.
    pub fn brings(&self, program: &str) -> bool {
        self.to_install.iter().any(|root| root.commands.iter().any(|command| command == program))
    }
}

/// Resolves what a host is missing against what it has; none if nothing is to be installed.
pub fn of_host<'a>(cx: &PlanContext<'a>, host: &str, facts: &Facts) -> Result<Option<NodePackages<'a>>, CannotInstall> {
    Ok(missing_roots(cx, host, facts)?.and_then(planned))
}

fn planned(wanted: MissingRoots<'_>) -> Option<NodePackages<'_>> {
    let MissingRoots { carried, roots, mut installed, cut_off } = wanted;
    add_bundle_files(&mut installed, carried);
    let Replacement { plan, to_remove, missing } = solve_replacing(carried, &roots, &mut installed);
    let state = |root: &PackageRoot| {
        let of = |name: &String| plan.roots.iter().find(|(one, _)| *one.name == **name).map(|(_, state)| state);
        root.packages.iter().filter_map(of).collect::<Vec<_>>()
    };
    let (mut to_install, mut conflicts) = (Vec::new(), Vec::new());
    for root in &roots {
        let states = state(root);
        let why = states.iter().find_map(|state| match state {
            PackageState::Conflict(unsolvable) => Some(unsolvable.to_string()),
            _ => None,
        });
        match why {
            Some(why) => conflicts.push(Conflict { root, why }),
            None if states.iter().all(|state| matches!(state, PackageState::Satisfied { .. })) => {}
            None => to_install.push(*root),
        }
    }
    for root in
        roots.iter().filter(|root| !missing.is_empty() && to_remove.iter().any(|(_, one)| one.name == root.name))
    {
        to_install.retain(|one| one.name != root.name);
        let removed: Vec<&str> = to_remove.iter().map(|(package, _)| &*package.name).collect();
        let why = format!("{} would have to be removed for it, and {}", removed.join(", "), missing.join(", "));
        conflicts.push(Conflict { root, why });
    }
    let mut restored_differently = Vec::new();
    let mut replaced: BTreeMap<String, WantedPackage> = BTreeMap::new();
    for (package, root) in to_remove {
        match carried.package(&package.name) {
            Some(same) => {
                if same.version != package.version {
                    restored_differently.push((package.name.to_string(), package.version.to_string()));
                }
                replaced.insert(package.name.to_string(), as_wanted(same, false));
            }
            None => {
                to_install.retain(|one| one.name != root.name);
                let why = format!(
                    "{} would have to be removed for it, and the bundle does not contain {0}: it could not be rolled \
                     back",
                    package.name
                );
                conflicts.push(Conflict { root, why });
            }
        }
    }
    if to_install.is_empty() && conflicts.is_empty() {
        return None;
    }
    let package = |id: PackageId| carried.pool.package(id);
    // Upgrades, also of packages that are only half installed.
    let older = |chosen: &Chosen| {
        let package = package(chosen.package);
        let half =
            cut_off.get(&package.name).filter(|half| compare(carried.profile.family, &package.version, half).is_gt());
        chosen.replaces.as_deref().or(half.map(|half| &**half)).map(str::to_owned)
    };
    let mut upgrades: Vec<Upgrade> = Vec::new();
    let mut all: BTreeMap<String, WantedPackage> = BTreeMap::new();
    for chosen in plan.install.iter().chain(&plan.upgrade) {
        let (package, from) = (package(chosen.package), older(chosen));
        all.insert(package.name.to_string(), as_wanted(package, from.is_some()));
        let to = package.version.to_string();
        upgrades.extend(from.map(|from| Upgrade { name: package.name.to_string(), from, to }));
    }
    upgrades.sort_by(|one, other| one.name.cmp(&other.name));
    let replacers = to_install.iter().filter(|root| !root.replaces.is_empty());
    let replacing: BTreeSet<&str> = replacers.flat_map(|root| &root.packages).map(String::as_str).collect();
    // A removed package is restored on rollback, even in the bundle's version: a host without a time service would
    // differ more from before.
    let unrestorable: BTreeSet<&str> = upgrades.iter().map(|upgrade| upgrade.name.as_str()).collect();
    let (irreversible, restorable) = split(carried, &installed, all, (replaced, &replacing), &unrestorable);
    let held = installed.held.iter().map(ToString::to_string).collect();
    let cut_off = cut_off.into_keys().map(String::from).collect();
    Some(NodePackages {
        carried,
        to_install,
        conflicts,
        upgrades,
        irreversible,
        restorable,
        restored_differently,
        cut_off,
        held,
    })
}

/// Adds to each installed package the files of the bundle's package of the same name, so that it satisfies a dependency
/// on a path: the facts have only the paths that a repository's index lists.
pub(super) fn add_bundle_files(installed: &mut Baseline, carried: &CarriedSet) {
    for package in &mut installed.packages {
        if let Some(same) = carried.package(&package.name) {
            package.files.extend(same.files.iter().cloned());
            package.files.sort_unstable();
            package.files.dedup();
        }
    }
}

/// A solution in which some packages are removed for others.
struct Replacement<'a> {
    plan: NodePlan,
    /// Packages to remove, each with the root that replaces it.
    to_remove: Vec<(Package, &'a PackageRoot)>,
    /// Installed packages that would lose a dependency: `gnome 1 needs systemd-timesyncd`.
    missing: Vec<String>,
}

/// Solves; if a root conflicts with a package that it is meant to replace, that package is removed from `installed`
/// first.
fn solve_replacing<'a>(carried: &CarriedSet, roots: &[&'a PackageRoot], installed: &mut Baseline) -> Replacement<'a> {
    let names = roots.iter().flat_map(|root| &root.packages).map(String::as_str);
    let wanted: Vec<Root> = names.map(Root::named).collect();
    let nothing = BTreeMap::new();
    let plan = node_plan(&carried.pool, &wanted, installed, &nothing);
    let blocked = |root: &&&PackageRoot| {
        let conflict = |(one, state): &(Root, PackageState)| {
            root.packages.iter().any(|name| **name == *one.name) && matches!(state, PackageState::Conflict(_))
        };
        !root.replaces.is_empty() && plan.roots.iter().any(conflict)
    };
    let mut to_remove: Vec<(Package, &PackageRoot)> = Vec::new();
    for root in roots.iter().filter(blocked) {
        let leaves = |package: &&Package| root.replaces.iter().any(|name| **name == *package.name);
        to_remove.extend(installed.packages.iter().filter(leaves).map(|package| (package.clone(), *root)));
    }
    if to_remove.is_empty() {
        return Replacement { plan, to_remove, missing: Vec::new() };
    }
    let mut without = installed.clone();
    without.packages.retain(|package| !to_remove.iter().any(|(removed, _)| removed.name == package.name));
    let replacing = node_plan(&carried.pool, &wanted, &without, &nothing);
    let possible = |root: &PackageRoot| {
        let mut all = replacing.roots.iter().filter(|(one, _)| root.packages.iter().any(|name| **name == *one.name));
        all.all(|(_, state)| !matches!(state, PackageState::Conflict(_)))
    };
    // The packages to replace were not the cause of the conflict.
    if !to_remove.iter().all(|(_, root)| possible(root)) {
        return Replacement { plan, to_remove: Vec::new(), missing: Vec::new() };
    }
    let missing = left_lacking(&carried.pool, installed, &without, &replacing);
    *installed = without;
    Replacement { plan: replacing, to_remove, missing }
}

/// Splits into what cannot be rolled back, with all its dependencies, and the rest. If the dependencies solved alone
/// are not a subset of those solved together, everything is one step. Removed packages belong to the part of the
/// packages that replace them.
fn split(
    carried: &CarriedSet,
    installed: &Baseline,
    all: BTreeMap<String, WantedPackage>,
    (replaced, replacing): (BTreeMap<String, WantedPackage>, &BTreeSet<&str>),
    irreversible: &BTreeSet<&str>,
) -> (Option<Part>, Option<Part>) {
    let some = |part: Part| (!part.packages.is_empty()).then_some(part);
    if irreversible.is_empty() {
        return (None, some(Part { packages: all, replaced }));
    }
    let Some(first) = alone(carried, installed, &all, irreversible) else {
        return (some(Part { packages: all, replaced }), None);
    };
    let (packages, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
        all.into_iter().partition(|(name, _)| first.contains(name));
    let (mut irreversible, mut restorable) = (Part::default(), Part::default());
    let later = rest.keys().any(|name| replacing.contains(name.as_str()));
    (if later { &mut restorable } else { &mut irreversible }).replaced = replaced;
    irreversible.packages = packages;
    restorable.packages = rest;
    (some(irreversible), some(restorable))
}

/// Names of all dependencies of some packages solved alone; none if they are not a subset of `all`.
fn alone(
    carried: &CarriedSet,
    installed: &Baseline,
    all: &BTreeMap<String, WantedPackage>,
    of: &BTreeSet<&str>,
) -> Option<BTreeSet<String>> {
    let exact = |(name, package): (&String, &WantedPackage)| Root {
        name: name.as_str().into(),
        version: Some((Comparison::Equal, package.version.as_str().into())),
    };
    let roots: Vec<Root> = all.iter().filter(|(name, _)| of.contains(name.as_str())).map(exact).collect();
    let closure = solve(&carried.pool, &roots, installed).ok()?;
    let names = closure.packages.iter().map(|chosen| {
        let package = carried.pool.package(chosen.package);
        all.get(&*package.name).filter(|same| *same.version == *package.version).map(|_| package.name.to_string())
    });
    names.collect()
}

pub(super) fn as_wanted(package: &Package, upgrade: bool) -> WantedPackage {
    WantedPackage {
        version: package.version.to_string(),
        arch: package.arch.to_string(),
        file: package.location.to_string(),
        blob: package.digest,
        upgrade,
    }
}
