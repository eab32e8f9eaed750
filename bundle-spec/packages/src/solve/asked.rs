//! What a solve is asked for.

use super::PackageId;

/// A root and the packages any of which will do, the preferred first.
pub(super) struct Asked<'r> {
    pub(super) name: &'r str,
    pub(super) words: Box<str>,
    pub(super) ways: Vec<PackageId>,
}
