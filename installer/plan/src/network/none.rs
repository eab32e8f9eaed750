//! No network of ours: the operator installs one. What it leaves on a node under names that no network here has is the
//! operator's to clean up.

use super::traits::{NOTHING, NetworkTraits};

pub(super) const TRAITS: NetworkTraits = NOTHING;
