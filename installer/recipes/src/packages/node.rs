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
use super::lacking::{NothingComes, Wanted, lacking};
use crate::context::PlanCx;

/// The packages to install on a host. Nothing is downgraded, and only what is in `replaced` is removed.
#[derive(Debug)]
pub struct NodePackages<'a> {
    /// The package set of the bundle.
    pub carried: &'a CarriedSet,
    /// Roots that will be installed, by [`PackageRoot::name`].
    pub coming: Vec<&'a PackageRoot>,
    /// Roots that conflict with installed packages.
    pub conflicts: Vec<Conflict<'a>>,
    /// Upgrades, by name.
    pub upgrades: Vec<Upgrade>,
    /// The part that cannot be rolled back, with its dependencies; none if everything can. Installed first.
    pub for_good: Option<Part>,
    /// The part that can be rolled back.
    pub restorable: Option<Part>,
    /// Packages to remove whose version is not in the bundle, so that a rollback installs another version: name,
    /// version.
    pub leaves_for_good: Vec<(String, String)>,
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
    /// The installed packages.
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
        self.for_good.iter().chain(&self.restorable)
    }

    /// All packages to install, with the metadata of the bundle's packages.
    pub fn carried_packages(&self) -> impl Iterator<Item = &Package> {
        self.packages().filter_map(|(name, _)| self.carried.package(name))
    }

    /// Whether a program is installed by it.
    pub fn brings(&self, program: &str) -> bool {
        self.coming.iter().any(|root| root.commands.iter().any(|command| command == program))
    }
}

/// Resolves what a host is missing against what it has; none if nothing is to be installed.
pub fn of_host<'a>(cx: &PlanCx<'a>, host: &str, facts: &Facts) -> Result<Option<NodePackages<'a>>, NothingComes> {
    Ok(lacking(cx, host, facts)?.and_then(planned))
}

