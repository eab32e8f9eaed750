//! What a host would have to do for its roots, and in which parts: what can be taken back apart from what cannot.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_packages::model::{Comparison, Package};
use kubexm_packages::solve::{Baseline, NodePlan, PackageId, Root, Standing, node_plan, solve};
use kubexm_plan::Facts;
use kubexm_plan::op::WantedPackage;
use kubexm_spec::lock::PackageRoot;

use super::carried::CarriedSet;
use super::lacking::{Lacking, Wanted, lacking};
use crate::context::PlanCx;

/// How a host stands.
#[derive(Debug)]
pub enum HostPackages<'a> {
    /// Nothing is lacking, or nothing is to be installed.
    Nothing,
    /// See [`Lacking::NoSet`].
    NoSet {
        /// The system.
        os: String,
        /// What it lacks.
        lacks: Vec<String>,
    },
    /// See [`Lacking::Unreadable`].
    Unreadable {
        /// What it lacks.
        lacks: Vec<String>,
        /// In the words of who was asked.
        why: String,
    },
    /// Something comes, or would come and cannot.
    Planned(Box<NodePackages<'a>>),
}

/// What comes to a host. Nothing is made older, and nothing leaves but what stands in `replaced`.
#[derive(Debug)]
pub struct NodePackages<'a> {
    /// Where it comes from.
    pub carried: &'a CarriedSet,
    /// Roots that are not there and come, by [`PackageRoot::name`].
    pub coming: Vec<&'a PackageRoot>,
    /// What cannot come beside what is there.
    pub conflicts: Vec<Conflict<'a>>,
    /// What takes the place of an older version, by name.
    pub upgrades: Vec<Upgrade>,
    /// What cannot be taken back, with what it needs; none where all can. It comes first.
    pub for_good: Option<Part>,
    /// What can be taken back.
    pub restorable: Option<Part>,
    /// What leaves in a version that the bundle does not have, so that another one would be put back: name, version.
    pub leaves_for_good: Vec<(String, String)>,
    /// Packages of which an earlier installation was cut off.
    pub cut_off: Vec<String>,
    /// What the administrator holds at its version.
    pub held: Vec<String>,
}

/// Packages that come in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// By name.
    pub packages: BTreeMap<String, WantedPackage>,
    /// What leaves for their sake, as the bundle carries it.
    pub replaced: BTreeMap<String, WantedPackage>,
}

/// A root that cannot come.
#[derive(Debug)]
pub struct Conflict<'a> {
    /// Which.
    pub root: &'a PackageRoot,
    /// Why, in sentences.
    pub why: String,
}

/// A package that takes the place of an older version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// Which.
    pub name: String,
    /// What is installed.
    pub from: String,
    /// What comes.
    pub to: String,
}

impl NodePackages<'_> {
    /// Everything that comes.
    pub fn packages(&self) -> impl Iterator<Item = (&String, &WantedPackage)> {
        self.parts().flat_map(|part| &part.packages)
    }

    /// Everything that leaves.
    pub fn replaced(&self) -> impl Iterator<Item = (&String, &WantedPackage)> {
        self.parts().flat_map(|part| &part.replaced)
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.for_good.iter().chain(&self.restorable)
    }

    /// Everything that comes, as the bundle's packages describe themselves.
    pub fn carried_packages(&self) -> impl Iterator<Item = &Package> {
        self.packages().filter_map(|(name, _)| self.carried.package(name))
    }

    /// Whether a program comes with it.
    pub fn brings(&self, program: &str) -> bool {
        self.coming.iter().any(|root| root.commands.iter().any(|command| command == program))
    }
}

impl<'a> HostPackages<'a> {
    /// What comes, where something does.
    pub fn planned(&self) -> Option<&NodePackages<'a>> {
        match self {
            Self::Planned(planned) => Some(planned),
            _ => None,
        }
    }
}

/// Solves what a host lacks over what it has.
pub fn of_host<'a>(cx: &PlanCx<'a>, host: &str, facts: &Facts) -> HostPackages<'a> {
    match lacking(cx, host, facts) {
        Lacking::Nothing => HostPackages::Nothing,
        Lacking::NoSet { os, lacks } => HostPackages::NoSet { os, lacks },
        Lacking::Unreadable { lacks, why } => HostPackages::Unreadable { lacks, why },
        Lacking::Roots(wanted) => match planned(wanted) {
            None => HostPackages::Nothing,
            Some(planned) => HostPackages::Planned(Box::new(planned)),
        },
    }
}

