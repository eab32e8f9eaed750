//! What a node has installed in an older version than the bundle has it, and which of that can be upgraded. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_packages::family::compare;
use kubexm_packages::model::{Comparison, Package};
use kubexm_packages::solve::{Root, node_upgrade};
use kubexm_plan::Facts;
use kubexm_spec::PackageRole;
use kubexm_spec::cluster::OsPackages;

use super::carried::{CarriedSet, system_name};
use super::missing_roots::installed_of;
use super::node::{NodePackages, Part, Upgrade, add_bundle_files, as_wanted};
use crate::context::PlanContext;

/// The most reasons that are reported for one node: it may say anything of itself.
const REPORTED: usize = 20;

/// Installed packages of which the bundle has a newer version.
#[derive(Debug, Default)]
pub struct OlderPackages<'a> {
    /// The upgrades, with what is new for them; none if there is nothing to do.
    pub planned: Option<NodePackages<'a>>,
    /// What stays as it is, and why; one sentence each.
    pub kept: Vec<String>,
}

/// Those of a host; `gone`: the same run removes these before.
///
/// # Errors
/// The bundle has no packages for it, or its list cannot be read.
pub fn older<'a>(cx: &PlanContext<'a>, facts: &Facts, gone: &BTreeSet<&str>) -> Result<OlderPackages<'a>, String> {
    if cx.cluster.system.os_packages == OsPackages::None {
        return Err("cluster.yaml says `osPackages: none`".to_owned());
    }
    let Some(carried) = cx.packages.of_system(facts) else {
        let os = system_name(facts);
        return Err(match cx.packages.sets.is_empty() {
            true => format!("the bundle has no packages; name {os} in bundle.os of cluster.yaml, and build it again"),
            false => format!("the bundle has packages for {} and none for {os}", cx.packages.describe()),
        });
    };
    let list = facts.packages.as_ref().ok_or("neither dpkg nor rpm is present")?;
    let (mut installed, cut_off) = installed_of(list, carried)?;
    installed.packages.retain(|package| !gone.contains(&*package.name));
    let mut found = OlderPackages::default();
    let mut apart = of_balancers(carried);
    let mut roots = Vec::new();
    let exactly = |package: &Package| {
        let version = Some((Comparison::Equal, package.version.clone()));
        Root { name: package.name.clone(), version }
    };
    for (package, newer) in outdated(carried, &installed.packages) {
        let (name, to) = (&package.name, &newer.version);
        if installed.held.contains(name) {
            found.kept.push(format!("{name} {} is held; the bundle has {to}", package.version));
        } else if apart.contains(name) {
            found.kept.push(format!("{name} {} is a load balancer's, and is not upgraded here", package.version));
        } else if is_kernel(name) {
            found
                .kept
                .push(format!("{name} {} is a kernel's, and takes a reboot; the bundle has {to}", package.version));
        } else {
            roots.push(exactly(newer));
        }
    }
    // What an interrupted upgrade has left half there is in no baseline, and comes whole.
    let half = cut_off.keys().filter(|name| !installed.packages.iter().any(|package| package.name == **name));
    let half = half.filter(|name| !installed.held.contains(*name) && !apart.contains(*name) && !is_kernel(name));
    roots.extend(half.filter_map(|name| carried.package(name)).map(exactly));
    // Nothing that is upgraded takes one of these with it.
    installed.held.append(&mut apart);
    add_bundle_files(&mut installed, carried);
    let (chosen, left) = node_upgrade(&carried.pool, &roots, &installed);
    found.kept.extend(left.into_iter().map(|(root, why)| format!("{} stays as it is: {why}", root.name)));
    shorten(&mut found.kept);
    let (mut upgrades, mut part) = (Vec::new(), Part::default());
    for one in &chosen {
        let package = carried.pool.package(one.package);
        let half = cut_off.get(&package.name).map(|half| &**half);
        let half = half.filter(|half| compare(carried.profile.family, &package.version, half).is_gt());
        let from = one.replaces.as_deref().or(half);
        part.packages.insert(package.name.to_string(), as_wanted(package, from.is_some()));
        upgrades.extend(from.map(|from| Upgrade {
            name: package.name.to_string(),
            from: from.to_string(),
            to: package.version.to_string(),
        }));
    }
    upgrades.sort_by(|one, other| one.name.cmp(&other.name));
    found.planned = (!part.packages.is_empty()).then(|| NodePackages {
        carried,
        to_install: Vec::new(),
        conflicts: Vec::new(),
        upgrades,
        irreversible: Some(part),
        restorable: None,
        restored_differently: Vec::new(),
        cut_off: cut_off.into_keys().map(String::from).collect(),
        held: Vec::new(),
    });
    Ok(found)
}

/// Packages of which the bundle has a newer version than the newest that is installed, each with the bundle's; by name.
fn outdated<'p>(carried: &'p CarriedSet, installed: &'p [Package]) -> Vec<(&'p Package, &'p Package)> {
    let compare = |one: &Package, other: &Package| compare(carried.profile.family, &one.version, &other.version);
    let mut newest: BTreeMap<&str, (&Package, &Package)> = BTreeMap::new();
    for package in installed {
        let Some(same) = carried.package(&package.name).filter(|same| is_one(same, package)) else { continue };
        let known = newest.entry(&package.name).or_insert((package, same));
        if compare(known.0, package).is_lt() {
            known.0 = package;
        }
    }
    newest.into_values().filter(|(installed, same)| compare(same, installed).is_gt()).collect()
}

/// Whether one may take the place of the other: of a foreign architecture it is another package.
fn is_one(one: &Package, other: &Package) -> bool {
    one.arch == other.arch || [one, other].iter().any(|package| matches!(&*package.arch, "all" | "noarch"))
}

/// Packages of load balancers: two of them must not restart at the same time.
fn of_balancers(carried: &CarriedSet) -> BTreeSet<Box<str>> {
    let role = |role| matches!(role, PackageRole::Keepalived | PackageRole::Haproxy | PackageRole::Nginx);
    let roots = carried.set.roots.iter().filter(|root| role(root.role));
    roots.flat_map(|root| &root.packages).map(|name| name.as_str().into()).collect()
}

/// Whether a package is of a kernel, by the names of both families.
fn is_kernel(name: &str) -> bool {
    ["kernel", "linux-image", "linux-modules"].iter().any(|begin| name.starts_with(begin))
}

/// The first of the reasons, and how many more there are.
fn shorten(kept: &mut Vec<String>) {
    let more = kept.len().saturating_sub(REPORTED);
    kept.truncate(REPORTED);
    if more > 0 {
        kept.push(format!("{more} more packages stay as they are"));
    }
}
