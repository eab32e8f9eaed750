//! No network is installed by kubexm: the operator installs one, and has to clean up what it leaves on nodes under
//! names that are not listed here.

use super::traits::{NOTHING, NetworkTraits};

pub(super) const TRAITS: NetworkTraits = NOTHING;
