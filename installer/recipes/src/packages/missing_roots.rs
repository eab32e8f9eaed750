//! Which package roots a host is missing, by programs and package names, before any package of the bundle is read.

use std::collections::BTreeSet;

use kubexm_packages::solve::{Baseline, CutOff};
use kubexm_packages::{deb, rpm};
use kubexm_plan::Facts;
use kubexm_plan::facts::InstalledPackages;
use kubexm_spec::cluster::{Cluster, OsPackages};
use kubexm_spec::lock::PackageRoot;
use kubexm_spec::{Family, PackageRole, Platform};

use super::carried::{CarriedSet, family, system_name};
use crate::context::PlanContext;

/// Why the missing packages of a host cannot be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CannotInstall {
    /// The bundle has packages, but none for this host's operating system.
    NoSet {
        /// The operating system: `rocky-9`, or the ID from os-release.
        os: String,
        /// The missing packages.
        missing: Vec<String>,
    },
    /// The installed packages are not known, so nothing can be planned.
    Unreadable {
        /// The missing packages.
        missing: Vec<String>,
        /// The error of the package manager.
        why: String,
    },
}

/// Package roots to install.
#[derive(Debug)]
pub struct MissingRoots<'a> {
    /// The bundle's packages for the host.
    pub carried: &'a CarriedSet,
    /// In the order of the set.
    pub roots: Vec<&'a PackageRoot>,
    /// The installed packages.
    pub installed: Baseline,
    /// Packages whose installation was interrupted. Those that the bundle can complete are not in `installed`.
    pub cut_off: CutOff,
}

/// The roots to install on a host of the cluster; none if nothing is missing, or nothing is to be installed
/// (`osPackages: none`, a bundle without packages).
pub fn missing_roots<'a>(
    cx: &PlanContext<'a>,
    host: &str,
    facts: &Facts,
) -> Result<Option<MissingRoots<'a>>, CannotInstall> {
    let system = &cx.cluster.system;
    if system.os_packages == OsPackages::None || cx.packages.sets.is_empty() {
        return Ok(None);
    }
    let roles = roles(cx.cluster, host);
    let Some(carried) = cx.packages.of_system(facts) else {
        let missing = without_set(cx, facts, &roles);
        let platform = facts.arch.map_or_else(String::new, |arch| format!(" ({})", Platform { arch }));
        let os = system_name(facts) + &platform;
        return if missing.is_empty() { Ok(None) } else { Err(CannotInstall::NoSet { os, missing }) };
    };
    let wanted = carried.set.roots.iter().filter(|root| roles.contains(&root.role) && !root.packages.is_empty());
    let incomplete = interrupted(facts, carried);
    let by_program = |root: &&PackageRoot| {
        let complete = has_programs(facts, &root.commands)
            && !root.packages.iter().any(|name| incomplete.contains_key(name.as_str()));
        system.os_packages == OsPackages::Full || !complete
    };
    let mut missing: Vec<&PackageRoot> = wanted.filter(by_program).collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let read = match &facts.packages {
        Some(installed) => installed_of(installed, carried),
        None => Err("neither dpkg nor rpm is present".to_owned()),
    };
    let (installed, cut_off) = match read {
        Ok(read) => read,
        Err(why) => return Err(CannotInstall::Unreadable { missing: names(&missing), why }),
    };
    // Which of the interrupted packages will be installed is known only after the bundle's packages were read.
    let complete = installed.packages.iter().filter(|package| !cut_off.contains_key(&package.name));
    let present: BTreeSet<&str> = complete.map(|package| &*package.name).collect();
    missing.retain(|root| !root.packages.iter().all(|name| present.contains(name.as_str())));
    if missing.is_empty() {
        return Ok(None);
    }
    Ok(Some(MissingRoots { carried, roots: missing, installed, cut_off }))
}

