//! Versions (rpm: epoch, version, release).

use std::cmp::Ordering;

/// The order of two versions.
pub fn compare(one: &str, other: &str) -> Ordering {
    one.cmp(other)
}
