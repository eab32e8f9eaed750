//! What a host has installed already.

use std::collections::BTreeSet;

use crate::model::Package;

/// All that a host has installed. Nothing of it is ever removed or made older.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// In any order, of any architecture; repository, location, size and digest mean nothing here.
    pub packages: Vec<Package>,
    /// Names that the administrator holds at their version.
    pub held: BTreeSet<Box<str>>,
}

impl Baseline {
    /// Of a host that has nothing: the closure is self-sufficient.
    pub fn empty() -> Self {
        Self::default()
    }
}

impl From<Vec<crate::deb::status::Installed>> for Baseline {
    fn from(installed: Vec<crate::deb::status::Installed>) -> Self {
        let held = installed.iter().filter(|one| one.held).map(|one| one.package.name.clone()).collect();
        Self { packages: installed.into_iter().map(|one| one.package).collect(), held }
    }
}
