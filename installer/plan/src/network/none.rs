//! No network of ours: the operator installs one, and its folders, links and rules are the operator's.

use super::traits::{NOTHING, NetworkTraits};

pub(super) const TRAITS: NetworkTraits = NOTHING;