fn planned(wanted: Wanted<'_>) -> Option<NodePackages<'_>> {
    let Wanted { carried, roots, mut installed, cut_off } = wanted;
    know_files(&mut installed, carried);
    let Replacing { plan, leaving, lacking } = with_replacing(carried, &roots, &mut installed);
    let standing = |root: &PackageRoot| {
        let of = |name: &String| plan.roots.iter().find(|(one, _)| *one.name == **name).map(|(_, standing)| standing);
        root.packages.iter().filter_map(of).collect::<Vec<_>>()
    };
    let (mut coming, mut conflicts) = (Vec::new(), Vec::new());
    for root in &roots {
        let standings = standing(root);
        let why = standings.iter().find_map(|standing| match standing {
            PackageState::Conflict(unsolvable) => Some(unsolvable.to_string()),
            _ => None,
        });
        match why {
            Some(why) => conflicts.push(Conflict { root, why }),
            None if standings.iter().all(|standing| matches!(standing, PackageState::Satisfied { .. })) => {}
            None => coming.push(*root),
        }
    }
    for root in roots.iter().filter(|root| !lacking.is_empty() && leaving.iter().any(|(_, one)| one.name == root.name))
    {
        coming.retain(|one| one.name != root.name);
        let gone: Vec<&str> = leaving.iter().map(|(package, _)| &*package.name).collect();
        let why = format!("{} would have to be removed for it, and {}", gone.join(", "), lacking.join(", "));
        conflicts.push(Conflict { root, why });
    }
    let mut leaves_for_good = Vec::new();
    let mut replaced: BTreeMap<String, WantedPackage> = BTreeMap::new();
    for (package, root) in leaving {
        match carried.package(&package.name) {
            Some(same) => {
                if same.version != package.version {
                    leaves_for_good.push((package.name.to_string(), package.version.to_string()));
                }
                replaced.insert(package.name.to_string(), as_wanted(same, false));
            }
            None => {
                coming.retain(|one| one.name != root.name);
                let why = format!(
                    "{} would have to be removed for it, and the bundle does not contain {0}: there would be no \
                     rollback",
                    package.name
                );
                conflicts.push(Conflict { root, why });
            }
        }
    }
    if coming.is_empty() && conflicts.is_empty() {
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
    let replacers = coming.iter().filter(|root| !root.replaces.is_empty());
    let replacing: BTreeSet<&str> = replacers.flat_map(|root| &root.packages).map(String::as_str).collect();
    // A removed package is restored on rollback, even in the bundle's version: a host without a time service would
    // differ more from before.
    let unrestorable: BTreeSet<&str> = upgrades.iter().map(|upgrade| upgrade.name.as_str()).collect();
    let (for_good, restorable) = split(carried, &installed, all, (replaced, &replacing), &unrestorable);
    let held = installed.held.iter().map(ToString::to_string).collect();
    let cut_off = cut_off.into_keys().map(String::from).collect();
    Some(NodePackages { carried, coming, conflicts, upgrades, for_good, restorable, leaves_for_good, cut_off, held })
}

/// The facts have only the paths that an index would list. An installed package also gets those of the bundle's package of its
/// name, so that it satisfies a dependency on such a path.
fn know_files(installed: &mut Baseline, carried: &CarriedSet) {
    for package in &mut installed.packages {
        if let Some(same) = carried.package(&package.name) {
            package.files.extend(same.files.iter().cloned());
            package.files.sort_unstable();
            package.files.dedup();
        }
    }
}

/// A solution in which some packages are removed for others.
struct Replacing<'a> {
    plan: NodePlan,
    /// Packages to remove, each with the root that replaces it.
    leaving: Vec<(Package, &'a PackageRoot)>,
    /// Installed packages that would miss a dependency: `gnome 1 needs systemd-timesyncd`.
    lacking: Vec<String>,
}

/// Solves; if a root conflicts with a package that it is meant to replace, that package is removed from `installed`
/// first.
fn with_replacing<'a>(carried: &CarriedSet, roots: &[&'a PackageRoot], installed: &mut Baseline) -> Replacing<'a> {
    let names = roots.iter().flat_map(|root| &root.packages).map(String::as_str);
    let wanted: Vec<Root> = names.map(Root::named).collect();
    let nothing = BTreeMap::new();
    let plan = node_plan(&carried.pool, &wanted, installed, &nothing);
    let stuck = |root: &&&PackageRoot| {
        let conflict = |(one, standing): &(Root, PackageState)| {
            root.packages.iter().any(|name| **name == *one.name) && matches!(standing, PackageState::Conflict(_))
        };
        !root.replaces.is_empty() && plan.roots.iter().any(conflict)
    };
    let mut leaving: Vec<(Package, &PackageRoot)> = Vec::new();
    for root in roots.iter().filter(stuck) {
        let leaves = |package: &&Package| root.replaces.iter().any(|name| **name == *package.name);
        leaving.extend(installed.packages.iter().filter(leaves).map(|package| (package.clone(), *root)));
    }
    if leaving.is_empty() {
        return Replacing { plan, leaving, lacking: Vec::new() };
    }
    let mut without = installed.clone();
    without.packages.retain(|package| !leaving.iter().any(|(gone, _)| gone.name == package.name));
    let replacing = node_plan(&carried.pool, &wanted, &without, &nothing);
    let possible = |root: &PackageRoot| {
        let mut all = replacing.roots.iter().filter(|(one, _)| root.packages.iter().any(|name| **name == *one.name));
        all.all(|(_, standing)| !matches!(standing, PackageState::Conflict(_)))
    };
    // It was not the cause of the conflict.
    if !leaving.iter().all(|(_, root)| possible(root)) {
        return Replacing { plan, leaving: Vec::new(), lacking: Vec::new() };
    }
    let lacking = left_lacking(&carried.pool, installed, &without, &replacing);
    *installed = without;
    Replacing { plan: replacing, leaving, lacking }
}

/// Splits into what cannot be rolled back, with all its dependencies, and the rest. If the dependencies solved alone
/// are not a subset of those solved together, everything is one step. Removed packages belong to the part of the
/// packages that replace them.
fn split(
    carried: &CarriedSet,
    installed: &Baseline,
    all: BTreeMap<String, WantedPackage>,
    (replaced, replacing): (BTreeMap<String, WantedPackage>, &BTreeSet<&str>),
    for_good: &BTreeSet<&str>,
) -> (Option<Part>, Option<Part>) {
    let some = |part: Part| (!part.packages.is_empty()).then_some(part);
    if for_good.is_empty() {
        return (None, some(Part { packages: all, replaced }));
    }
    let Some(first) = alone(carried, installed, &all, for_good) else {
        return (some(Part { packages: all, replaced }), None);
    };
    let (packages, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
        all.into_iter().partition(|(name, _)| first.contains(name));
    let (mut for_good, mut restorable) = (Part::default(), Part::default());
    let later = rest.keys().any(|name| replacing.contains(name.as_str()));
    (if later { &mut restorable } else { &mut for_good }).replaced = replaced;
    for_good.packages = packages;
    restorable.packages = rest;
    (some(for_good), some(restorable))
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

fn as_wanted(package: &Package, upgrade: bool) -> WantedPackage {
    WantedPackage {
        version: package.version.to_string(),
        arch: package.arch.to_string(),
        file: package.location.to_string(),
        blob: package.digest,
        upgrade,
    }
}
