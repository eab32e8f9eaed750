//! Operating system packages, installed by the distribution's package manager from kubexm's repository.
//!
//! The package manager gets names with versions, and only kubexm's repository. Its lists and caches are in a folder of
//! kubexm and deleted afterwards. No unit of a package is started or left enabled: [`kubexm_plan::op::Unit`] ops do
//! that. A rollback removes exactly the packages that were not installed before.

mod apt;
mod dnf;
mod dnf_transaction;
mod dpkg;
mod keys;
mod package_transaction;
mod policy;
mod rpm;
mod run;
mod units;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use kubexm_packages::family::compare;
use kubexm_plan::op::{PackageState, Packages, PackagesState, WantedPackage};
use kubexm_plan::{ObservedState, Op};
use kubexm_spec::Family;
use package_transaction::PackageTransaction;

use work::{OnHost, Work, by_name};

use crate::path_state::{self, Look, PathState, PutBack};
use crate::teardown::mounts;
use crate::{Converge, Machine, OpError, Wave, fsio, paths};

/// Whether it is completely installed, and not older than the desired version.
fn is_at_least(state: &PackageState, family: Family, wanted: &WantedPackage) -> bool {
    match state {
        PackageState::Installed { version, whole: true } => compare(family, version, &wanted.version).is_ge(),
        _ => false,
    }
}

impl Converge for Packages {
    fn observe(&self, machine: &Machine) -> Result<PackagesState, OpError> {
        let on = OnHost { op: self, machine };
        let packages = on.states()?;
        let replaced = self.replaced.keys().map(String::as_str);
        let leaving = on.full_names(replaced.filter(|name| packages[*name].is_installed()));
        let keys = if self.family == Family::Rpm { keys::trusted(machine)? } else { BTreeSet::new() };
        let begun = PackageTransaction::read(machine)?.is_some_and(|begun| begun.is_of(self));
        Ok(PackagesState {
            units: units::of_interest(self.family, machine, &leaving)?,
            links: self.links().map(|(link, _)| PathState::look(machine, &link)).collect::<Result<_, _>>()?,
            packages,
            keys,
            begun,
        })
    }

    /// The links are only needed for installing: they may be missing if everything is installed.
    fn satisfied(&self, found: &PackagesState, _: &Machine) -> bool {
        let there = |(name, wanted): (&String, &WantedPackage)| {
            found.packages.get(name).is_some_and(|state| is_at_least(state, self.family, wanted))
        };
        !found.begun && self.packages.iter().all(there)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let on = OnHost { op: self, machine };
        let mut begun = PackageTransaction::take_up(machine)?;
        let now = on.states()?;
        begun.fresh.extend(self.packages.keys().filter(|name| !now[*name].is_installed()).cloned());
        begun.keys = match self.family {
            Family::Deb => None,
            Family::Rpm => Some(keys::Watched::begin(machine, &self.repository)?),
        };
        begun.works(machine, self)?;
        let result = policy::while_forbidden(self.family, machine, &mut begun, || on.install());
        begun.act = None;
        let trusted = begun.keys.as_ref().map_or(Ok(()), |watched| watched.end(machine));
        if trusted.is_ok() {
            begun.keys = None;
        }
        // Units of partly installed packages are disabled too.
        let settled = on.settle(&mut begun);
        begun.leave(machine)?;
        let result = match result {
            // The result decides: if all packages are installed and configured, something else has failed (a hook of
            // the host after dpkg, a package that was incomplete before). The log of the act has the details.
            Err(OpError::Program { .. }) if settled.is_ok() => Ok(()),
            other => other.and(settled),
        };
        result.and(trusted)
    }

    fn restore(&self, machine: &Machine, before: &PackagesState, wave: Wave) -> Result<(), OpError> {
        let on = OnHost { op: self, machine };
        match wave {
            Wave::Stop => {
                drop(PackageTransaction::take_up(machine)?);
                // Packages that others need by now are kept, and keep running.
                let going = on.going(before)?;
                let free = match self.family {
                    Family::Deb => dpkg::free_of(machine, &self.packages, &going)?,
                    Family::Rpm => rpm::free_of(machine, &self.packages, &going)?,
                };
                units::stop(machine, &units::active(self.family, machine, &free)?)
            }
            Wave::Data => {
                let mut begun = PackageTransaction::take_up(machine)?;
                begun.fresh.retain(|name| !self.packages.contains_key(name));
                begun.works(machine, self)?;
                let result = policy::while_forbidden(self.family, machine, &mut begun, || on.roll_back(before));
                begun.act = None;
                begun.leave(machine)?;
                result
            }
            Wave::Start => units::bring_back(machine, &before.units),
        }
    }
}