fn planned(wanted: Wanted<'_>) -> Option<NodePackages<'_>> {
    let Wanted { carried, roots, mut installed, cut_off } = wanted;
    know_files(&mut installed, carried);
    let (plan, leaving) = with_replacing(carried, &roots, &mut installed);
    let standing = |root: &PackageRoot| {
        let of = |name: &String| plan.roots.iter().find(|(one, _)| *one.name == **name).map(|(_, standing)| standing);
        root.packages.iter().filter_map(of).collect::<Vec<_>>()
    };
    let (mut coming, mut conflicts) = (Vec::new(), Vec::new());
    for root in &roots {
        let standings = standing(root);
        let why = standings.iter().find_map(|standing| match standing {
            Standing::Conflict(unsolvable) => Some(unsolvable.to_string()),
            _ => None,
        });
        match why {
            Some(why) => conflicts.push(Conflict { root, why }),
            None if standings.iter().all(|standing| matches!(standing, Standing::Satisfied { .. })) => {}
            None => coming.push(*root),
        }
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
                    "{} would have to leave for it, and the bundle does not carry {0}: there would be no way back",
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
    let upgrades = plan.upgrade.iter().map(|chosen| {
        let package = package(chosen.package);
        let from = chosen.replaces.as_deref().unwrap_or_default().to_owned();
        Upgrade { name: package.name.to_string(), from, to: package.version.to_string() }
    });
    let upgrades: Vec<Upgrade> = upgrades.collect();
    let mut all: BTreeMap<String, WantedPackage> = BTreeMap::new();
    let install = plan.install.iter().map(|one| (one, false));
    for (chosen, upgrade) in install.chain(plan.upgrade.iter().map(|one| (one, true))) {
        let package = package(chosen.package);
        all.insert(package.name.to_string(), as_wanted(package, upgrade));
    }
    let replacers = coming.iter().filter(|root| !root.replaces.is_empty());
    let replacing: BTreeSet<&str> = replacers.flat_map(|root| &root.packages).map(String::as_str).collect();
    let mut unrestorable: BTreeSet<&str> = upgrades.iter().map(|upgrade| upgrade.name.as_str()).collect();
    if !leaves_for_good.is_empty() {
        unrestorable.extend(&replacing);
    }
    let (for_good, restorable) = split(carried, &installed, all, (replaced, &replacing), &unrestorable);
    let held = installed.held.iter().map(ToString::to_string).collect();
    Some(NodePackages { carried, coming, conflicts, upgrades, for_good, restorable, leaves_for_good, cut_off, held })
}

/// Of what is installed only the paths are told that an index would list. A package has those, too, that the carried one of its
/// name has: what needs such a path is satisfied by it.
fn know_files(installed: &mut Baseline, carried: &CarriedSet) {
    for package in &mut installed.packages {
        if let Some(same) = carried.package(&package.name) {
            package.files.extend(same.files.iter().cloned());
            package.files.sort_unstable();
            package.files.dedup();
        }
    }
}

/// The plan; where a root stands against something that it is meant to take the place of, without that. What leaves is no longer
/// in `installed` then.
fn with_replacing<'a>(
    carried: &CarriedSet,
    roots: &[&'a PackageRoot],
    installed: &mut Baseline,
) -> (NodePlan, Vec<(Package, &'a PackageRoot)>) {
    let names = roots.iter().flat_map(|root| &root.packages).map(String::as_str);
    let wanted: Vec<Root> = names.map(Root::named).collect();
    let nothing = BTreeMap::new();
    let plan = node_plan(&carried.pool, &wanted, installed, &nothing);
    let stuck = |root: &&&PackageRoot| {
        let conflict = |(one, standing): &(Root, Standing)| {
            root.packages.iter().any(|name| **name == *one.name) && matches!(standing, Standing::Conflict(_))
        };
        !root.replaces.is_empty() && plan.roots.iter().any(conflict)
    };
    let mut leaving: Vec<(Package, &PackageRoot)> = Vec::new();
    for root in roots.iter().filter(stuck) {
        let leaves = |package: &&Package| root.replaces.iter().any(|name| **name == *package.name);
        leaving.extend(installed.packages.iter().filter(leaves).map(|package| (package.clone(), *root)));
    }
    if leaving.is_empty() {
        return (plan, leaving);
    }
    let mut without = installed.clone();
    without.packages.retain(|package| !leaving.iter().any(|(gone, _)| gone.name == package.name));
    let replacing = node_plan(&carried.pool, &wanted, &without, &nothing);
    let possible = |root: &PackageRoot| {
        let mut all = replacing.roots.iter().filter(|(one, _)| root.packages.iter().any(|name| **name == *one.name));
        all.all(|(_, standing)| !matches!(standing, Standing::Conflict(_)))
    };
    // It was not what stood in the way.
    if !leaving.iter().all(|(_, root)| possible(root)) {
        return (plan, Vec::new());
    }
    *installed = without;
    (replacing, leaving)
}

/// What cannot be taken back with all that it needs, and the rest. Where what it needs alone is not a part of what it gets
/// together with the rest, all comes in one step. What leaves goes with those that it leaves for.
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

/// The names of all that some packages need by themselves; none where that is not a part of all.
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
