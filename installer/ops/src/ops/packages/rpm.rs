//! Queries rpm, and calls rpm directly for removing and restoring packages.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_packages::rpm::version::compare;
use kubexm_plan::op::{PackageState, Packages, WantedPackage};

use super::run::{failed, run, run_on};
use super::work::{OnHost, by_name};
use crate::system::Program;
use crate::systemd::systemctl;
use crate::{Machine, OpError};

/// Name, architecture, version, and provided names; epoch 0 is omitted.
const FORMAT: &str = "%{NAME}\\t%{ARCH}\\t%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\\t[%{PROVIDENAME} ]\\n";
/// Timeout of a query in seconds, including waiting for another rpm.
const LIMIT_S: u64 = 300;

/// An installed package with all versions of one architecture.
struct Installed {
    name: String,
    arch: String,
    /// The oldest first.
    versions: Vec<String>,
    /// Several versions are normally installed at the same time: kernels (`installonlypkgs` of dnf.conf(5)).
    side_by_side: bool,
}

impl Installed {
    /// Older versions that an update has left, if it was interrupted before their removal.
    fn left_over(&self) -> &[String] {
        if self.side_by_side { &[] } else { &self.versions[..self.versions.len().saturating_sub(1)] }
    }
}

/// The state of each package, by name; packages that are not installed are omitted.
pub(super) fn states(
    machine: &Machine,
    wanted: &BTreeMap<&str, &WantedPackage>,
) -> Result<BTreeMap<String, PackageState>, OpError> {
    let mut found: BTreeMap<String, PackageState> = BTreeMap::new();
    for installed in all(machine, wanted)? {
        let whole = installed.left_over().is_empty();
        let Some(newest) = installed.versions.last() else { continue };
        let older = |known: &PackageState| matches!(known, PackageState::Installed { version, .. } if compare(version, newest).is_lt());
        if found.get(&installed.name).is_none_or(older) {
            found.insert(installed.name, PackageState::Installed { version: newest.clone(), whole });
        }
    }
    Ok(found)
}

fn all(machine: &Machine, wanted: &BTreeMap<&str, &WantedPackage>) -> Result<Vec<Installed>, OpError> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let query = Program::new("rpm").args(["-q", "--queryformat", FORMAT]).args(wanted.keys().copied()).within(LIMIT_S);
    let output = machine.try_run(&query)?;
    let listed = output.stdout();
    let mut found: Vec<Installed> = Vec::new();
    let mut unknown = 0;
    for line in listed.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, arch, version, provides] = fields[..] else {
            unknown += 1;
            continue;
        };
        if !wanted.get(name).is_some_and(|one| arch == one.arch || arch == "noarch" || one.arch == "noarch") {
            continue;
        }
        let side_by_side = provides.contains("installonlypkg(") || provides.contains("multiversion(");
        let side_by_side = side_by_side || name.starts_with("kernel");
        match found.iter_mut().find(|one| one.name == name && one.arch == arch) {
            Some(known) => known.versions.push(version.to_owned()),
            None => found.push(Installed {
                name: name.to_owned(),
                arch: arch.to_owned(),
                versions: vec![version.to_owned()],
                side_by_side,
            }),
        }
    }
    // Its exit code is the number of packages that are not installed, each reported on a line; without such lines the
    // query failed.
    if output.code != 0 && unknown == 0 {
        return Err(failed("rpm -q", &output));
    }
    found.iter_mut().for_each(|one| one.versions.sort_by(|one, other| compare(one, other)));
    Ok(found)
}

/// Completes interrupted updates by removing the versions that newer ones have replaced.
pub(super) fn fix(on: &OnHost<'_>) -> Result<(), OpError> {
    let (machine, op) = (on.machine, on.op);
    let mut old: Vec<String> = Vec::new();
    for one in all(machine, &by_name(op.packages.iter().chain(&op.replaced)))? {
        // rpm accepts no epoch here; two versions that differ only in it are ambiguous, and rpm refuses them.
        let plain = |version: &String| version.split_once(':').map_or(version.clone(), |(_, rest)| rest.to_owned());
        old.extend(one.left_over().iter().map(|version| format!("{}-{}.{}", one.name, plain(version), one.arch)));
    }
    if old.is_empty() {
        return Ok(());
    }
    let what = format!("rpm --erase of what an interrupted update has left ({})", old.join(", "));
    let erase = Program::new("rpm").arg("--erase").args(old).within(op.limit_s());
    run_on(machine, &what, &quiet(erase))
}

