//! The input of the package managers: an op on a machine, and what is to be done for it.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::op::{Packages, WantedPackage};

use crate::{Machine, OpError};

/// An op on a machine.
pub(super) struct OnHost<'a> {
    pub op: &'a Packages,
    pub machine: &'a Machine,
}

/// The work of one converge.
pub(super) struct Work<'a> {
    pub on: &'a OnHost<'a>,
    /// Packages to install or upgrade.
    pub missing: BTreeMap<&'a str, &'a WantedPackage>,
    /// Packages to remove for them.
    pub leaving: BTreeMap<&'a str, &'a WantedPackage>,
}

impl OnHost<'_> {
    /// Timeout of the package manager in seconds: not less than the step's.
    pub(super) fn limit_s(&self) -> u64 {
        self.op.limit_s()
    }

    /// Folder for the package manager's files while it runs.
    pub(super) fn folder(&self) -> String {
        format!("{}/.work", self.op.repository)
    }
}

/// Refuses what a package manager would do besides the plan: `install NAME VERSION`, `remove NAME`.
pub(super) fn as_planned_but(other: &BTreeSet<String>, manager: &str) -> Result<(), OpError> {
    if other.is_empty() {
        return Ok(());
    }
    let other: Vec<&str> = other.iter().map(String::as_str).collect();
    Err(OpError::other(format!(
        "{manager} would also {}, which is not in the plan: the packages of this host were changed since it was \
         planned; plan again",
        other.join(", ")
    )))
}

pub(super) fn by_name<'a>(
    packages: impl Iterator<Item = (&'a String, &'a WantedPackage)>,
) -> BTreeMap<&'a str, &'a WantedPackage> {
    packages.map(|(name, package)| (name.as_str(), package)).collect()
}