/// Completes an interrupted installation of a step that cannot be rolled back, so that nothing of kubexm blocks other
/// programs. Its imported keys are removed: installed packages do not need them.
pub(crate) fn let_go(machine: &Machine, ops: &[Op], before: &[ObservedState], wave: Wave) -> Result<(), OpError> {
    if PackageTransaction::read(machine)?.is_some() {
        let mut begun = PackageTransaction::take_up(machine)?;
        begun.act = None;
        policy::allow(machine, &mut begun)?;
        begun.leave(machine)?;
    }
    let of_rpm = |op: &Op| matches!(op, Op::Packages(packages) if packages.family == Family::Rpm);
    for (_, seen) in ops.iter().zip(before).filter(|(op, _)| wave == Wave::Data && of_rpm(op)) {
        keys::forget(machine, &seen.state::<Packages>()?.keys)?;
    }
    Ok(())
}

/// Removes every key that was imported with kubexm's packages, since nothing will remember them.
pub(crate) fn forget_keys(machine: &Machine) -> Result<(), OpError> {
    keys::forget(machine, &BTreeSet::new())
}

/// Waits until no package manager started by kubexm is running.
pub(crate) fn wait(machine: &Machine) -> Result<(), OpError> {
    PackageTransaction::read(machine)?.map_or(Ok(()), |begun| begun.wait(machine))
}

