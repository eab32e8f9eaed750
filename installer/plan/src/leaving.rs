//! Packages that a reset removes.

use std::collections::BTreeMap;

use kubexm_spec::Family;

use crate::observed_state::StateError;
use crate::op::{Op, PackageState, Packages, Reset};

/// How a package goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leaves {
    /// With its configuration, and with what its scripts delete of its data: dpkg's word.
    Purged,
    /// Its changed configuration and its data stay.
    Removed,
}

/// Packages that go, and how: of each what was found before it came. Those that somebody else's package needs by then stay.
pub fn packages_that_go(reset: &Reset) -> Result<BTreeMap<&str, Leaves>, StateError> {
    let mut going = BTreeMap::new();
    let Reset::Reverted { ops, before } = reset else { return Ok(going) };
    for (op, found) in ops.iter().zip(before) {
        let Op::Packages(packages) = op else { continue };
        let was = found.state::<Packages>()?.packages;
        for name in packages.packages.keys() {
            let leaves = match (was.get(name), packages.family) {
                (Some(PackageState::Absent), Family::Deb) => Leaves::Purged,
                (Some(PackageState::Absent), Family::Rpm) | (Some(PackageState::Configuration), _) => Leaves::Removed,
                _ => continue,
            };
            // The oldest look is the one that counts: the newest op comes first.
            going.insert(name.as_str(), leaves);
        }
    }
    Ok(going)
}