/// Properties of a host that decide which packages it needs.
fn roles(cluster: &Cluster, host: &str) -> BTreeSet<PackageRole> {
    let groups = &cluster.role_groups;
    let is = |group: &[String]| group.iter().any(|name| name == host);
    let mut roles = BTreeSet::new();
    // A bundle that was built with time servers has chrony; it is not installed for a cluster.yaml without time
    // servers.
    if !cluster.system.ntp_servers.is_empty() {
        roles.insert(PackageRole::Time);
    }
    if is(&groups.control_plane) || is(&groups.worker) {
        roles.extend([PackageRole::Node, PackageRole::Ipvs, PackageRole::Nfs, PackageRole::Iscsi]);
        // Of another cluster.yaml it would run beside the cluster's own.
        if cluster.runtime.kind.is_packaged() {
            roles.insert(PackageRole::Runtime);
        }
    }
    if is(&groups.load_balancer) {
        roles.extend([PackageRole::Keepalived, PackageRole::Haproxy, PackageRole::Nginx]);
    }
    roles
}

fn names(roots: &[&PackageRoot]) -> Vec<String> {
    roots.iter().map(|root| root.name.clone()).collect()
}

/// Whether all programs that identify a root are installed.
fn has_programs(facts: &Facts, commands: &[String]) -> bool {
    let has = |name: &String| facts.programs.get(name).is_some_and(Option::is_some);
    !commands.is_empty() && commands.iter().all(has)
}

/// Packages whose installation was interrupted, though their programs may exist. A list in which every package is
/// complete is not read further; one that cannot be read counts as empty.
fn interrupted(facts: &Facts, carried: &CarriedSet) -> CutOff {
    let incomplete = |line: &str| line.strip_prefix("Status:").is_some_and(|status| !status.ends_with(" ok installed"));
    let list = facts.packages.as_ref().filter(|list| match list.family {
        Family::Deb => list.list.lines().any(incomplete),
        Family::Rpm => rpm::installed::has_twins(&list.list),
    });
    list.and_then(|list| installed_of(list, carried).ok()).map(|(_, cut_off)| cut_off).unwrap_or_default()
}

/// What a host without a package set is missing: roots whose programs it does not have, and every package that
/// cluster.yaml names for its family.
fn without_set(cx: &PlanContext<'_>, facts: &Facts, roles: &BTreeSet<PackageRole>) -> Vec<String> {
    let mut missing = Vec::new();
    // A root that is needed on one distribution is needed on every other.
    for root in cx.packages.sets.iter().flat_map(|carried| &carried.set.roots) {
        let known = root.commands.iter().any(|name| facts.programs.contains_key(name));
        if roles.contains(&root.role) && known && !has_programs(facts, &root.commands) && !missing.contains(&root.name)
        {
            missing.push(root.name.clone());
        }
    }
    if roles.contains(&PackageRole::Node) {
        match family(facts) {
            Some(Family::Deb) => missing.extend(cx.cluster.system.debs.iter().cloned()),
            Some(Family::Rpm) => missing.extend(cx.cluster.system.rpms.iter().cloned()),
            None => {}
        }
    }
    missing
}

/// The installed packages, and those whose installation was interrupted.
pub(super) fn installed_of(list: &InstalledPackages, carried: &CarriedSet) -> Result<(Baseline, CutOff), String> {
    if let Some(why) = &list.broken {
        return Err(why.clone());
    }
    let family = carried.profile.family;
    if list.family != family {
        return Err(format!("the list is of another family than {}", carried.set.os));
    }
    match family {
        Family::Deb => {
            let all =
                deb::status::read(list.list.as_bytes(), carried.pool.arch()).map_err(|error| error.to_string())?;
            Ok(Baseline::of_status(all, &carried.pool))
        }
        Family::Rpm => {
            let packages = rpm::installed::read(&list.list).map_err(|error| error.to_string())?;
            Ok(Baseline::of_rpm(packages, &list.list, &carried.pool))
        }
    }
}