impl OnHost<'_> {
    /// The state of each package of the op.
    fn states(&self) -> Result<BTreeMap<String, PackageState>, OpError> {
        let wanted = by_name(self.op.packages.iter().chain(&self.op.replaced));
        let found = match self.op.family {
            Family::Deb => dpkg::states(self.machine, &wanted)?,
            Family::Rpm => rpm::states(self.machine, &wanted)?,
        };
        let of = |name: &&str| found.get(*name).cloned().unwrap_or(PackageState::Absent);
        Ok(wanted.keys().map(|name| ((*name).to_owned(), of(name))).collect())
    }

    /// Names with architectures: if a package is installed for two architectures, the bare name is ambiguous.
    fn full_names<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<String> {
        let wanted = |name: &str| self.op.packages.get(name).or_else(|| self.op.replaced.get(name));
        names
            .map(|name| match self.op.family {
                Family::Deb => dpkg::named(name, wanted(name)),
                Family::Rpm => rpm::named(name, wanted(name)),
            })
            .collect()
    }

    /// Completes interrupted installations, then installs missing packages.
    fn install(&self) -> Result<(), OpError> {
        let (op, machine) = (self.op, self.machine);
        self.link()?;
        match op.family {
            Family::Deb => dpkg::fix(machine, op)?,
            Family::Rpm => rpm::fix(self)?,
        }
        let now = self.states()?;
        let missing = op.packages.iter().filter(|(name, one)| !is_at_least(&now[*name], op.family, one));
        let leaving = op.replaced.iter().filter(|(name, _)| now[*name].is_installed());
        let work = Work { on: self, missing: by_name(missing), leaving: by_name(leaving) };
        if work.missing.is_empty() {
            return Ok(());
        }
        let leaving = self.full_names(work.leaving.keys().copied());
        units::stop(machine, &units::active(op.family, machine, &leaving)?)?;
        match op.family {
            Family::Deb => apt::install(&work),
            Family::Rpm => dnf::install(&work),
        }
    }

    /// Creates the repository's links to the packages.
    fn link(&self) -> Result<(), OpError> {
        for (link, blob) in self.op.links() {
            let target = format!("{}/blobs/sha256/{}", paths::STORE, blob.hex());
            let now = std::fs::read_link(self.machine.path(&link));
            if !now.is_ok_and(|now| now.as_os_str() == target.as_str()) {
                path_state::put_link(self.machine, &link, &target)?;
            }
        }
        Ok(())
    }

    /// Disables the units of newly installed packages, and verifies that all packages are installed.
    fn settle(&self, begun: &mut PackageTransaction) -> Result<(), OpError> {
        let now = self.states()?;
        let whole = |name: &String| matches!(now.get(name), Some(PackageState::Installed { whole: true, .. }));
        let came = self.full_names(begun.fresh.iter().filter(|name| whole(name)).map(String::as_str));
        units::quiet(self.op.family, self.machine, &came)?;
        begun.fresh.retain(|name| !whole(name));
        match self.op.packages.iter().find(|(name, wanted)| !is_at_least(&now[*name], self.op.family, wanted)) {
            None => Ok(()),
            Some((name, wanted)) => Err(OpError::other(format!(
                "{name} {} is not installed, though the package manager reported success; is it held or excluded on \
                 this host?",
                wanted.version
            ))),
        }
    }

    /// Packages that are installed now and were not before, with their earlier state. A version other than kubexm's
    /// belongs to somebody else by now.
    fn going(&self, before: &PackagesState) -> Result<BTreeMap<String, PackageState>, OpError> {
        let now = self.states()?;
        let was = |name: &String| before.packages.get(name).cloned().unwrap_or(PackageState::Absent);
        let ours = |(name, wanted): &(&String, &WantedPackage)| match &now[*name] {
            PackageState::Installed { version, whole: true } => {
                compare(self.op.family, version, &wanted.version).is_eq()
            }
            _ => true,
        };
        let going = |name: &String| !was(name).is_installed() && now[name] != was(name);
        let all = self.op.packages.iter().filter(|(name, _)| going(name)).filter(ours);
        Ok(all.map(|(name, _)| (name.clone(), was(name))).collect())
    }

    /// Removes installed packages and reinstalls removed ones; upgraded ones are kept.
    fn roll_back(&self, before: &PackagesState) -> Result<(), OpError> {
        let (op, machine) = (self.op, self.machine);
        let going = self.going(before)?;
        match op.family {
            Family::Deb => dpkg::remove(machine, op, &going)?,
            Family::Rpm => rpm::remove(machine, op, &going)?,
        }
        let now = self.states()?;
        let left = |name: &str| before.packages.get(name).is_some_and(PackageState::is_installed);
        let whole = |name: &String| matches!(now[name], PackageState::Installed { whole: true, .. });
        let back = by_name(op.replaced.iter().filter(|(name, _)| left(name) && !whole(name)));
        if !back.is_empty() {
            self.link()?;
            let files = self.files(&back)?;
            match op.family {
                Family::Deb => dpkg::put_back(machine, op, &files)?,
                Family::Rpm => rpm::put_back(machine, op, &files)?,
            }
        }
        if op.family == Family::Rpm {
            keys::forget(machine, &before.keys)?;
        }
        mounts::remove_tree(machine, &self.folder())?;
        before.links.iter().rev().try_for_each(|place| place.restore(machine))
    }

    /// Paths of packages for dpkg or rpm, which do not verify them: each is compared with its digest.
    fn files(&self, packages: &BTreeMap<&str, &WantedPackage>) -> Result<Vec<String>, OpError> {
        let file = |(name, package): (&&str, &&WantedPackage)| {
            let blob = self.machine.blob(&package.blob);
            if !blob.is_file() || fsio::digest(&blob)? != package.blob {
                return Err(OpError::other(format!(
                    "{name} {} cannot be restored: {} is incomplete on this host; install it by hand",
                    package.version,
                    blob.display()
                )));
            }
            Ok(format!("{}/{}", self.op.repository, package.file))
        };
        packages.iter().map(file).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};
    use crate::fake::host::Host;

    impl Cases for Packages {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[
            ("packages that are not there", |h| {
                has(h, "base-files");
                packages(h, &["socat", "libwrap0"], &[])
            }),
            ("a package in the place of another", |h| {
                has(h, "systemd-timesyncd");
                packages(h, &["chrony"], &["systemd-timesyncd"])
            }),
        ]);
    }

    /// A package that the host had before.
    fn has(host: &Host, name: &str) {
        let status = format!("Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.0\n\n");
        host.put("/var/lib/dpkg/status", status);
        host.put(&format!("/usr/share/doc/{name}/version"), "1.0");
    }

    /// Packages of a repository that is there, but for its links.
    fn packages(host: &Host, wanted: &[&str], replaced: &[&str]) -> Packages {
        let repository = "/var/lib/kubexm/repos/debian-12-amd64";
        host.put(&format!("{repository}/kubexm.list"), "deb file:/var/lib/kubexm/repos/debian-12-amd64 ./\n");
        let package = |name: &&str| {
            let (version, arch) = ("1.0".to_owned(), "amd64".to_owned());
            let (file, blob) = (format!("{name}_1.0_amd64.deb"), host.blob(name));
            ((*name).to_owned(), WantedPackage { version, arch, file, blob, upgrade: false })
        };
        Packages {
            family: Family::Deb,
            repository: repository.into(),
            source: format!("{repository}/kubexm.list"),
            packages: wanted.iter().map(package).collect(),
            replaced: replaced.iter().map(package).collect(),
        }
    }
}
