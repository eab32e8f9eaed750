//! kubexm installs no network: the operator does. What it leaves on a node under names that no network here has is the
//! operator's to clean up.

use super::traits::{NOTHING, NetworkTraits};

pub(super) const TRAITS: NetworkTraits = NOTHING;
