//! Packages that a reset removes.

use std::collections::BTreeMap;

use kubexm_spec::Family;

use crate::observed_state::StateError;
use crate::op::{Op, PackageState, Packages, Reset};

/// How a package is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Removal {
    /// With its configuration, and with the data that its scripts delete (dpkg's purge).
    Purged,
    /// Its changed configuration and its data are kept.
    Removed,
}

/// The packages to remove, and how: decided by the state that was found before each was installed. Packages that
/// another package needs by now are kept.
pub fn packages_to_remove(reset: &Reset) -> Result<BTreeMap<&str, Removal>, StateError> {
    let mut going = BTreeMap::new();
    let Reset::Reverted { ops, before } = reset else { return Ok(going) };
    for (op, found) in ops.iter().zip(before) {
        let Op::Packages(packages) = op else { continue };
        let was = found.state::<Packages>()?.packages;
        for name in packages.packages.keys() {
            let leaves = match (was.get(name), packages.family) {
                (Some(PackageState::Absent), Family::Deb) => Removal::Purged,
                (Some(PackageState::Absent), Family::Rpm) | (Some(PackageState::Configuration), _) => Removal::Removed,
                _ => continue,
            };
            // The newest op comes first, so the oldest observation is written last and counts.
            going.insert(name.as_str(), leaves);
        }
    }
    Ok(going)
}