/// Scripts that call systemctl change files, but start, stop and restart nothing (systemd's `docs/ENVIRONMENT.md`;
/// since 238). [`reload`] then lets systemd read the changed files.
pub(super) fn quiet(program: Program) -> Program {
    program.env("SYSTEMD_OFFLINE", "1")
}

/// Lets systemd read units that were added or removed without its knowledge.
pub(super) fn reload(machine: &Machine) -> Result<(), OpError> {
    run(machine, "systemctl daemon-reload", &systemctl(["daemon-reload"])).map(drop)
}

/// Removes packages that were not installed before. Packages that another one needs by now are kept, with their
/// dependencies.
pub(super) fn remove(machine: &Machine, op: &Packages, going: &BTreeMap<String, PackageState>) -> Result<(), OpError> {
    let free = free_of(machine, &op.packages, going)?;
    if free.is_empty() {
        return Ok(());
    }
    let what = format!("rpm --erase of {} packages", free.len());
    let erased = run_on(machine, &what, &quiet(Program::new("rpm").arg("--erase").args(free).within(op.limit_s())));
    erased.and(reload(machine))
}

/// Packages that no other package needs, with their architectures, from a simulated removal.
pub(super) fn free_of(
    machine: &Machine,
    wanted: &BTreeMap<String, WantedPackage>,
    going: &BTreeMap<String, PackageState>,
) -> Result<Vec<String>, OpError> {
    let mut names: BTreeSet<&str> = going.keys().map(String::as_str).collect();
    while !names.is_empty() {
        let full: Vec<String> = names.iter().map(|name| named(name, wanted.get(*name))).collect();
        let erase = Program::new("rpm").args(["--erase", "--test"]).args(full.clone()).within(LIMIT_S);
        let output = machine.try_run(&erase)?;
        if output.code == 0 {
            return Ok(full);
        }
        let kept = needed(machine, &String::from_utf8_lossy(&output.stderr), &names)?;
        if kept.is_empty() {
            return Err(failed(&format!("rpm --erase --test of {} packages", names.len()), &output));
        }
        names.retain(|name| !kept.contains(*name));
    }
    Ok(Vec::new())
}

/// `socat.x86_64`: if it is installed for two architectures, the name alone is ambiguous.
pub(super) fn named(name: &str, package: Option<&WantedPackage>) -> String {
    package.map_or_else(|| name.to_owned(), |package| format!("{name}.{}", package.arch))
}

/// The packages that others need, from rpm's messages: `X is needed by (installed) NAME-VERSION-RELEASE.ARCH`.
fn needed(machine: &Machine, said: &str, names: &BTreeSet<&str>) -> Result<BTreeSet<String>, OpError> {
    let others: BTreeSet<&str> = said
        .lines()
        .filter_map(|line| line.split_once(" is needed by (installed) "))
        .map(|(_, by)| by.trim())
        .collect();
    if others.is_empty() {
        return Ok(BTreeSet::new());
    }
    let requires = Program::new("rpm").args(["-q", "--requires"]).args(others);
    let wants = machine.try_run(&requires)?.stdout();
    let wants: BTreeSet<&str> = wants.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let provides = Program::new("rpm").args(["-q", "--whatprovides", "--queryformat", "%{NAME}\\n"]).args(wants);
    let by = machine.try_run(&provides)?.stdout();
    Ok(by.lines().filter(|name| names.contains(name)).map(str::to_owned).collect())
}

/// Installs exactly these files.
pub(super) fn put_back(machine: &Machine, op: &Packages, files: &[String]) -> Result<(), OpError> {
    let install = Program::new("rpm").arg("--install").args(files.iter().cloned()).within(op.limit_s());
    let installed = run_on(machine, &format!("rpm --install of {} packages", files.len()), &quiet(install));
    installed.and(reload(machine))
}
