//! Units of packages. Debian enables the units of new packages, and elsewhere a preset may do so;
//! [`kubexm_plan::op::Unit`] ops decide what runs, so new units are disabled afterwards. That works on every system,
//! and without a preset file, which older helpers of Debian do not read.

use std::collections::BTreeMap;

use kubexm_plan::op::UnitWas;
use kubexm_spec::Family;

use crate::system::Program;
use crate::systemd::{self, systemctl};
use crate::{Machine, OpError};

/// Folders where packages install units.
const FOLDERS: [&str; 2] = ["/lib/systemd/system/", "/usr/lib/systemd/system/"];
/// Folder of init scripts; systemd generates units for them.
const SCRIPTS: &str = "/etc/init.d/";
const KINDS: [&str; 6] = ["service", "socket", "timer", "path", "target", "mount"];

/// Units of these packages that are running or enabled.
pub(super) fn of_interest(
    family: Family,
    machine: &Machine,
    packages: &[String],
) -> Result<BTreeMap<String, UnitWas>, OpError> {
    let mut found = BTreeMap::new();
    for unit in of(family, machine, packages)? {
        let was = UnitWas { enabled: is(machine, "is-enabled", &unit)?, active: is(machine, "is-active", &unit)? };
        if was.enabled || was.active {
            found.insert(unit, was);
        }
    }
    Ok(found)
}

/// Units of these packages that are running.
pub(super) fn active(family: Family, machine: &Machine, packages: &[String]) -> Result<Vec<String>, OpError> {
    let found = of_interest(family, machine, packages)?;
    Ok(found.into_iter().filter(|(_, was)| was.active).map(|(unit, _)| unit).collect())
}

/// Stops units, since the packages' scripts are not allowed to.
pub(super) fn stop(machine: &Machine, units: &[String]) -> Result<(), OpError> {
    units.iter().try_for_each(|unit| systemd::stop(machine, unit))
}

/// Stops and disables the units of these packages.
pub(super) fn quiet(family: Family, machine: &Machine, packages: &[String]) -> Result<(), OpError> {
    for (unit, was) in of_interest(family, machine, packages)? {
        if was.enabled {
            systemd::enable(machine, &unit, false)?;
        }
        if was.active {
            systemd::stop(machine, &unit)?;
        }
    }
    Ok(())
}

/// Restores the units to their earlier state.
pub(super) fn bring_back(machine: &Machine, units: &BTreeMap<String, UnitWas>) -> Result<(), OpError> {
    for (unit, was) in units {
        if was.enabled && !is(machine, "is-enabled", unit)? {
            systemd::reload_if_needed(machine, unit)?;
            systemd::enable(machine, unit, true)?;
        }
        if was.active && !is(machine, "is-active", unit)? {
            machine.run(&systemctl(["start", unit]))?;
        }
    }
    Ok(())
}

/// Sockets and timers come before the services that they would start again.
fn of(family: Family, machine: &Machine, packages: &[String]) -> Result<Vec<String>, OpError> {
    if packages.is_empty() {
        return Ok(Vec::new());
    }
    let list = match family {
        Family::Deb => Program::new("dpkg-query").arg("--listfiles"),
        Family::Rpm => Program::new("rpm").args(["-q", "--list"]),
    };
    let output = machine.try_run(&list.args(packages.iter().cloned()))?;
    // Exit code 1 (for rpm: their number): packages that are not installed, reported on stderr.
    if family == Family::Deb && output.code > 1 {
        return Err(super::run::failed("dpkg-query --listfiles", &output));
    }
    let listed = output.stdout();
    let mut units: Vec<String> = listed.lines().filter_map(unit).map(str::to_owned).collect();
    let scripts = listed.lines().filter_map(|path| path.strip_prefix(SCRIPTS)).map(|name| format!("{name}.service"));
    let scripts: Vec<String> = scripts.filter(|unit| !units.contains(unit)).collect();
    units.extend(scripts);
    units.sort_by_key(|unit| (unit.ends_with(".service"), unit.clone()));
    units.dedup();
    Ok(units)
}

/// Templates are not units without an instance name.
fn unit(path: &str) -> Option<&str> {
    let name = FOLDERS.iter().find_map(|folder| path.strip_prefix(folder))?;
    let (stem, kind) = name.rsplit_once('.')?;
    (KINDS.contains(&kind) && !name.contains('/') && !stem.ends_with('@')).then_some(name)
}

/// Whether `is-enabled` or `is-active` answers with the expected word; the word for an unknown unit is another one.
fn is(machine: &Machine, question: &str, unit: &str) -> Result<bool, OpError> {
    let answer = machine.try_run(&systemctl([question, unit]))?.stdout();
    Ok(matches!(answer.trim(), "enabled" | "enabled-runtime" | "active" | "activating" | "reloading"))
}
